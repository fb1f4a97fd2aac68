"""An image's lock: every package in it, with the version and the bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path

from losslab.errors import LosslabError
from losslab.instrument.archive import File

COLUMNS = {
    "package": r"[a-z0-9][a-z0-9.+-]+",
    "version": r"[A-Za-z0-9.+~:-]+",
    "architecture": r"amd64|all",
    "size_bytes": r"[1-9][0-9]*",
    "sha256": r"[0-9a-f]{64}",
    "path": r"pool/[A-Za-z0-9.+~/_-]+\.deb",
}
# Every cell reads hundreds of rows.
ROW = re.compile("\t".join(f"(?:{pattern})" for pattern in COLUMNS.values()))
IN_ROW = attrgetter(*COLUMNS)
INSTANT = re.compile(r"# instant: (\d{8}T\d{6}Z)")
HEADER = """\
# Every package of this image. Made by `make relock`; do not edit.
# The image is built from these files only: from Debian's archive while it has them, else from
# snapshot.debian.org as it was at this instant.
# instant: {instant}
"""


@dataclass(frozen=True, order=True)
class Package:
    """A binary package; the fields are the lock's columns."""

    package: str
    version: str
    architecture: str
    size_bytes: int
    sha256: str
    path: str

    @property
    def file(self) -> File:
        """The .deb by its content."""
        return File(Path(self.path).name, self.sha256, self.size_bytes)


@dataclass(frozen=True)
class Lock:
    """Packages in alphabetical order, and when Debian's archive had them all."""

    instant: str
    packages: tuple[Package, ...]

    def versions(self) -> dict[str, str]:
        """Map the packages to their versions."""
        return {package.package: package.version for package in self.packages}

    def rows(self) -> list[str]:
        """Return what the lock says, without what it explains."""
        return [self.instant, *("\t".join(map(str, IN_ROW(p))) for p in self.packages)]

    def text(self) -> str:
        """Return the lock file's text."""
        rows = ["\t".join(COLUMNS), *self.rows()[1:]]
        return HEADER.format(instant=self.instant) + "\n".join(rows) + "\n"


def make_lock(files: Sequence[tuple[File, str]], instant: str) -> Lock:
    """Make the lock of what apt would install: files named PACKAGE_VERSION_ARCHITECTURE.deb."""
    packages = []
    for file, path in files:
        name, version, architecture = file.name.removesuffix(".deb").split("_")
        packages.append(Package(name, version, architecture, file.size, file.sha256, path))
    return Lock(instant, tuple(sorted(packages)))


def read_lock(path: Path) -> Lock:
    """Read a lock file.

    Raises:
        LosslabError: it is missing, or not exactly as `make relock` writes it.
    """
    hint = "restore it (`git checkout`), or make it anew with `make relock`"
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError as error:
        raise LosslabError(f"the lock {path} must be there, found none", hint=hint) from error
    body = [line.split("\t") for line in lines if not line.startswith("#")]
    instants = [match[1] for line in lines if (match := INSTANT.fullmatch(line))]
    if len(instants) != 1 or body[:1] != [list(COLUMNS)]:
        raise LosslabError(
            f"{path} must have one line `# instant: ...` and the columns {', '.join(COLUMNS)}, "
            f"found {len(instants)} instants and {body[:1]}",
            hint=hint,
        )
    packages = []
    for row in body[1:]:
        if not ROW.fullmatch("\t".join(row)):
            raise LosslabError(f"{path} must name a package by line, found {row}", hint=hint)
        package, version, architecture, size, *rest = row
        packages.append(Package(package, version, architecture, int(size), *rest))
    if not packages or packages != sorted(packages, key=lambda p: p.package):
        raise LosslabError(f"{path} must have its packages in alphabetical order", hint=hint)
    names = [package.package for package in packages]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise LosslabError(f"{path} must name a package once, found twice: {twice}", hint=hint)
    return Lock(instants[0], tuple(packages))


assert tuple(COLUMNS) == tuple(field.name for field in fields(Package))
