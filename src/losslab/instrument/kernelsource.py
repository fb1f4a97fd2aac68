"""The kernel's source: which is pinned, where it is had, and how it is pinned anew."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab.errors import LosslabError
from losslab.instrument.apt import Apt
from losslab.instrument.archive import (
    ADVICE,
    ARCHIVE_PLACE,
    Fetcher,
    File,
    Found,
    Place,
    UnavailableError,
    debian_archives,
    debian_places,
    kernel_org_place,
)
from losslab.instrument.cache import run_logged
from losslab.instrument.kernels import Series
from losslab.reading import read_text, read_toml

DEBIAN, KERNEL_ORG = "debian", "kernel.org"
SUMS = "sha256sums.asc"  # kernel.org's list of hashes, in each folder
# What `make ARCH=um` reads no line of, most of 80,000 files: other machines' code, drivers,
# documents. Their Kconfig and Makefiles stay, which others include.
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
    """Debian's package of the source, as one of its releases built it."""

    version: str
    path: str
    size_bytes: int
    sha256: str
    sha1: str

    @property
    def file(self) -> File:
        """The .deb by its content."""
        return File(Path(self.path).name, self.sha256, self.size_bytes, self.sha1)


@dataclass(frozen=True)
class Pins:
    """What source.toml says; an empty `kernel_org_sha256` is none."""

    version: str
    builds: tuple[Build, ...]
    kernel_org_path: str
    kernel_org_sha256: str

    def facts(self, origin: str) -> list[str]:
        """List what decides the source that an origin has."""
        if origin == KERNEL_ORG:
            return [KERNEL_ORG, self.version, self.kernel_org_sha256]
        return [DEBIAN, self.version, *(build.sha256 for build in self.builds)]

    def text(self, titles: Sequence[str]) -> str:
        """Return the text of source.toml, where each build has a title."""
        builds = "".join(
            BUILD.format(title=title, **vars(build))
            for title, build in zip(titles, self.builds, strict=False)
        )
        return TEMPLATE.format(
            version=self.version,
            builds=builds,
            kernel_org_path=self.kernel_org_path,
            kernel_org_sha256=self.kernel_org_sha256,
        )


@dataclass(frozen=True)
class Source:
    """A source on this machine. `version` is the kernel's, or Debian's where it is not pinned."""

    series: Series
    origin: str
    version: str
    found: Found
    pinned: bool

    def provenance(self) -> dict[str, str]:
        """Say what it is; of the pinned ones the recipe's hash says the rest."""
        facts = {"from": self.origin, "version": self.version}
        return facts if self.pinned else facts | {"sha256": self.found.file.sha256}

    def unpack(self, work: Path, tree: Path, log: Path) -> None:
        """Unpack it into `tree`, with `work` for what lies between."""
        tarball = self.found.path
        if self.origin == DEBIAN:
            run_logged(["dpkg-deb", "-x", tarball, work / "package"], log)
            tarball = work / "package" / self.series.tarball
        tree.mkdir()
        unread = [f"--exclude=*/{folder}/{of}" for folder in UNREAD_FOLDERS for of in UNREAD_FILES]
        # The cache names files by their hashes: say how it is packed.
        command: list[str | Path] = ["tar", "-xJf", tarball, "--strip-components=1", "-C", tree]
        run_logged([*command, "--wildcards", *unread], log)


def pins(series: Series) -> Pins:
    """Read a series' source.toml.

    Raises:
        LosslabError: it is not as `losslab kernel --relock` writes it.
    """
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
            hint="restore it (`git checkout`), or make it anew with `losslab kernel --relock`",
        ) from error
    if found.text(_titles(series)) != read_text(path):
        raise LosslabError(
            f"{path} must be as `losslab kernel --relock` writes it, found it edited",
            hint="restore it (`git checkout`), or make it anew",
        )
    return found


def _titles(series: Series) -> list[str]:
    return [build.title for build in series.builds]


