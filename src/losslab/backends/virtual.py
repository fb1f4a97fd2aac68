"""The virtual backend: boot the pinned kernel as a process, in virtual time, for one job.

No root, no Docker, no kernel module: User-Mode Linux with `time-travel=inf-cpu`, its root folder
the host image, its results in the job's folder. See Documentation/virt/uml in the kernel's source.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from losslab.backends import remedies
from losslab.campaign.lock import own_folder
from losslab.errors import GuestLostError, HostError, LosslabError
from losslab.study.condition import derived_seed

PACKAGE = Path(__file__).resolve().parents[1]
MEMORY = "2G"  # sparse; with less, TCP's share makes windows collapse
# Any fixed instant: 2024-01-01T00:00:00Z. Dates inside the guest are part of the result.
START_NS = 1_704_067_200_000_000_000
VIRTUAL_TIME = ["time-travel=inf-cpu", f"time-travel-start={START_NS}"]
CONSOLE_LINES = 15
TROUBLE = ("Kernel panic", "WARNING: ", "BUG: ", "Oops", "Call Trace", "Out of memory")
PR_SET_PDEATHSIG = 1  # linux/prctl.h
SCRATCH_BYTES = 256 * 2**20
# A guest's first program makes this file in the job's folder: from then on, the job is at work.
STARTED = "started"
# It takes half a second, and under an emulated processor half a minute.
START_LIMIT_S = 120.0
START_POLL_S, POLL_S = 0.05, 0.5
# With less than this left in the scratch folder, a guest's next pages may have found no room.
SCRATCH_FULL_BYTES = 2 * 2**20


@dataclass(frozen=True)
class Outcome:
    """How a guest's run ended."""

    result: dict[str, Any]
    console: str
    wall_s: float


def scratch_folder() -> Path:
    """Choose where the guest's memory file lies: fast, large enough, and allowing exec.

    Raises:
        HostError: no such place.
    """
    tried = []
    for place in (os.environ.get("LOSSLAB_SCRATCH"), "/dev/shm", os.environ.get("TMPDIR"), "/tmp"):
        if not place:
            continue
        folder = Path(place)
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            tried.append(f"{place} is not a folder that can be written to")
            continue
        stats = os.statvfs(folder)
        if stats.f_flag & os.ST_NOEXEC:
            tried.append(f"{place} is mounted noexec")
        elif stats.f_bavail * stats.f_frsize < SCRATCH_BYTES:
            tried.append(f"{place} has less than {SCRATCH_BYTES >> 20} MiB free")
        else:
            if tried:
                print(
                    f"losslab: note: guest memory in {folder}: {'; '.join(tried)}", file=sys.stderr
                )
            return folder
    raise HostError(
        f"the guest's memory needs a folder that allows exec and has {SCRATCH_BYTES >> 20} MiB "
        f"free, found: {'; '.join(tried)}",
        hint="set LOSSLAB_SCRATCH to such a folder",
    )


@contextlib.contextmanager
def own_cpu() -> Iterator[int]:
    """Hold one CPU that no other guest of this user holds, while there is one.

    A guest whose kernel and processes share a CPU runs up to twice as fast as one that the
    scheduler spreads. With more guests than CPUs they share, which costs time, not correctness.
    """
    cpus = sorted(os.sched_getaffinity(0))
    folder = Path(tempfile.gettempdir()) / f"losslab-cpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as stack:
        for cpu in cpus:
            lock = stack.enter_context((folder / str(cpu)).open("w"))
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield cpu
                return
        yield cpus[os.getpid() % len(cpus)]


def boot(
    kernel: Path,
    image_root: Path,
    job: dict[str, Any],
    job_folder: Path,
    seed: int,
    timeout_s: float,
    interactive: bool = False,
) -> Outcome:
    """Boot a guest for one job and wait until it has powered off.

    Args:
        kernel: The kernel's executable.
        image_root: The host image's root folder.
        job: What the guest is to do; see `backends.guest`.
        job_folder: Where the guest reads the job and leaves its files.
        seed: Seeds the guest's random generator.
        timeout_s: Wall-clock limit; a guest that spins does not end by itself.
        interactive: Give the guest this process's terminal, and let it run in real time: in
            virtual time it would race to its next timer while the user thinks.

    Raises:
        HostError: the guest never began its job, or the host ended it; with the remedy.
        GuestLostError: the guest hung, panicked, or left no result; with the console's last lines.
        LosslabError: the guest's job was refused by itself.
    """
    console_path = job_folder / "console.log"
    begin = time.monotonic()
    try:
        (job_folder / "job.json").write_text(json.dumps(job, indent=1, sort_keys=True) + "\n")
        # A short path without spaces for the kernel's command line, whatever the clone's is.
        with own_folder(scratch_folder(), "losslab-guest-") as links, own_cpu() as cpu:
            for name, target in (("root", image_root), ("out", job_folder)):
                (links / name).symlink_to(target.resolve())
            # A copy, without byte code: where the host's Python is of the guest's version, the
            # guest would find it from the second run on, and reading differs from compiling by
            # microseconds.
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PACKAGE, links / "src" / PACKAGE.name, ignore=ignored)
            command = _command(kernel, links, seed, interactive)
            with console_path.open("wb") as console:
                end = _run(command, links, cpu, job_folder, timeout_s, interactive, console)
    except OSError as error:
        raise HostError(
            f"a guest's files must fit into its scratch folder and into {job_folder.parent}, "
            f"found: {error}",
            hint="free room there, or set LOSSLAB_SCRATCH, and start again; finished replicates "
            "are kept",
        ) from error
    console_text = console_path.read_text(errors="replace")
    result = _result(job_folder, end, console_text, timeout_s)
    return Outcome(result, console_text, time.monotonic() - begin)


