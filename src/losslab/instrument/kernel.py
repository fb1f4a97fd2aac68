"""Build the virtual-time kernel from pinned source with losslab's configuration and patches.

LOSSLAB_KERNEL_ORG replaces the address of kernel.org.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import (
    cache,
    integrity,
    kernels,
    kerneltree,
    packed,
)
from losslab.instrument.archive import (
    ADVICE,
    ARCHIVE_PLACE,
    KERNEL_ORG_PLACE,
    Download,
    Fetcher,
    File,
    Place,
    UnavailableError,
    apt_files,
    debian_archives,
    debian_places,
    digest,
    quoted,
)
from losslab.instrument.cache import building, cache_folder, hash_files, progress
from losslab.instrument.kernels import Kernel, Series
from losslab.reading import read_text, read_toml
from losslab.repository import ROOT

DEBIAN, KERNEL_ORG = "debian", "kernel.org"
KERNEL_ORG_URL = "https://cdn.kernel.org/pub/linux/kernel"
SUMS = "sha256sums.asc"  # kernel.org's list of hashes, in each folder
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
TEMPLATE = """\
# The kernel's source, made by `losslab kernel --relock`; do not edit. The first that can be had is
# taken: Debian's package from Debian's archive, the same file from its snapshot archive (by its
# sha1), kernel.org's tarball of the same version. Every manifest says whose it was.

version = "{version}"
{builds}
# Without Debian's patches. An empty hash: none is known, and this source is refused.
[kernel_org]
path = "{kernel_org_path}"
sha256 = "{kernel_org_sha256}"
"""
BUILD = """
# {title}
[[debian]]
version = "{version}"
path = "{path}"
size_bytes = {size_bytes}
sha256 = "{sha256}"
sha1 = "{sha1}"
"""


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
        return File(Path(self.path).name, self.sha256, self.size_bytes, self.sha1)


@dataclass(frozen=True)
class Pins:
    """Content of source.toml; `kernel_org_sha256` is empty if unknown."""

    version: str
    builds: tuple[Build, ...]
    kernel_org_path: str
    kernel_org_sha256: str

    def facts(self, origin: str) -> list[str]:
        """List the facts that identify an origin's source."""
        if origin == KERNEL_ORG:
            return [KERNEL_ORG, self.version, self.kernel_org_sha256]
        return [DEBIAN, self.version, *(build.sha256 for build in self.builds)]

    def text(self, series: Series) -> str:
        """Return the text of source.toml."""
        builds = "".join(
            BUILD.format(title=title, **vars(build))
            for (title, _), build in zip(series.builds, self.builds, strict=False)
        )
        return TEMPLATE.format(**vars(self) | {"builds": builds})


@dataclass(frozen=True)
class Source:
    """Source on this machine.

    `version` is the kernel's, or Debian's if it is not pinned; empty for a user's own source, whose
    `origin` is its address.
    """

    series: Series
    origin: str
    version: str
    found: Download
    pinned: bool

    def provenance(self) -> dict[str, str]:
        """Return origin and version, and the hash of an unpinned source or a user's own."""
        facts = {"from": self.origin, "version": self.version}
        return facts if self.pinned and self.version else facts | {"sha256": self.found.file.sha256}

    def unpack(self, work: Path, tree: Path, log: Path) -> None:
        """Unpack the source into `tree`, with intermediate files in `work`."""
        tarball = self.found.path
        if self.origin == DEBIAN:
            processes.run(["dpkg-deb", "-x", tarball, work / "package"], log=log)
            tarball = work / "package" / self.series.tarball
        tree.mkdir()
        unread = [f"--exclude=*/{folder}/{of}" for folder in UNREAD_FOLDERS for of in UNREAD_FILES]
        command: list[str | Path] = ["tar", "-xf", tarball, "--strip-components=1", "-C", tree]
        processes.run([*command, "--wildcards", *unread], log=log)


def pins(series: Series) -> Pins:
    """Read a series' source.toml; refuse one that `losslab kernel --relock` would not write."""
    path = series.pins
    try:
        data = read_toml(path)
        found = Pins(
            data["version"],
            tuple(Build(**build) for build in data["debian"]),
            data["kernel_org"]["path"],
            data["kernel_org"]["sha256"],
        )
    except (KeyError, TypeError) as error:
        raise LosslabError(
            f"{path} must name version, debian and kernel_org, found: {error!r}",
            hint="restore it (`git checkout`), or regenerate it with `losslab kernel --relock`",
        ) from error
    if found.text(series) != read_text(path):
        raise LosslabError(
            f"{path} must be as `losslab kernel --relock` writes it, found it edited",
            hint="restore it (`git checkout`), or regenerate it",
        )
    return found