def candidates(pinned: Pins, archives: Sequence[str]) -> list[tuple[File, Place]]:
    """List what may be taken and where from: from the archive first, whichever build."""
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


def fetch(series: Series) -> Source:
    """Get the pinned source of a series.

    Raises:
        UnavailableError: it is to be had nowhere.
    """
    pinned = pins(series)
    try:
        found = Fetcher().fetch(candidates(pinned, debian_archives()))
    except UnavailableError as error:
        more = (
            ""
            if pinned.kernel_org_sha256
            else (f"\n    kernel.org, {pinned.kernel_org_path}: refused, no hash of it is pinned")
        )
        raise UnavailableError(f"the kernel's source {error.message}{more}", hint=ADVICE) from error
    origin = KERNEL_ORG if found.file.sha256 == pinned.kernel_org_sha256 else DEBIAN
    return Source(series, origin, pinned.version, found, pinned=True)


def fetch_newest(series: Series) -> Source:
    """Get the newest source of a series that Debian has, pinned or not."""
    suites = [suite for build in series.builds for suite in build.suites]
    version, file, path = _newest(series.package, suites)
    places = [(file, place) for place in debian_places(path, debian_archives(), "")]
    return Source(series, DEBIAN, version, Fetcher().fetch(places), pinned=False)


def _newest(package: str, suites: Sequence[str]) -> tuple[str, File, str]:
    with tempfile.TemporaryDirectory(prefix="losslab-apt-") as name:
        apt = Apt(Path(name) / "apt", debian_archives(), suites, Path(name) / "log")
        return apt.newest(package)


def relock(series: Series) -> list[str]:
    """Pin the newest source of a series that Debian has; return what changed.

    Raises:
        LosslabError: Debian has none, or two builds of one version differ.
    """
    before = pins(series) if series.pins.exists() else None
    builds = []
    for release in series.builds:
        version, file, where = _newest(series.package, release.suites)
        places = [(file, place) for place in debian_places(where, debian_archives(), "")]
        package = Fetcher().fetch(places).path
        with package.open("rb") as content:
            sha1 = hashlib.file_digest(content, "sha1").hexdigest()
        builds.append((Build(version, where, file.size, file.sha256, sha1), package))
    # Where an older release is behind, the newest one's build stands alone.
    version = builds[0][0].version.split("-")[0]
    builds = [
        (build, package) for build, package in builds if build.version.split("-")[0] == version
    ]
    if len(builds) > 1 and len({_tree_hash(series, package) for _, package in builds}) != 1:
        raise LosslabError(
            f"Debian's builds of {series.package} {version} must hold the same tree, found two",
            hint="wait until both releases have the same version",
        )
    upstream = f"v{version.split('.')[0]}.x/linux-{version}.tar.xz"
    now = Pins(version, tuple(build for build, _ in builds), upstream, "")
    now = Pins(now.version, now.builds, now.kernel_org_path, _kernel_org_hash(before, now))
    if now == before:
        return []
    series.pins.write_text(now.text(_titles(series)))
    return [f"{series.name}: {before.version if before else 'nothing'} -> {now.version}"]


def _kernel_org_hash(before: Pins | None, now: Pins) -> str:
    """Return the hash that kernel.org publishes of its tarball, or what was known of it."""
    place = kernel_org_place(str(Path(now.kernel_org_path).with_name(SUMS)))
    words = Fetcher().read(place).split()
    name = Path(now.kernel_org_path).name
    if name in words:
        return words[words.index(name) - 1]
    return before.kernel_org_sha256 if before and before.version == now.version else ""


def _tree_hash(series: Series, package: Path) -> str:
    """Hash names, modes and contents of the tarball in a package."""
    with tempfile.TemporaryDirectory(prefix="losslab-source-") as name:
        run_logged(["dpkg-deb", "-x", package, name], Path(name) / "log")
        with tarfile.open(Path(name) / series.tarball) as tar:
            lines = []
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                content = hashlib.sha256(file.read()).hexdigest() if file else member.linkname
                lines.append(f"{member.name} {member.mode:o} {content}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