def _command(kernel: Path, links: Path, seed: int, interactive: bool) -> list[str]:
    return [
        "setarch", "-R",
        str(kernel),
        f"mem={MEMORY}",
        "rootfstype=hostfs", f"rootflags={links / 'root'}", "ro", "init=/init",
        *([] if interactive else VIRTUAL_TIME),
        f"random.seed={derived_seed(seed, 'kernel')}",
        "con0=fd:0,fd:1", "con=null", "ssl=null", "quiet", "ipv6.disable_ipv6=1",
        f"uml_dir={links}/", "umid=guest",
        f"LOSSLAB_SOURCE={links / 'src'}", f"LOSSLAB_OUT={links / 'out'}",
    ]  # fmt: skip


@dataclass(frozen=True)
class _End:
    """How a guest's kernel ended."""

    status: int | None  # None where it had to be ended
    scratch_full: bool  # its memory had no more room at some time


def _run(
    command: list[str],
    scratch: Path,
    cpu: int,
    job_folder: Path,
    timeout_s: float,
    interactive: bool,
    console: IO[bytes],
) -> _End:
    """Run the guest's kernel until it ends, or its time is over."""
    # Its own session, so that every process of the guest can be ended together.
    process = subprocess.Popen(
        command,
        stdin=None if interactive else subprocess.DEVNULL,
        stdout=None if interactive else console,
        stderr=None if interactive else subprocess.STDOUT,
        env={"HOME": str(scratch), "TMPDIR": str(scratch), "PATH": "/usr/bin:/bin"},
        cwd=scratch,
        start_new_session=True,
        preexec_fn=lambda: _prepare_guest(cpu),  # noqa: PLW1509
    )
    begin, full = time.monotonic(), False
    try:
        while True:
            started = (job_folder / STARTED).exists()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return _End(process.wait(timeout=POLL_S if started else START_POLL_S), full)
            full = full or shutil.disk_usage(scratch).free < SCRATCH_FULL_BYTES
            limit_s = timeout_s if started else min(START_LIMIT_S, timeout_s)
            if time.monotonic() - begin > limit_s:
                return _End(None, full)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _result(job_folder: Path, end: _End, console: str, timeout_s: float) -> dict[str, Any]:
    """Read what a guest left; raises what `boot` does."""
    result: dict[str, Any] = {}
    with contextlib.suppress(OSError, json.JSONDecodeError):
        result = json.loads((job_folder / "result.json").read_text())
    if not result or "error" in result or result.get("reasons"):
        # A check may have failed for what the host did.
        remedies.refuse_host_failure(console, end.status, end.scratch_full)
    if not (job_folder / STARTED).exists():
        raise remedies.not_started(console, end.status)
    said = f"last on its console: {remedies.last_words(console)}"
    if end.status is None:
        raise GuestLostError(
            f"the guest must end within {timeout_s:g} s of wall time, found it still running; "
            f"{said}",
            hint="raise --timeout-s if the host is slow",
        )
    if not result:
        raise GuestLostError(
            f"the guest must leave result.json, found none (exit status {end.status}); {said}"
        )
    refuse_failure(result)
    return result


def refuse_failure(result: dict[str, Any]) -> None:
    """Raise what a job wrote in place of its result: see `cell.write_failure`.

    Raises:
        HostError: the instrument failed.
        GuestLostError: a program crashed.
        LosslabError: the job was refused by itself.
    """
    if "error" not in result:
        return
    if result.get("kind") == "host":
        raise HostError(result["error"])
    if result.get("kind") == "crashed":
        raise GuestLostError(f"the job must not crash, found {result['error']}")
    raise LosslabError(f"the job must succeed, found:\n{result['error']}")


def _prepare_guest(cpu: int) -> None:
    """Tie the guest to one CPU and to this process's life, between fork and exec."""
    os.sched_setaffinity(0, {cpu})
    # A file that the guest has open is one that its kernel has open here: ffmpeg alone needs 200.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # A guest must not outlive a killed parent: prctl(2), PR_SET_PDEATHSIG.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def console_reasons(console: str) -> list[str]:
    """Quote the console lines that speak of a warning or panic of the guest's kernel."""
    return [
        f"the guest's console must show no warning, found: {line.strip()}"
        for line in console.splitlines()
        if any(word in line for word in TROUBLE)
    ]
