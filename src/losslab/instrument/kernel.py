"""Build the virtual-time kernel from pinned source with losslab's configuration and patches."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import cache, integrity, kernels, kerneltree, packed
from losslab.instrument.cache import building, hash_files, progress
from losslab.instrument.debian import apt_files, archive_urls, debian_archives, snapshot_urls
from losslab.instrument.fetch import Fetcher, File, digest
from losslab.instrument.kernels import Kernel, Series
from losslab.instrument.part import Part, pinned_or_newest
from losslab.reading import read_toml
from losslab.repository import ROOT

DEBIAN = "debian"
# Most of the source's 80,000 files, which `make ARCH=um` never reads: other architectures, drivers,
# documents. Their Kconfig files and Makefiles stay, because others include them.
UNREAD_FOLDERS = (
    "arch/[!ux]*", "arch/xtensa", "drivers/gpu", "drivers/media", "drivers/net/ethernet",
    "drivers/net/wireless", "drivers/staging", "drivers/infiniband", "drivers/scsi", "drivers/iio",
    "drivers/usb", "drivers/clk", "drivers/pinctrl", "drivers/platform", "drivers/video",
    "drivers/hwmon", "drivers/mfd", "drivers/accel", "sound", "Documentation", "tools/perf",
    "tools/testing",
)  # fmt: skip
UNREAD_FILES = (
    "*.[chS]", "*.dts", "*.dtsi", "*.dtso", "*.rst", "*.txt", "*.yaml", "*.json", "*.svg",
)  # fmt: skip


@dataclass(frozen=True)
class Build:
    """Debian's package of the source, built for one Debian release."""

    version: str
    path: str
    size_bytes: int
    sha256: str
    sha1: str

    @property
    def file(self) -> File:
        """The .deb file, identified by its content."""
        return File(Path(self.path).name, self.sha256, self.size_bytes)


@dataclass(frozen=True)
class Pins:
    """Content of source.toml."""

    version: str
    builds: tuple[Build, ...]

    def facts(self) -> list[str]:
        """List the facts that identify the source."""
        return [DEBIAN, self.version, *(build.sha256 for build in self.builds)]


@dataclass(frozen=True)
class Source:
    """Source on this machine: Debian's package, or a user's own tarball.

    `version` is the kernel's, or Debian's if it is not pinned; empty for a user's own source, whose
    `origin` is its address. The file has its SHA-256 as its name.
    """

    series: Series
    origin: str
    version: str
    file: Path
    pinned: bool

    def provenance(self) -> dict[str, str]:
        """Return origin and version, and the hash of an unpinned source or a user's own."""
        facts = {"from": self.origin, "version": self.version}
        return facts if self.pinned and self.version else facts | {"sha256": self.file.name}

    def unpack(self, work: Path, tree: Path, log: Path) -> None:
        """Unpack the source into `tree`, with intermediate files in `work`."""
        tarball = self.file
        if self.origin == DEBIAN:
            processes.run(["dpkg-deb", "-x", tarball, work / "package"], log=log)
            tarball = work / "package" / self.series.tarball
        tree.mkdir()
        unread = [f"--exclude=*/{folder}/{of}" for folder in UNREAD_FOLDERS for of in UNREAD_FILES]
        command: list[str | Path] = ["tar", "-xf", tarball, "--strip-components=1", "-C", tree]
        processes.run([*command, "--wildcards", *unread], log=log)


def pins(series: Series) -> Pins:
    """Read a series' source.toml, which has nothing but the fields of `Pins` and `Build`."""
    try:
        data = read_toml(series.pins)
        builds = tuple(Build(**build) for build in data.pop("debian"))
        return Pins(builds=builds, **data)
    except (KeyError, TypeError) as error:
        raise LosslabError(
            f"{series.pins} must name version and debian, found: {error!r}",
            hint="restore it (`git checkout`)",
        ) from error


