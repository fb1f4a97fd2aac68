"""Interface of backends, which run jobs.

A backend is a class in this folder and a line in `backends.registry`. `backends.runner` runs its
jobs. Other code does not depend on which backend it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

from losslab.backends.kernelmessages import TROUBLE
from losslab.backends.snapshot import Snapshots
from losslab.errors import GuestLostError, HostError, LosslabError
from losslab.processes import Running
from losslab.study.condition import Condition

# Kinds of hosts, and where they run: in a guest in virtual time, or on this machine's own kernel in
# real time.
VIRTUAL, CONTAINERNET = "virtual", "containernet"
GUEST, HOST = "guest", "host"
CLEAN = "clean"  # a kind of job
# Condition whose instrument and requirements most studies have.
COMMON = Condition.from_json(
    {"algorithm": "bbr", "competitor": "cubic", "loss_percent": 1, "path": "symmetric",
     "app": "iperf3", "rtt_ms": 0.44, "rate_mbit": 1000, "buffer_packets": 1000}
)  # fmt: skip
# An engine and five containers start in 20 s; on a busy host it took 90 s.
ENGINE_IMAGES, ENGINE_START_S = ("host", "engine"), 300.0
# Files of a job's folder: the job, its result, its output, and a file that the job creates when it
# starts.
JOB_FILE, RESULT_FILE, CONSOLE_FILE, STARTED = "job.json", "result.json", "console.log", "started"
# Parts of a long console that are kept: bytes of its beginning and end, and lines of trouble.
KEPT_BYTES, KEPT_TROUBLE = 2**20, 100
# What a program may print: more ends the run.
LOG_BYTES = 2**26
# The output of programs, in a job's folder of raw files.
LOGS = ("raw/*sender.log", "raw/*receiver.log")
# The part of a job that a snapshot prepares before the seed is known, in the snapshot's folder.
SNAPSHOT_FILE = "template.json"
# With less free space than this in the scratch folder, a guest may have failed to allocate memory.
SCRATCH_FULL_BYTES = 2 * 2**20


@dataclass(frozen=True)
class Instrument:
    """Instrument of a replicate: backend, kernel, images and their provenance."""

    kernel: Path
    image_root: Path
    provenance: dict[str, Any]
    backend: str = VIRTUAL
    where: str = GUEST
    engine_root: Path | None = None  # if hosts are containers
    boot: tuple[str, ...] = ()  # arguments of its kernel's command line
    kernel_sha256: str | None = None  # of its binary; None for this machine's own kernel

    @property
    def image_roots(self) -> list[Path]:
        """List the root folders of its images."""
        return [self.image_root, *([self.engine_root] if self.engine_root else [])]

    @property
    def engine(self) -> Path:
        """Return the root folder of the engine image, if hosts are containers."""
        assert self.engine_root is not None
        return self.engine_root


@dataclass(frozen=True)
class Job:
    """A job: what to run, where, and its time limit."""

    spec: dict[str, Any]  # content of JOB_FILE
    folder: Path  # for its input and output files
    seed: int  # of a guest's random generator
    timeout_s: float  # wall clock
    # Run on this process's terminal and in real time: in virtual time the guest would skip to its
    # next timer while the user thinks.
    interactive: bool = False
    # Boot a guest for the job instead of forking a snapshot.
    alone: bool = False
    # Keeps the snapshots for further jobs; by default, none is kept.
    snapshots: Snapshots | None = None
    # Descriptor of a socket on which the job's guest waits for requests at its cut.
    control: int | None = None

    @property
    def preparation(self) -> dict[str, Any]:
        """The part of the job that does not depend on its seed."""
        return {key: self.spec[key] for key in ("kind", "condition") if key in self.spec}


@dataclass(frozen=True)
class Start:
    """Start of a job's process."""

    begin: Callable[[IO[bytes]], Running]  # starts the process, given its console
    more: Mapping[str, Any] = field(default_factory=dict)  # further entries of JOB_FILE
    # Time limit for creating the file STARTED; None if the job does not create it.
    start_limit_s: float | None = None
    scratch: Path | None = None  # a folder that must not become full
    patience_s: float = 0.0  # time to clean up after a signal; 0 if there is nothing to clean up
    clean_up: Callable[[], None] | None = None  # called if the job may not have cleaned up
    before_s: float = 0.0  # wall time already spent, on booting a snapshot


@dataclass(frozen=True)
class End:
    """End of a job's process."""

    status: int | None  # None if losslab killed it
    scratch_full: bool = False  # at any time
    spun: bool = False  # the guest's kernel was in an endless loop
    program_spun: bool = False  # a program was in an endless loop without a system call
    cpu_s: float | None = None  # CPU time of the job's processes
    crash: str = ""  # what the code of the guest's kernel did, and where


@dataclass(frozen=True)
class Outcome:
    """Outcome of a successful job."""

    result: dict[str, Any]
    wall_s: float
    # CPU time of the job's processes: of a fork, without that of its snapshot.
    cpu_s: float | None = None


