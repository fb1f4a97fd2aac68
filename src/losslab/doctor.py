"""Report of what each backend needs, what is missing, and the command that installs it."""

from __future__ import annotations

import importlib.util
import itertools
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from losslab import processes, report
from losslab.backends import preflight, remedies, resources, runner, virtual
from losslab.backends.base import Finding, Instrument, Job
from losslab.errors import LosslabError
from losslab.instrument import image, integrity, kernel, kernels
from losslab.instrument.cache import ROOT, cache_folder
from losslab.lock import own_folder

BOOT_TIMEOUT_S = 60.0
# A full campaign's raw files; the quick one needs a tenth.
RESULTS_BYTES = 4 * 2**30
OF_R = "r-cran-"  # before the name of an R package that is Debian's
PROBE_TIMEOUT_S = 20.0
WITHOUT_RANDOM = ["setarch", "--addr-no-randomize", "true"]
# PTRACE_TRACEME is 0.
TRACED = [
    sys.executable, "-c",
    "import ctypes, os, sys\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "sys.exit(libc.ptrace(0, 0, 0, 0) and f'ptrace: {os.strerror(ctypes.get_errno())}')",
]  # fmt: skip


@dataclass(frozen=True)
class Section:
    """What one part of losslab needs."""

    name: str
    findings: list[Finding]

    @property
    def usable(self) -> bool:
        """Tell whether everything that is required is there."""
        return all(f.good for f in self.findings if f.required)

    def text(self) -> str:
        """Format for a terminal."""
        verdict = "ready" if self.usable else "not ready"
        return "\n".join([f"{self.name}: {verdict}", *(f.line() for f in self.findings)])