def fetch_source(series: Series, pinned: bool = True) -> Source:
    """Download the source of a series, pinned or Debian's newest.

    Any of Debian's pinned builds is taken from the archive before the snapshot archive is asked.
    Raises UnavailableError if no place has it.
    """
    archives = debian_archives()
    if not pinned:
        (file, path), *_ = apt_files(archives, series.suites, ["download", series.package])
        newest = Fetcher().fetch((file, url) for url in archive_urls(path, archives))
        return Source(series, DEBIAN, file.name.split("_")[1], newest, pinned=False)
    known = pins(series)
    places = [(each, url) for each in known.builds for url in archive_urls(each.path, archives)]
    places += [(each, url) for each in known.builds for url in snapshot_urls(sha1=each.sha1)]
    found = Fetcher().fetch((each.file, url) for each, url in places)
    return Source(series, DEBIAN, known.version, found, pinned=True)


RECIPE = ROOT / "containers" / "kernel"
# Configuration fragment of every kernel; a series' folder may have its own.
FRAGMENT = "fragment.config"
LOG = "build.log"  # in the folder of a kernel
DEBUG = "linux.debug"  # likewise, with the lines of added files (`backends.crash`)
BUILD_TAKES = "ten minutes of CPU time"
ADDITION_TAKES = "half a minute"
provenance = cache.provenance
Examine = Callable[[Path, Kernel], None]


def fragments(spec: Kernel) -> list[Path]:
    """List a configuration's fragments: of every kernel, of the series, and the user's own."""
    base, series = RECIPE / FRAGMENT, spec.series.folder / FRAGMENT
    found = [base] if series == base or not series.exists() else [base, series]
    return [*found, spec.fragment] if spec.fragment else found


def content_hash(spec: Kernel | None = None, source: list[str] | None = None) -> str:
    """Hash all inputs of a kernel's build, from Debian's pinned source or another."""
    spec = spec or kernels.default()
    settings = [
        line
        for part in fragments(spec)
        for line in part.read_text().splitlines()
        if line.startswith("CONFIG_")
    ]
    if source is None:
        source = [spec.source.sha256] if spec.source else pins(spec.series).facts()
    files = [path for path in kernels.SOURCE.rglob("*") if path.is_file()]
    return hash_files([*spec.series.patches, *files], *settings, *source, *spec.facts())


def part(spec: Kernel | None = None, examine: Examine | None = None) -> Part:
    """Return a kernel as a part, whose folder has linux, config and provenance.json.

    `examine` may refuse the compiled tree with its added algorithms (`kernelsource.require_room`).
    Making it raises LosslabError if a command fails or a symbol is missing from the finished
    configuration, and UnavailableError without a public patch.
    """
    spec = spec or kernels.default()
    make, plain = functools.partial(_make, spec, examine), spec == spec.base
    return Part(packed.KERNEL, content_hash(spec), make, fetched=plain)


def objects(spec: Kernel) -> Part:
    """Return a kernel's object files as a part (300 MB), which another compiler cannot add to.

    With them, adding an algorithm or a file to the kernel takes seconds.
    """
    make, suffix = functools.partial(_make_objects, spec), f"-{kerneltree.compiler()}"
    return Part(packed.OBJECTS, content_hash(spec), make, suffix)


def _make(spec: Kernel, examine: Examine | None, unpinned: bool) -> Path:
    """Make a kernel from the object files of its base; return its folder."""
    plain = spec == spec.base
    kept = objects(spec.base).build(unpinned)
    facts = provenance(kept)
    made = part(spec).target(facts["pinned"])
    takes = progress(f"kernel {spec.title}", ADDITION_TAKES)
    with contextlib.nullcontext() if plain else takes, building(made) as partial:
        if partial is None:
            return made
        added = spec.algorithms, spec.replaced
        with kerneltree.with_additions(kept, *added, partial / LOG) as tree:
            if examine:
                examine(tree, spec)
            source = None if facts["pinned"] else list(facts["source"].values())
            facts["hash"] = content_hash(spec, source)
            if not plain:
                facts["name"] = spec.name
            if spec.algorithms:
                facts["algorithms"] = spec.algorithm_digests()
            if spec.replaced:
                facts["replaced"] = {each.path: each.sha256 for each in spec.replaced}
                facts["config_sha256"] = digest(tree / ".config")
                unused = kerneltree.not_compiled(tree, [each.path for each in spec.replaced])
                (partial / kerneltree.UNCOMPILED).write_text("".join(f"{u}\n" for u in unused))
            _finish(facts, tree, partial)
    return made