@dataclass(frozen=True)
class Finding:
    """A requirement of a backend: whether it is met, what was found, and the fix."""

    requirement: str
    good: bool
    found: str
    fix: str = ""
    required: bool = True

    def line(self) -> str:
        """Format for a terminal."""
        mark = "ok     " if self.good else ("MISSING" if self.required else "missing")
        text = f"  {mark}  {self.requirement}: {self.found}"
        return text if self.good or not self.fix else f"{text}\n           -> {self.fix}"


@dataclass(frozen=True)
class Needs:
    """Place, images and job program of a backend, which affect its results."""

    job: str  # module of its first program
    guest: bool  # in a guest with losslab's kernel, not on this machine's own
    images: tuple[str, ...]  # the host image first
    command: str  # builds kernel and images
    start_s: float  # for a job to start, on a busy machine


@runtime_checkable
class Checked(Protocol):
    """A backend with a section in `losslab doctor`."""

    title: str

    def requirements(self) -> Iterator[Finding]:
        """Yield what the machine must have."""


class Backend(Protocol):
    """A backend, which runs jobs."""

    @property
    def needs(self) -> Needs:
        """Kernel, images and job program."""

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Return entries of the manifest about the machine, besides kernel and images.

        Raises LosslabError if the machine cannot measure the condition; lists all missing
        requirements.
        """

    def start(self, tools: Instrument, job: Job) -> AbstractContextManager[Start]:
        """Prepare a job for the length of the block; release its resources afterwards."""

    def result(self, job: Job, end: End, console: str) -> dict[str, Any]:
        """Read a job's result.

        Raises HostError if the host or the instrument made the job fail. Raises GuestLostError if
        there is no result; has the last line of the console. Raises LosslabError if the job
        reported an error.
        """


def shorten(console: Path, most_bytes: int = 2 * KEPT_BYTES) -> None:
    """Leave out the middle of a console with more than `most_bytes`, but for lines of trouble."""
    size = console.stat().st_size
    if size <= max(most_bytes, 2 * KEPT_BYTES):
        return
    with console.open("r+b") as file:
        middle = file.read()[KEPT_BYTES : size - KEPT_BYTES].decode(errors="replace")
        trouble = "".join(f"{line}\n" for line in TROUBLE.findall(middle)[:KEPT_TROUBLE])
        file.seek(size - KEPT_BYTES)
        end = file.read()
        file.truncate(KEPT_BYTES)
        file.seek(KEPT_BYTES)
        file.write(f"\n[... {len(middle)} characters are left out ...]\n{trouble}".encode() + end)


def long_logs(folder: Path) -> list[Path]:
    """List the logs of programs in a job's folder that are longer than they may be."""
    logs = (path for pattern in LOGS for path in folder.glob(pattern))
    return [path for path in logs if path.is_file() and not path.is_symlink()
            and path.stat().st_size > LOG_BYTES]  # fmt: skip


def refuse_long_logs(folder: Path) -> None:
    """Raise LosslabError if a program printed too much; leave out the middle of its log."""
    if found := long_logs(folder):
        for path in found:
            shorten(path)
        raise LosslabError(
            f"a program must print at most {LOG_BYTES >> 20} MiB, found more in "
            f"{', '.join(sorted(path.name for path in found))}",
            hint="let it print less, or redirect its output to /dev/null",
        )


def load_result(job: Job) -> dict[str, Any]:
    """Read a job's result; empty if there is none."""
    try:
        result: dict[str, Any] = json.loads((job.folder / RESULT_FILE).read_text())
        return result
    except (OSError, json.JSONDecodeError):
        return {}


def without_result(job: Job, end: End, kind: str, last_output: str) -> GuestLostError:
    """Return the error of a guest or job (`kind`) without a result."""
    if end.program_spun:
        return GuestLostError(
            "a program must make a system call within half a minute of CPU time, found one that "
            "busy-waits: virtual time stands still meanwhile, so it never ends",
            hint="let it sleep or poll while it waits; iperf3 from 3.16 on busy-waits after the "
            "last byte of -n or -k, so use -t or -b",
        )
    if end.status is None:
        return GuestLostError(
            f"the {kind} must end within {job.timeout_s:g} s of wall time, found it still "
            f"running; {last_output}",
            hint="raise --timeout-s if the host is slow; a program that polls without a wait has "
            "the same effect: its time stands still",
        )
    return GuestLostError(
        f"the {kind} must write result.json, found none (exit status {end.status}); {last_output}"
    )


def refuse_failure(result: dict[str, Any]) -> None:
    """Raise the error in a job's result, which `emulation.outcome.write_failure` writes."""
    if "error" not in result:
        return
    if result.get("kind") == "host":
        raise HostError(result["error"])
    if result.get("kind") == "crashed":
        raise GuestLostError(f"the job must not crash, found {result['error']}")
    raise LosslabError(f"the job must succeed, found:\n{result['error']}")
