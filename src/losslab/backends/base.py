"""What a backend is: a place where jobs run, and what everyone else must know of it.

A backend is a class in this folder and a line in `backends.known`. `backends.runner` runs its jobs.
Nobody else asks which one it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from losslab.backends.template import Templates
from losslab.errors import GuestLostError, HostError, LosslabError
from losslab.processes import Running
from losslab.study.condition import Condition

# How the hosts are made, and where they are: in a guest in virtual time, or on this machine's own
# kernel in real time.
VIRTUAL, CONTAINERNET = "virtual", "containernet"
GUEST, HOST = "guest", "host"
CLEAN = "clean"  # a kind of job
# Files of a job's folder: what to do, the result, the program's output, and, from a guest's first
# program, that it is at work.
JOB_FILE, RESULT_FILE, CONSOLE_FILE, STARTED = "job.json", "result.json", "console.log", "started"
# What a guest prepares before any seed is used, in the snapshot's folder.
TEMPLATE_FILE = "template.json"
# With less than this left in the scratch folder, a guest's next pages may have found no room.
SCRATCH_FULL_BYTES = 2 * 2**20


@dataclass(frozen=True)
class Instrument:
    """Instrument of a replicate: backend, kernel, images, and their provenance."""

    kernel: Path
    image_root: Path
    provenance: dict[str, Any]
    backend: str = VIRTUAL
    where: str = GUEST
    engine_root: Path | None = None  # where hosts are containers
    copies: bool = True  # a guest of its kernel can wait and be copied
    boot: tuple[str, ...] = ()  # words of its kernel's command line
    kernel_sha256: str | None = None  # of its binary; None for this machine's own kernel

    @property
    def image_roots(self) -> list[Path]:
        """List the root folders of its images."""
        return [self.image_root, *([self.engine_root] if self.engine_root else [])]


@dataclass(frozen=True)
class Job:
    """What is to be done, and how long it may take."""

    what: dict[str, Any]
    folder: Path  # where it reads that and leaves its files
    seed: int  # of a guest's random generator
    timeout_s: float  # wall clock
    # Give it this process's terminal, and let it run in real time: in virtual time it would race
    # to its next timer while the user thinks.
    interactive: bool = False
    # Do it in a guest that is booted for it and goes on itself, not in a copy of one that waits.
    alone: bool = False
    # Where the guest that waits is kept for the next job; it is this job's own by default.
    templates: Templates | None = None

    @property
    def preparation(self) -> dict[str, Any]:
        """The part of it that is known before its seed."""
        return {key: self.what[key] for key in ("kind", "condition") if key in self.what}


@dataclass(frozen=True)
class Start:
    """How to run the program that does a job."""

    begin: Callable[[IO[bytes]], Running]  # starts it, given its console
    more: Mapping[str, Any] = field(default_factory=dict)  # what the job must know besides
    # Within which it must make the file STARTED, if it does that.
    start_limit_s: float | None = None
    scratch: Path | None = None  # a folder that must not become full
    patience_s: float = 0.0  # to clean up when it is to end; 0 where there is nothing to
    clean_up: Callable[[], None] | None = None  # for what it could not clean up itself
    before_s: float = 0.0  # wall time that was spent on it already


@dataclass(frozen=True)
class End:
    """How that program ended."""

    status: int | None  # None where it had to be ended
    scratch_full: bool = False  # at some time


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job that ended well."""

    result: dict[str, Any]
    console: str
    wall_s: float


@dataclass(frozen=True)
class Finding:
    """One thing that a backend needs: whether it is there, what was found, and the fix."""

    what: str
    good: bool
    found: str
    remedy: str = ""
    required: bool = True

    def line(self) -> str:
        """Format for a terminal."""
        mark = "ok     " if self.good else ("MISSING" if self.required else "missing")
        text = f"  {mark}  {self.what}: {self.found}"
        return text if self.good or not self.remedy else f"{text}\n           -> {self.remedy}"


@dataclass(frozen=True)
class Needs:
    """What decides, besides a condition and a seed, what a backend measures."""

    job: str  # the module that is its first program
    kernel: str | None  # a variant of ours; None: this machine's own
    images: tuple[str, ...]  # the hosts' first
    command: str  # makes kernel and images
    start_s: float  # for a job to begin its work, on a busy machine


class Backend(Protocol):
    """A place where jobs run."""

    @property
    def needs(self) -> Needs:
        """What it measures with."""

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Refuse a machine that cannot measure a condition in an image, with all that is missing.

        Returns what a manifest says of the place and the machine, besides kernel and images.
        """

    def start(self, tools: Instrument, job: Job) -> AbstractContextManager[Start]:
        """Prepare a job for the length of the block; what it was given is gone afterwards."""

    def result(self, job: Job, end: End, console: str) -> dict[str, Any]:
        """Read a job's result.

        Raises:
            HostError: the host or the instrument is to blame.
            GuestLostError: there is none; with its last words.
            LosslabError: it says itself why it failed.
        """


def load_result(job: Job) -> dict[str, Any]:
    """Read a job's result; empty where there is none."""
    try:
        result: dict[str, Any] = json.loads((job.folder / RESULT_FILE).read_text())
        return result
    except (OSError, json.JSONDecodeError):
        return {}


def without_result(job: Job, end: End, what: str, said: str) -> GuestLostError:
    """Explain a guest or job without a result; `said` are its last words."""
    if end.status is None:
        return GuestLostError(
            f"the {what} must end within {job.timeout_s:g} s of wall time, found it still "
            f"running; {said}",
            hint="raise --timeout-s if the host is slow",
        )
    return GuestLostError(
        f"the {what} must leave result.json, found none (exit status {end.status}); {said}"
    )


def refuse_failure(result: dict[str, Any]) -> None:
    """Raise the error that a job wrote in place of its result: see `emulation.outcome`."""
    if "error" not in result:
        return
    if result.get("kind") == "host":
        raise HostError(result["error"])
    if result.get("kind") == "crashed":
        raise GuestLostError(f"the job must not crash, found {result['error']}")
    raise LosslabError(f"the job must succeed, found:\n{result['error']}")