def _make_objects(spec: Kernel, unpinned: bool) -> Path:
    """Compile a kernel; return the folder of its object files."""
    with progress(f"kernel {spec.title}", BUILD_TAKES):
        source = _source(spec, unpinned)
        folder = objects(spec).target(source.pinned)
        with building(folder) as partial:
            if partial is not None:
                tree = _compiled(spec, source, partial, partial / LOG)
                kerneltree.prune(tree)
                cache.write_provenance(partial, _facts(spec, source, tree) | {"hash": folder.name})
    return folder


def _source(spec: Kernel, unpinned: bool) -> Source:
    """Download public patches, then the source: a missing patch fails the build early."""
    for patch in spec.fetched:
        patch.get()
    if spec.source:
        return Source(spec.series, spec.source.address, "", spec.source.get(), pinned=True)
    return pinned_or_newest(functools.partial(fetch_source, spec.series), unpinned, "kernel")


def _compiled(spec: Kernel, source: Source, work: Path, log: Path) -> Path:
    """Unpack, patch, configure and compile a source in `work`; return the tree."""
    log.touch()
    tree = work / kerneltree.NAME
    source.unpack(work, tree, log)
    shutil.copytree(kernels.SOURCE, tree, dirs_exist_ok=True)
    for patch in (*spec.series.patches, *spec.own_patches):
        path = patch if isinstance(patch, Path) else patch.get()
        processes.run(["patch", "-p1", "--forward", "--fuzz=0", "-i", path], log=log, cwd=tree)
    fragment = work / FRAGMENT
    fragment.write_text("".join(part.read_text() for part in fragments(spec)))
    configure = [*kerneltree.MAKE, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment}"]
    processes.run(configure, log=log, cwd=tree)
    missing = dropped_symbols(fragment.read_text(), (tree / ".config").read_text())
    if missing:
        parts = " and ".join(map(str, fragments(spec)))
        raise LosslabError(
            f"every symbol of {parts} must be in the finished .config, found missing: "
            f"{', '.join(missing)}",
            hint="a missing symbol has an unmet dependency or does not exist in this kernel",
        )
    processes.run(kerneltree.MAKE_LINUX, log=log, cwd=tree)
    shutil.rmtree(work / "package", ignore_errors=True)
    return tree


def _finish(facts: dict[str, Any], tree: Path, folder: Path) -> None:
    """Copy a compiled tree's binary and configuration to `folder`; write its provenance."""
    if facts.keys() & {"algorithms", "replaced"}:
        keep: list[str | Path] = ["strip", "--only-keep-debug", "-o", folder / DEBUG]
        processes.run([*keep, tree / "linux"], log=folder / LOG)
    shutil.copy2(tree / "linux", folder / "linux")
    processes.run(["strip", "--strip-debug", folder / "linux"], log=folder / LOG)
    # Not one of the facts below, which every manifest has: compilers differ, results do not.
    (folder / integrity.LINUX_DIGEST).write_text(digest(folder / "linux") + "\n")
    shutil.copyfile(tree / ".config", folder / "config")
    cache.write_provenance(folder, facts)


def _facts(spec: Kernel, source: Source, tree: Path) -> dict[str, Any]:
    facts = {
        "version": processes.run(["make", "-s", "ARCH=um", "kernelversion"], cwd=tree).strip(),
        "pinned": source.pinned,
        "source": source.provenance(),
        "patches": spec.patch_names,
        "config_sha256": digest(tree / ".config"),
    }
    return facts if spec == kernels.default() else facts | {"name": spec.name}


def dropped_symbols(fragment: str, config: str) -> list[str]:
    """List the fragment's symbols without their value in a finished configuration."""
    lines = set(config.splitlines())
    defined = {line.partition("=")[0] for line in lines if "=" in line}
    return [
        name
        for name, value in re.findall(r"^(CONFIG_\w+)=(.+)$", fragment, re.MULTILINE)
        if (name in defined if value == "n" else f"{name}={value}" not in lines)
    ]
