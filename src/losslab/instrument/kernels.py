"""Kernels of config/kernels.toml or a user's folder, and algorithms compiled into them.

An algorithm of a study that has a file in `algorithms/` is compiled into its kernel.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from losslab.errors import did_you_mean
from losslab.instrument import csource, packed
from losslab.instrument.fetch import Fetcher, File, UnavailableError, digest
from losslab.reading import UsageError, read_toml, shown
from losslab.repository import ROOT, find, recipes

FILE = ROOT / "config" / "kernels.toml"
# Patches of every series, and new files of every series' source.
COMMON = ROOT / "containers" / "kernel" / "common"
SOURCE = ROOT / "containers" / "kernel" / "source"
# File that declares a user's own kernel, in its folder in `kernels`.
OWN = "kernel.toml"
# Value of a condition's kernel axis for the default kernel.
DEFAULT = "default"
# Environment variable that names a folder of files. They replace the files of the kernel's source
# that have the same path below it, or are added: `net/ipv4/tcp_cubic.c`.
REPLACED_FILES = "LOSSLAB_KERNEL_FILES"


@dataclass(frozen=True)
class Series:
    """Linux series: Debian's package of its source, its pins and its patches."""

    name: str
    folder: Path
    package: str
    suites: tuple[str, ...]  # Debian's, the likeliest first

    @property
    def pins(self) -> Path:
        """The file that pins the source."""
        return self.folder / "source.toml"

    @property
    def patches(self) -> list[Path]:
        """Patches of this repository for the series and for all series, in order."""
        patches = [*COMMON.glob("*.patch"), *(self.folder / "patches").glob("*.patch")]
        return sorted(patches, key=lambda path: path.name)

    @property
    def tarball(self) -> str:
        """Path of the source tarball in Debian's package."""
        return f"usr/src/{self.package}.tar.xz"


@dataclass(frozen=True)
class PublicFile:
    """Public patch, source or trace that this repository does not contain."""

    name: str
    address: str
    sha256: str
    size_bytes: int = 0  # unknown
    variable: str = ""  # environment variable with the path of a local copy, if any
    otherwise: str = "name the file in kernel.toml"  # how to use a copy without such a variable

    @property
    def archived(self) -> str:
        """Name of the file in a release."""
        return f"{packed.PATCH}-{self.sha256}"

    def get(self) -> Path:
        """Return a local copy; UnavailableError says how to get one."""
        own = os.environ.get(self.variable)
        urls = [Path(own).resolve().as_uri() if own else self.address]
        # Its public place may vanish: releases have it, under its digest.
        if place := packed.origin().place:
            urls.append(packed.url(place, self.archived))
        file = File(self.name, self.sha256, self.size_bytes)
        try:
            return Fetcher().fetch((file, url) for url in urls)
        except UnavailableError as error:
            other = f"set {self.variable} to the file's path" if self.variable else self.otherwise
            raise UnavailableError(
                error.message, hint=f"download {self.address} by other means and {other}"
            ) from error


@dataclass(frozen=True)
class ReplacedFile:
    """File that replaces one of a kernel's source, or is added to it."""

    path: str  # in the source
    file: Path
    sha256: str