def debian_packages(part: str) -> dict[str, str | None]:
    """Read a part of scripts/packages.txt: packages, and the program that tells each is there."""
    lines = (ROOT / "scripts" / "packages.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {row[1]: row[2] if len(row) > 2 else None for row in rows if row[0] == part}


def r_packages(part: str = "analysis") -> list[str]:
    """Name R's packages among those of a part."""
    names = debian_packages(part)
    return [name.removeprefix(OF_R) for name in names if name.startswith(OF_R)]


def examine(whole: bool = False) -> list[Section]:
    """Look at this machine; the first section is the default backend.

    With `whole`, read every file of the kernels and images that are there, and compare digests.
    """
    return [
        Section("virtual backend (default)", list(_virtual())),
        Section("analysis and report", list(_analysis())),
        Section("containernet backend in a guest", list(preflight.guest())),
        Section(
            "virtual backend's hosts on this kernel, in real time",
            list(preflight.host(_root(image.HOST), containers=False)),
        ),
        Section(
            "containernet backend on this kernel, in real time",
            list(preflight.host(_root(image.ENGINE))),
        ),
        *([Section("every file of kernels and images", list(_whole()))] if whole else []),
    ]


def _root(name: str) -> Path | None:
    folder = image.existing(name)
    return folder / "root" if folder else None


def _there(what: str, found: object, absent: str = "not found", fix: str = "make setup") -> Finding:
    return Finding(what, bool(found), str(found or absent), fix)


def _virtual() -> Iterable[Finding]:
    new, version = sys.version_info >= (3, 11), platform.python_version()
    yield Finding("Python 3.11 or newer", new, version, "install a newer Python")
    built = kernel.existing(), image.existing()
    for what, folder in zip(("pinned kernel", "host image"), built, strict=True):
        yield _there(what, folder, f"none in {cache_folder()}")
    if not all(built):
        for tool in filter(None, debian_packages("build").values()):
            yield _there(f"{tool} (to build them)", shutil.which(tool))
    for which in kernels.known().values():
        if which != kernels.default():
            fix, there = which.command(kernel.PLAIN), kernel.existing(which=which)
            other = _there(f"kernel {which.name}", there, "not built", fix)
            yield replace(other, required=False)
    yield _attempt(
        "folder for the guest's memory",
        lambda: str(resources.scratch_folder()),
        "set LOSSLAB_SCRATCH to a folder that allows exec",
    )
    yield from resources.limits()
    yield from _allowed()
    if all(built):
        yield _attempt("a guest boots", _boot_seconds, "make setup")
    free = shutil.disk_usage(Path.cwd()).free
    yield Finding(
        "room for a full campaign here",
        free >= RESULTS_BYTES,
        f"{free / 2**30:.1f} GiB free",
        f"free {RESULTS_BYTES / 2**30:.0f} GiB, or measure the quick configuration only",
        required=False,
    )
    yield Finding("CPUs (one guest each)", True, str(len(os.sched_getaffinity(0))))


def _whole() -> Iterable[Finding]:
    """Compare kernels and images with their digests, which are printed."""
    for which, variant in itertools.product(kernels.known().values(), kernel.VARIANTS):
        if folder := kernel.existing(variant, which):
            yield _digest(f"kernel {kernel.named(variant, which)}", folder / "linux", [])
    for name in image.names():
        if root := _root(name):
            pinned = "pinned" if root.parent.name in integrity.pins() else "not pinned"
            yield _digest(f"image {name}, tree {pinned}", None, [root])


def _digest(what: str, linux: Path | None, roots: list[Path]) -> Finding:
    def action() -> str:
        (sha256,) = integrity.require(linux, roots, whole=True).values()
        return f"SHA-256 {sha256}"

    return _attempt(what, action, "make setup")


def _allowed() -> Iterable[Finding]:
    """Try what a kernel of ours asks of the host's, and a container may refuse.

    Where it is not built yet, nothing else would say so before ten minutes have gone by.
    """
    for what, command, remedy in (
        ("programs without address randomisation", WITHOUT_RANDOM, remedies.PERSONALITY),
        ("programs that trace others", TRACED, remedies.PTRACE),
    ):
        done = processes.attempt(command, limit_s=PROBE_TIMEOUT_S)
        yield Finding(what, done.good, "allowed" if done.good else done.last_line, remedy)


def _attempt(what: str, action: Callable[[], str], remedy: str) -> Finding:
    try:
        return Finding(what, True, action())
    except LosslabError as error:
        return Finding(what, False, error.message, error.hint or remedy)


def _boot_seconds() -> str:
    """Boot a guest that does nothing."""
    kernel_folder, image_folder = kernel.existing(), image.existing()
    assert kernel_folder is not None and image_folder is not None
    begin = time.monotonic()
    with own_folder(Path(tempfile.gettempdir()), "losslab-doctor-") as folder:
        tools = Instrument(kernel_folder / "linux", image_folder / "root", {})
        job = Job({"kind": "command", "command": ["true"]}, folder, 1, BOOT_TIMEOUT_S)
        runner.run(virtual.Guest(), tools, job)
    return f"in {time.monotonic() - begin:.1f} s"


def _analysis() -> Iterable[Finding]:
    yield _there("Snakemake", "installed" if importlib.util.find_spec("snakemake") else "")
    rscript = shutil.which("Rscript")
    yield _there("R", rscript)
    if rscript:
        wanted = r_packages()
        names = ", ".join(f"'{name}'" for name in wanted)
        code = f"p <- c({names}); cat(p[!vapply(p, requireNamespace, TRUE, quietly = TRUE)])"
        # Without TZ, R asks systemd and complains.
        asked = [rscript, "--vanilla", "-e", code]
        done = processes.attempt(asked, limit_s=PROBE_TIMEOUT_S, more={"TZ": "UTC"})
        missing = done.out.split() if done.good else ["an answer"]
        found = f"without {', '.join(missing)}" if missing else ", ".join(wanted)
        yield Finding("R packages", not missing, found, "make setup")
    fallback = all(importlib.util.find_spec(name) for name in ("pypandoc", "typst"))
    words = "knitr, pandoc and typst (no Quarto >= 1.9)" if fallback else ""
    yield _there("a renderer", report.quarto() or words, "none")
