"""Kernel source: its pins, the places that have it, and pinning of newer versions.

LOSSLAB_KERNEL_ORG replaces the address of kernel.org.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.archive import (
    ADVICE,
    ARCHIVE_PLACE,
    KERNEL_ORG_PLACE,
    Download,
    Fetcher,
    File,
    Place,
    UnavailableError,
    quoted,
)
from losslab.instrument.debian import apt_files, debian_archives, debian_places
from losslab.instrument.kernels import Series
from losslab.reading import read_text, read_toml

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


def fetch(series: Series) -> Source:
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
    version, file, path = _newest(series.package, suites)
    places = debian_places(path, debian_archives(), "")
    return version, path, Fetcher().fetch((file, place) for place in places)


def _newest(package: str, suites: Sequence[str]) -> tuple[str, File, str]:
    (file, path), *_ = apt_files(debian_archives(), suites, ["download", package])
    return file.name.split("_")[1], file, path


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