@dataclass(frozen=True)
class Kernel:
    """Kernel on which losslab can measure."""

    name: str  # name in studies and on the command line
    label: str  # label in figures and tables
    series: Series
    fetched: tuple[PublicFile, ...] = ()  # public patches
    patches: tuple[Path, ...] = ()  # losslab's or the user's
    source: PublicFile | None = None  # instead of the series'
    fragment: Path | None = None  # a user's own configuration
    algorithms: tuple[Path, ...] = ()  # added congestion controls (`source_of`)
    replaced: tuple[ReplacedFile, ...] = ()
    boot: tuple[str, ...] = ()  # additional parameters of its command line

    @property
    def title(self) -> str:
        """Name for messages, with the added algorithms."""
        added = [path.parent.name for path in self.algorithms]
        added += [f"another {each.path}" for each in self.replaced]
        return f"{self.name} with {' and '.join(added)}" if added else self.name

    @property
    def base(self) -> Kernel:
        """Kernel to whose object files algorithms and other files are added."""
        return replace(self, algorithms=(), replaced=())

    @property
    def key(self) -> str:
        """Name in one word, which `of_key` reads."""
        return "+".join([self.name, *(path.parent.name for path in self.algorithms)])

    @property
    def patch_names(self) -> list[str]:
        """File names of all patches in the order of application."""
        return [patch.name for patch in (*self.series.patches, *self.own_patches)]

    @property
    def own_patches(self) -> list[PublicFile | Path]:
        """Patches that are not of its series, in the order of application."""
        return sorted((*self.fetched, *self.patches), key=lambda patch: patch.name)

    def facts(self) -> list[str]:
        """List the inputs of its build other than the series' source and patches."""
        return [
            *(f"{patch.name} {patch.sha256}" for patch in self.fetched),
            *(f"{path.name} {digest(path)}" for path in self.patches),
            *self.added_facts(),
        ]

    def added_facts(self) -> list[str]:
        """List the inputs of its build that its base does not have."""
        return [
            *(f"{name} {sha256}" for name, sha256 in self.algorithm_digests().items()),
            # What losslab makes of their files may change, too.
            *(
                f"{path.parent.name} as staged {csource.digest_staged(path)}"
                for path in self.algorithms
                if path.name == csource.FILE
            ),
            *(f"{file.path} {file.sha256}" for file in self.replaced),
            # Earlier kernels do not say which files were compiled.
            *(["with compiled.UNCOMPILED"] if self.replaced else []),
        ]

    def algorithm_digests(self) -> dict[str, str]:
        """Return the digests of the added algorithms' files."""
        files = (each for path in self.algorithms for each in csource.files(path).items())
        return {name: digest(path) for name, path in files}

    @property
    def command(self) -> str:
        """The command that builds it."""
        return " ".join(["losslab kernel", *self.options])

    @property
    def options(self) -> list[str]:
        """The options of `losslab kernel` that select it."""
        words = ["--name", self.name] if self.name != default().name else []
        return words + [w for path in self.algorithms for w in ("--algorithm", path.parent.name)]


def declared() -> dict[str, Kernel]:
    """Return losslab's kernels and a user's own by name, the default first."""
    kernels, series = _read_declarations(FILE)
    folders = recipes("kernels", OWN, kernels)
    return kernels | {name: _own(name, folder, series) for name, folder in folders.items()}


def default() -> Kernel:
    """Return the default kernel."""
    return next(iter(_read_declarations(FILE)[0].values()))


def get(name: str, algorithms: Iterable[str] = ()) -> Kernel:
    """Return a kernel by its name, or `default`, with algorithms and replaced files compiled in.

    Algorithms without a file in `algorithms/` are part of the kernel.
    """
    kernels = _read_declarations(FILE)[0]
    kernel = default() if name == DEFAULT else (kernels.get(name) or declared().get(name))
    if kernel is None:
        raise UsageError(
            f"a kernel must be one of {FILE.relative_to(ROOT)} or kernels/ "
            f"({', '.join(declared())}), found {shown(name)}{did_you_mean(name, declared())}"
        )
    sources = sorted({source_of(each) for each in algorithms})
    return replace(
        kernel,
        algorithms=tuple(path for path in sources if path.is_file()),
        replaced=replaced_files(),
    )


# TCP_CA_NAME_MAX, net/tcp.h: the name of a congestion control with its final zero.
NAME_BYTES = 16


def of_key(key: str) -> Kernel:
    """Return the kernel with this `key`; UsageError if there is none."""
    name, *algorithms = key.split("+")
    for algorithm in algorithms:
        if len(algorithm.encode(errors="replace")) >= NAME_BYTES:
            raise UsageError(
                f"an algorithm's name must have less than {NAME_BYTES} bytes, found "
                f"{shown(algorithm)}"
            )
    return get(name, algorithms)


def source_of(algorithm: str) -> Path:
    """Return the path of a user's algorithm, which may not exist: its TOML file, or its source."""
    declared = find(f"algorithms/{algorithm}/{csource.FILE}")
    return declared if declared.is_file() else find(f"algorithms/{algorithm}/tcp_{algorithm}.c")


