"""Check of each backend's requirements, with the command that installs a missing one."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from losslab import analysis, cellspec, processes, pyarguments
from losslab.backends import resources, runner, virtual
from losslab.backends.base import GUEST, VIRTUAL, Checked, Finding, Instrument, Job
from losslab.backends.registry import BACKENDS
from losslab.campaign.cellrun import SELF_TEST, self_test
from losslab.campaign.instrument import instrument, provide
from losslab.errors import LosslabError
from losslab.instrument import image, integrity, kernel, kernels
from losslab.instrument.cache import cache_folder
from losslab.lock import own_folder
from losslab.repository import FOR_CAMPAIGNS, SET_UP, debian_packages, install_command

BOOT_TIMEOUT_S = 60.0
# Size of a full campaign's raw files; the quick one needs a tenth.
RESULTS_BYTES = 4 * 2**30
PROBE_TIMEOUT_S = 20.0
WITHOUT_RANDOM = ["setarch", "--addr-no-randomize", "true"]
# ptrace(2) with PTRACE_TRACEME, which is 0.
TRACED = [
    sys.executable, "-c",
    "import ctypes, os, sys\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "sys.exit(libc.ptrace(0, 0, 0, 0) and f'ptrace: {os.strerror(ctypes.get_errno())}')",
]  # fmt: skip


@dataclass(frozen=True)
class Section:
    """Requirements of one part of losslab."""

    name: str
    findings: list[Finding]
    # Backend and place that need them, as `--backend` and `--where`; None: every campaign.
    way: tuple[str, str] | None = None

    @property
    def usable(self) -> bool:
        """Return whether all required findings are good."""
        return all(f.good for f in self.findings if f.required)

    def text(self) -> str:
        """Format for a terminal."""
        verdict = "ready" if self.usable else "not ready"
        return "\n".join([f"{self.name}: {verdict}", *(f.line() for f in self.findings)])

    def brief(self) -> str:
        """Format a way to measure that the user did not choose in one line."""
        if self.usable or self.way is None:
            return f"  {self.name}: ready"
        unmet = sum(not f.good for f in self.findings if f.required)
        backend, where = self.way
        return (
            f"  {self.name}: not set up ({unmet} of {len(self.findings)} requirements are not met; "
            f"to list them: losslab doctor --backend {backend} --where {where})"
        )


def text(sections: Sequence[Section], way: tuple[str, str]) -> str:
    """Format for a terminal: the chosen way in full, every other in one line."""
    chosen = [section for section in sections if section.way == way]
    full = chosen + [s for s in sections if s.way is None]
    others = [section.brief() for section in sections if section not in full]
    return "\n\n".join(
        [*(section.text() for section in full), "\n".join(["Other ways to measure", *others])]
    )


def examine(whole: bool = False) -> list[Section]:
    """Check this machine, the default backend first; `whole` also verifies every file."""
    return [
        Section("virtual backend (default)", list(_virtual()), (VIRTUAL, GUEST)),
        Section("analysis and report", list(_analysis())),
        *(
            Section(backend.title, list(backend.requirements()), way)
            for way, backend in BACKENDS.items()
            if isinstance(backend, Checked)
        ),
        Section("other kernels", list(_other_kernels())),
        *([Section("every file of kernels and images", list(_whole()))] if whole else []),
    ]


def _present(title: str, found: object, absent: str = "not found", fix: str = SET_UP) -> Finding:
    return Finding(title, bool(found), str(found or absent), fix)


def _virtual() -> Iterable[Finding]:
    new, version = sys.version_info >= (3, 11), platform.python_version()
    yield Finding("Python 3.11 or newer", new, version, "install a newer Python")
    built = kernel.part().existing(), image.part().existing()
    for title, folder in zip(("pinned kernel", "host image"), built, strict=True):
        yield _present(title, folder, f"none in {cache_folder()}")
    if not all(built):
        for tool in filter(None, debian_packages("build").values()):
            fix = install_command("build")
            yield _present(f"{tool} (to build them)", shutil.which(tool), fix=fix)
    yield _attempt(
        "folder for the guest's memory",
        lambda: str(resources.scratch_folder()),
        "set LOSSLAB_SCRATCH to a folder that allows exec",
    )
    yield from resources.limits()
    yield from _allowed()
    if all(built):
        yield _attempt("a guest boots", _boot_seconds, SET_UP)
    free = shutil.disk_usage(Path.cwd()).free
    yield Finding(
        "disk space for a full campaign here",
        free >= RESULTS_BYTES,
        f"{free / 2**30:.1f} GiB free",
        f"free {RESULTS_BYTES / 2**30:.0f} GiB, or measure the quick configuration only",
        required=False,
    )
    yield Finding("CPUs (one guest each)", True, str(len(os.sched_getaffinity(0))))


def _other_kernels() -> Iterable[Finding]:
    """List the kernels that only cells with the axis `kernel`, or some algorithms, need."""
    others = [spec for spec in kernels.declared().values() if spec != kernels.default()]
    built = [spec.name for spec in others if kernel.part(spec).existing()]
    missing = [spec.name for spec in others if spec.name not in built]
    yield Finding("built", True, ", ".join(built) or "none")
    if missing:
        yield Finding("not built", True, f"{', '.join(missing)} (`losslab kernel --name NAME`)")


def _whole() -> Iterable[Finding]:
    """Verify kernels and images against their digests, and show these."""
    for spec in kernels.declared().values():
        if folder := kernel.part(spec).existing():
            title = f"kernel {spec.name}"
            yield _attempt(title, partial(_digest, folder / "linux", []), SET_UP)
    for name in image.names():
        if folder := image.part(name).existing():
            pinned = "pinned" if folder.name in integrity.pins() else "not pinned"
            title = f"image {name}, tree {pinned}"
            yield _attempt(title, partial(_digest, None, [folder / integrity.TREE_ROOT]), SET_UP)


def _digest(linux: Path | None, roots: list[Path]) -> str:
    (sha256,) = integrity.require(linux, roots, whole=True).values()
    return f"SHA-256 {sha256}"


def _allowed() -> Iterable[Finding]:
    """Check system calls that losslab's kernels need and a container may forbid.

    Before the kernel is built, a user would notice a problem only after the build of ten minutes.
    """
    for title, command, fix in (
        ("programs without address randomisation", WITHOUT_RANDOM, resources.PERSONALITY),
        ("programs that trace others", TRACED, resources.PTRACE),
    ):
        done = processes.attempt(command, limit_s=PROBE_TIMEOUT_S)
        yield Finding(title, done.good, "allowed" if done.good else done.last_line, fix)


def _attempt(title: str, action: Callable[[], str], fix: str) -> Finding:
    try:
        return Finding(title, True, action())
    except LosslabError as error:
        return Finding(title, False, error.message, error.hint or fix)


def _boot_seconds() -> str:
    """Boot an idle guest; return the time that this took."""
    kernel_folder, image_folder = kernel.part().existing(), image.part().existing()
    assert kernel_folder is not None and image_folder is not None
    begin = time.monotonic()
    with own_folder(Path(tempfile.gettempdir()), "losslab-doctor-") as folder:
        tools = Instrument(kernel_folder / "linux", image_folder / "root", {})
        job = Job({"kind": "command", "command": ["true"]}, folder, 1, BOOT_TIMEOUT_S)
        runner.run(virtual.Guest(), tools, job)
    return f"in {time.monotonic() - begin:.1f} s"


def _analysis() -> Iterable[Finding]:
    snakemake = "installed" if importlib.util.find_spec("snakemake") else ""
    yield _present("Snakemake", snakemake, fix=FOR_CAMPAIGNS)
    rscript = shutil.which("Rscript")
    yield _present("R", rscript, fix=install_command("analysis"))
    if rscript:
        found = partial(analysis.require_r, "the analysis")
        yield _attempt("R packages", lambda: ", ".join(found()), install_command("analysis"))
    yield _present("a renderer", analysis.renderer(), "none", FOR_CAMPAIGNS)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `doctor` and `setup`."""
    doctor = commands.add_parser("doctor")
    doctor.add_argument(
        "--self-test", action="store_true", help="only boot a guest and measure one short cell"
    )
    doctor.add_argument(
        "--whole", action="store_true", help="also verify every file of kernels and images"
    )
    cellspec.backend_options(doctor)
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run=_doctor)

    ready = commands.add_parser("setup")
    ready.set_defaults(run=_setup)


def _doctor(options: argparse.Namespace) -> int:
    if options.self_test:
        print(self_test(instrument()))
        return 0
    way = (options.backend, options.where)
    pyarguments.require_backend(*way)
    sections = examine(options.whole)
    if options.json:
        print(json.dumps([asdict(each) | {"usable": each.usable} for each in sections], indent=1))
    else:
        print(text(sections, way))
    needed = [section for section in sections if section.way == way]
    needed += sections[-1:] if options.whole else []
    return 0 if all(section.usable for section in needed) else 1


def _setup(options: argparse.Namespace) -> int:
    provide(SELF_TEST)
    print(self_test(instrument()))
    return 0