def candidates(pinned: Pins, archives: Sequence[str]) -> list[tuple[File, Place]]:
    """List usable files and their places: any build from the archive first."""
    places = [
        (build.file, place)
        for build in pinned.builds
        for place in debian_places(build.path, archives, "", build.sha1)
    ]
    places.sort(key=lambda item: item[1].name != ARCHIVE_PLACE)
    if pinned.kernel_org_sha256:
        file = File(Path(pinned.kernel_org_path).name, pinned.kernel_org_sha256, 0)
        places.append((file, kernel_org_place(pinned.kernel_org_path)))
    return places


def kernel_org_place(path: str) -> Place:
    """Return the place of a file on kernel.org."""
    base = os.environ.get("LOSSLAB_KERNEL_ORG", KERNEL_ORG_URL).rstrip("/")
    return Place(KERNEL_ORG_PLACE, f"{base}/{quoted(path)}")


def fetch_source(series: Series) -> Source:
    """Download the pinned source of a series; UnavailableError if no place has it."""
    pinned = pins(series)
    try:
        found = Fetcher().fetch(candidates(pinned, debian_archives()))
    except UnavailableError as error:
        refused = f"\n    kernel.org, {pinned.kernel_org_path}: refused, no hash of it is pinned"
        more = "" if pinned.kernel_org_sha256 else refused
        raise UnavailableError(f"the kernel's source {error.message}{more}", hint=ADVICE) from error
    origin = KERNEL_ORG if found.file.sha256 == pinned.kernel_org_sha256 else DEBIAN
    return Source(series, origin, pinned.version, found, pinned=True)


def fetch_newest(series: Series) -> Source:
    """Download Debian's newest source of a series, pinned or not."""
    version, _, found = _get_newest(
        series, [suite for _, suites in series.builds for suite in suites]
    )
    return Source(series, DEBIAN, version, found, pinned=False)


def _get_newest(series: Series, suites: Sequence[str]) -> tuple[str, str, Download]:
    """Download the newest package of some suites; return version, archive path and file."""
    archives = debian_archives()
    (file, path), *_ = apt_files(archives, suites, ["download", series.package])
    places = debian_places(path, archives, "")
    return file.name.split("_")[1], path, Fetcher().fetch((file, place) for place in places)


def relock(series: Series) -> list[str]:
    """Pin Debian's newest source of a series; list the changes.

    Raises LosslabError if Debian has none or two builds of one version differ.
    """
    before = pins(series) if series.pins.exists() else None
    builds = []
    for _, suites in series.builds:
        full_version, path, found = _get_newest(series, suites)
        with found.path.open("rb") as content:
            sha1 = hashlib.file_digest(content, "sha1").hexdigest()
        build = Build(full_version, path, found.file.size, found.file.sha256, sha1)
        builds.append((build, found.path))
    # If an older release lags behind, only the newest release's build is pinned.
    version = builds[0][0].version.split("-")[0]
    builds = [each for each in builds if each[0].version.split("-")[0] == version]
    if len(builds) > 1 and len({_tree_hash(series, package) for _, package in builds}) != 1:
        raise LosslabError(
            f"Debian's builds of {series.package} {version} must have the same tree, found two",
            hint="wait until both releases have the same version",
        )
    upstream = f"v{version.split('.')[0]}.x/linux-{version}.tar.xz"
    now = Pins(version, tuple(build for build, _ in builds), upstream, "")
    now = replace(now, kernel_org_sha256=_kernel_org_hash(before, now))
    if now == before:
        return []
    series.pins.write_text(now.text(series))
    return [f"{series.name}: {before.version if before else 'nothing'} -> {now.version}"]


def _kernel_org_hash(before: Pins | None, now: Pins) -> str:
    """Return the hash of the tarball that kernel.org publishes, or else the pinned one."""
    path = Path(now.kernel_org_path)
    fields = Fetcher().read(kernel_org_place(str(path.with_name(SUMS)))).split()
    if path.name in fields:
        return fields[fields.index(path.name) - 1]
    return before.kernel_org_sha256 if before and before.version == now.version else ""