def replaced_files() -> tuple[ReplacedFile, ...]:
    """Return the files of the folder that `REPLACED_FILES` names, by path; none if it is unset."""
    name = os.environ.get(REPLACED_FILES, "")
    if not name:
        return ()
    folder = Path(name).resolve()
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not files:
        raise UsageError(
            f"{REPLACED_FILES} must name a folder with files of the kernel's source, found none "
            f"in {shown(name)}",
            hint="such as net/ipv4/tcp_cubic.c in it",
        )
    return tuple(ReplacedFile(str(p.relative_to(folder)), p, digest(p)) for p in files)


@contextlib.contextmanager
def replacing(folder: Path | None) -> Iterator[None]:
    """Set `REPLACED_FILES` during the block; None or an empty folder: the kernel's own files."""
    before = os.environ.get(REPLACED_FILES, "")
    has_files = folder is not None and any(path.is_file() for path in folder.rglob("*"))
    os.environ[REPLACED_FILES] = str(folder.resolve()) if folder and has_files else ""
    try:
        yield
    finally:
        os.environ[REPLACED_FILES] = before


@functools.cache
def _read_declarations(path: Path) -> tuple[dict[str, Kernel], dict[str, Series]]:
    """Read losslab's kernels, the default first, and its series; their schema is checked, too."""
    with _declaration_errors(path):
        data: dict[str, Any] = read_toml(path)
        series = {
            name: Series(name, ROOT / each["folder"], each["package"], tuple(each["suites"]))
            for name, each in data["series"].items()
        }
        kernels = {
            name: _kernel(name, each, series, [ROOT / patch for patch in each.get("patches", [])])
            for name, each in data["kernels"].items()
        }
        first = data["default"]
        return {first: kernels[first]} | kernels, series


def _kernel(
    name: str, data: dict[str, Any], series: dict[str, Series], patches: Iterable[Path]
) -> Kernel:
    return Kernel(
        name,
        data.get("label", name),
        series[data["series"]],
        tuple(PublicFile(**patch) for patch in data.get("fetched", [])),
        tuple(patches),
        boot=tuple(data.get("boot", [])),
    )


def _own(name: str, folder: Path, series: dict[str, Series]) -> Kernel:
    """Return the kernel of a user's folder."""
    fragment, path = folder / "fragment.config", folder / OWN
    with _declaration_errors(path):
        data = read_toml(path)
        kernel = _kernel(name, data, series, sorted(folder.glob("*.patch")))
        if fragment.is_file():
            kernel = replace(kernel, fragment=fragment)
        if source := data.get("source"):
            address = source["address"]
            if "://" not in address:
                address = (folder / address).resolve().as_uri()
            file = PublicFile(address.rpartition("/")[2], address, source["sha256"])
            kernel = replace(kernel, source=file)
        return kernel


@contextlib.contextmanager
def _declaration_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} must declare a kernel, found: {error!r}",
            hint="see config/README.md and docs/how-to/modules.md",
        ) from error


WORD = re.compile(r"([\w-]+)\.([\w-]+)(?:=.*)?")


def require_parameters(spec: Kernel, linux: Path) -> None:
    """Refuse a parameter of a module that the kernel's binary does not have.

    The parameter of an added algorithm has no effect on a kernel without that algorithm.
    """
    words = [found for found in map(WORD.fullmatch, spec.boot) if found]
    content = linux.read_bytes() if words else b""
    for found in words:
        # The kernel does not distinguish - from _.
        module, name = (part.replace("-", "_") for part in found.groups())
        source = source_of(module.removeprefix("tcp_"))
        if source.is_file() and source not in spec.algorithms:
            continue
        # A parameter is named in the binary, one without a module with its "=".
        if not re.search(rb"\0%b\.%b[\0=]" % (module.encode(), name.encode()), content):
            found_names = re.findall(rb"\0%b\.(\w+)(?=\0)" % module.encode(), content)
            known = sorted({each.decode() for each in found_names})
            has = f"has {', '.join(known)}" if known else "is not one of them"
            own = find(f"kernels/{spec.name}/{OWN}")
            raise UsageError(
                f"a boot parameter of kernel {spec.name} must be one of its modules', found "
                f"{found[0]}; {module} {has}{did_you_mean(name, known)}",
                hint=f"correct it in {own if own.is_file() else FILE}, or in the axis parameters",
            )
