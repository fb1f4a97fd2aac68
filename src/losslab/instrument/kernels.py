"""The kernels that can be measured on: those of config/kernels.toml, and algorithms added to them.

A study's algorithm that is a file of `algorithms/` is compiled into the kernel that it runs on.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from losslab.instrument.archive import Fetcher, File, Place, UnavailableError, digest
from losslab.instrument.cache import ROOT
from losslab.reading import UsageError, read_toml, shown

FILE = ROOT / "config" / "kernels.toml"
ALGORITHMS = ROOT / "algorithms"
# A condition's value that names no kernel.
DEFAULT = "default"
# Place of a public patch, as it is named to users.
PUBLIC_PLACE = "public"


@dataclass(frozen=True)
class Series:
    """A series of Linux: Debian's package of its source, its pins, and its patches."""

    name: str
    folder: Path
    package: str
    # Debian's releases that have it: title, and the suites that may, the likeliest first.
    builds: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def pins(self) -> Path:
        """The file that pins the source."""
        return self.folder / "source.toml"

    @property
    def patches(self) -> list[Path]:
        """Our patches of the series, in their order."""
        return sorted((self.folder / "patches").glob("*.patch"))

    @property
    def tarball(self) -> str:
        """The source, in Debian's package."""
        return f"usr/src/{self.package}.tar.xz"


@dataclass(frozen=True)
class Fetched:
    """A public patch that is no part of this repository."""

    name: str
    address: str
    size_bytes: int
    sha256: str
    variable: str  # of the environment, which names a copy on this machine

    def get(self) -> Path:
        """Return the patch on this machine; UnavailableError, with how to get it, otherwise."""
        own = os.environ.get(self.variable)
        if own:
            path = Path(own)
            found = digest(path) if path.is_file() else "no such file"
            if found != self.sha256:
                raise UnavailableError(
                    f"{self.variable} must name a copy of {self.name} with the sha256 "
                    f"{self.sha256}, found {own}: {found}",
                    hint=f"get it from {self.address}",
                )
            return path
        file = File(self.name, self.sha256, self.size_bytes)
        try:
            return Fetcher().fetch([(file, Place(PUBLIC_PLACE, self.address))]).path
        except UnavailableError as error:
            raise UnavailableError(
                error.message,
                hint=f"get it from {self.address} by another way, and name the file in "
                f"{self.variable}",
            ) from error


@dataclass(frozen=True)
class Kernel:
    """A kernel to measure on."""

    name: str  # in studies and on the command line
    label: str  # in figures and tables
    series: Series
    fetched: tuple[Fetched, ...] = ()  # public patches, applied after the series' own
    patches: tuple[Path, ...] = ()  # ours after those
    algorithms: tuple[Path, ...] = ()  # files of congestion controls that are compiled in
    boot: tuple[str, ...] = ()  # further words of its command line

    @property
    def title(self) -> str:
        """Name it for messages, with the added algorithms."""
        added = [path.parent.name for path in self.algorithms]
        return f"{self.name} with {' and '.join(added)}" if added else self.name

    @property
    def key(self) -> str:
        """Write it as one word, which `of_key` reads."""
        return "+".join([self.name, *(path.parent.name for path in self.algorithms)])

    @property
    def patch_names(self) -> list[str]:
        """Name all patches in the order in which they are applied."""
        ours = [path.name for path in self.series.patches]
        return [*ours, *(patch.name for patch in self.fetched), *(p.name for p in self.patches)]

    def facts(self) -> list[str]:
        """List what decides what it is, besides its series' source and patches."""
        return [
            *(f"{patch.name} {patch.sha256}" for patch in self.fetched),
            *(f"{path.name} {digest(path)}" for path in (*self.patches, *self.algorithms)),
        ]

    def command(self, variant: str) -> str:
        """Write the command that builds it."""
        return " ".join(["losslab kernel", *self.options(variant)])

    def options(self, variant: str) -> list[str]:
        """Write the options of `losslab kernel` that name it."""
        words = ["--variant", variant] if variant != "plain" else []
        words += ["--name", self.name] if self.name != default().name else []
        return words + [w for path in self.algorithms for w in ("--algorithm", path.parent.name)]


def known() -> dict[str, Kernel]:
    """Return the declared kernels by name, the default one first."""
    return dict(_declared(FILE))


def default() -> Kernel:
    """Return the default kernel."""
    return next(iter(_declared(FILE).values()))


def get(name: str, algorithms: Iterable[str] = ()) -> Kernel:
    """Return a kernel by its name, or `default`, with some algorithms compiled in.

    Algorithms that have no file in `algorithms/` are the kernel's own.
    """
    kernel = default() if name == DEFAULT else known().get(name)
    if kernel is None:
        raise UsageError(
            f"a kernel must be one of {FILE.relative_to(ROOT)} ({', '.join(known())}), found "
            f"{shown(name)}"
        )
    sources = sorted({source_of(each) for each in algorithms})
    return replace(kernel, algorithms=tuple(path for path in sources if path.is_file()))


def of_key(key: str) -> Kernel:
    """Return the kernel with this `key`; UsageError if there is none."""
    name, *algorithms = key.split("+")
    return get(name, algorithms)


def source_of(algorithm: str) -> Path:
    """Return the file of an algorithm of one's own, whether or not it is there."""
    return ALGORITHMS / algorithm / f"tcp_{algorithm}.c"


@functools.cache
def _declared(path: Path) -> dict[str, Kernel]:
    """Read the declarations, the default one first; `losslab` checks their schema, too."""
    try:
        data: dict[str, Any] = read_toml(path)
        series = {
            name: Series(
                name,
                ROOT / each["folder"],
                each["package"],
                tuple((b["title"], tuple(b["suites"])) for b in each["builds"]),
            )
            for name, each in data["series"].items()
        }
        kernels = {
            name: Kernel(
                name,
                each["label"],
                series[each["series"]],
                tuple(Fetched(**patch) for patch in each.get("fetched", [])),
                tuple(ROOT / patch for patch in each.get("patches", [])),
                boot=tuple(each.get("boot", [])),
            )
            for name, each in data["kernels"].items()
        }
        first = data["default"]
        return {first: kernels[first]} | kernels
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} must declare default, series and kernels, found: {error!r}",
            hint="config/README.md explains it",
        ) from error