def _tree_hash(series: Series, package: Path) -> str:
    """Hash names, modes and contents of the files in a package's tarball."""
    with tempfile.TemporaryDirectory(prefix="losslab-source-") as name:
        processes.run(["dpkg-deb", "-x", package, name])
        with tarfile.open(Path(name) / series.tarball) as tar:
            lines = []
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                content = hashlib.sha256(file.read()).hexdigest() if file else member.linkname
                lines.append(f"{member.name} {member.mode:o} {content}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


RECIPE = ROOT / "containers" / "kernel"
# Configuration fragment of every kernel; a series' folder may have its own.
FRAGMENT = "fragment.config"
LOG = "build.log"  # in the folder of a kernel
DEBUG = "linux.debug"  # likewise, with the lines of added files (`backends.crash`)
BUILD_TAKES = "ten minutes of CPU time"
ADDITION_TAKES = "half a minute"
TREES = "tree"  # folder of the cache: object files of kernels to which algorithms are added
provenance = cache.provenance


def fragments(spec: Kernel) -> list[Path]:
    """List a configuration's fragments: of every kernel, of the series, and the user's own."""
    base, series = RECIPE / FRAGMENT, spec.series.folder / FRAGMENT
    found = [base] if series == base or not series.exists() else [base, series]
    return [*found, spec.fragment] if spec.fragment else found


def _source_facts(spec: Kernel, origin: str = DEBIAN) -> list[str]:
    """List the facts that identify a kernel's source."""
    if spec.source:
        return [spec.source.sha256]
    return pins(spec.series).facts(origin)


def content_hash(spec: Kernel | None = None, source: list[str] | None = None) -> str:
    """Hash all inputs of a kernel's build, from Debian's pinned source or another."""
    spec = spec or kernels.default()
    settings = [
        line
        for part in fragments(spec)
        for line in part.read_text().splitlines()
        if line.startswith("CONFIG_")
    ]
    source = source or _source_facts(spec)
    return hash_files(spec.series.patches, *settings, *source, *spec.facts())


def target(spec: Kernel | None = None, origin: str = DEBIAN, pinned: bool = True) -> Path:
    """Return the folder of the kernel of the current recipe, built or not."""
    spec = spec or kernels.default()
    name = content_hash(spec, _source_facts(spec, origin))
    return cache_folder() / "kernel" / (name if pinned else f"{name}-unpinned")


def existing(spec: Kernel | None = None) -> Path | None:
    """Return the built kernel's folder, a pinned one if there is one, or None."""
    folders = (target(spec), target(spec, KERNEL_ORG), target(spec, pinned=False))
    return next((folder for folder in folders if folder.is_dir()), None)


def build(unpinned: bool = False, spec: Kernel | None = None) -> Path:
    """Build a kernel unless the cache has it; return its folder (linux, config, provenance.json).

    If the pinned source is unavailable, `unpinned` uses Debian's newest; otherwise this raises
    UnavailableError, as it does for a public patch. Raises LosslabError if a command fails or a
    symbol is missing from the finished configuration.
    """
    spec = spec or kernels.default()
    folder = existing(spec)
    if folder is not None and (unpinned or folder != target(spec, pinned=False)):
        return folder
    plain = spec == spec.base
    if plain and packed.install(packed.KERNEL, target(spec)):
        return target(spec)
    # Object files are kept (300 MB), so that adding an algorithm or a file takes seconds.
    kept = kept_objects(spec.base, unpinned)
    facts = provenance(kept)
    made = target(spec, facts["source"]["from"], facts["pinned"])
    takes = progress(f"kernel {spec.title}", ADDITION_TAKES)
    with contextlib.nullcontext() if plain else takes, building(made) as partial:
        if partial is None:
            return made
        added = spec.algorithms, spec.replaced
        with kerneltree.with_additions(kept, *added, partial / LOG) as tree:
            facts["hash"] = _recipe(spec, facts["source"], facts["pinned"])
            facts |= _additions(spec)
            if spec.replaced:
                facts["config_sha256"] = digest(tree / ".config")
                unused = kerneltree.not_compiled(tree, [each.path for each in spec.replaced])
                (partial / kerneltree.UNCOMPILED).write_text("".join(f"{u}\n" for u in unused))
            _finish(facts, tree, partial)
    return made


def _additions(spec: Kernel) -> dict[str, Any]:
    found: dict[str, Any] = {} if spec == spec.base else {"name": spec.name}
    if spec.algorithms:
        found["algorithms"] = spec.algorithm_digests()
    if spec.replaced:
        found["replaced"] = {each.path: each.sha256 for each in spec.replaced}
    return found


def objects(spec: Kernel, origin: str = DEBIAN, pinned: bool = True) -> Path:
    """Return the folder of a kernel's object files, which another compiler cannot add to."""
    made = target(spec, origin, pinned)
    return cache_folder() / TREES / f"{made.name}-{kerneltree.compiler()}"


def existing_objects(spec: Kernel) -> Path | None:
    """Return the folder of a kernel's kept object files, or None."""
    folders = (objects(spec), objects(spec, KERNEL_ORG), objects(spec, pinned=False))
    return next((folder for folder in folders if folder.is_dir()), None)


def kept_objects(spec: Kernel, unpinned: bool) -> Path:
    """Return the folder of a kernel's object files: kept, fetched or compiled."""
    kept = existing_objects(spec)
    if kept is not None and (unpinned or kept != objects(spec, pinned=False)):
        return kept
    built = existing(spec) is not None
    if packed.install(packed.OBJECTS, objects(spec)):
        return objects(spec)
    if built:
        print(
            f"losslab: note: compiling {spec.label} again, because its object files are not in the "
            "cache (300 MB); adding further algorithms takes seconds",
            file=sys.stderr,
        )
    with progress(f"kernel {spec.title}", BUILD_TAKES):
        source = _source(spec, unpinned)
        folder = objects(spec, source.origin, source.pinned)
        with building(folder) as partial:
            if partial is not None:
                tree = _compiled(spec, source, partial, partial / LOG)
                kerneltree.prune(tree)
                facts = _provenance(spec, source, tree) | {"hash": folder.name}
                _write(facts, partial)
    return folder


def quickly_made(spec: Kernel) -> bool:
    """Return whether only added algorithms and replaced files have to be compiled."""
    return spec != spec.base and existing_objects(spec.base) is not None


def _source(spec: Kernel, unpinned: bool) -> Source:
    """Download public patches, then the source: a missing patch fails the build early."""
    for patch in spec.fetched:
        patch.get()
    if spec.source:
        return Source(spec.series, spec.source.address, "", spec.source.get(), pinned=True)
    try:
        return fetch_source(spec.series)
    except UnavailableError as error:
        if not unpinned:
            raise
        print(f"losslab: note: building an unpinned kernel: {error.message}", file=sys.stderr)
        return fetch_newest(spec.series)


def _compiled(spec: Kernel, source: Source, work: Path, log: Path) -> Path:
    """Unpack, patch, configure and compile a source in `work`; return the tree."""
    log.touch()
    tree = work / kerneltree.NAME
    source.unpack(work, tree, log)
    for patch in (*spec.series.patches, *spec.own_patches):
        path = patch if isinstance(patch, Path) else patch.get().path
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
    _write(facts, folder)


def _provenance(spec: Kernel, source: Source, tree: Path) -> dict[str, Any]:
    facts = {
        "version": processes.run(["make", "-s", "ARCH=um", "kernelversion"], cwd=tree).strip(),
        "hash": _recipe(spec, source.provenance(), source.pinned),
        "pinned": source.pinned,
        "source": source.provenance(),
        "patches": spec.patch_names,
        "config_sha256": digest(tree / ".config"),
    }
    return facts if spec == kernels.default() else facts | {"name": spec.name}


def _recipe(spec: Kernel, source: dict[str, str], pinned: bool) -> str:
    """Return the content hash of a kernel from a source with this provenance."""
    pins = _source_facts(spec, source["from"]) if pinned else list(source.values())
    return content_hash(spec, pins)


def _write(facts: dict[str, Any], folder: Path) -> None:
    (folder / "provenance.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def dropped_symbols(fragment: str, config: str) -> list[str]:
    """List the fragment's symbols without their value in a finished configuration."""
    lines = set(config.splitlines())
    defined = {line.partition("=")[0] for line in lines if "=" in line}
    return [
        name
        for name, value in re.findall(r"^(CONFIG_\w+)=(.+)$", fragment, re.MULTILINE)
        if (name in defined if value == "n" else f"{name}={value}" not in lines)
    ]
