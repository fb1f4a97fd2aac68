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
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.condition import derived_seed
from losslab.errors import GuestLostError, LosslabError

PACKAGE = Path(__file__).resolve().parents[1]
MEMORY = "2G"  # sparse; with less, TCP's share makes windows collapse
# Any fixed instant: 2024-01-01T00:00:00Z. Dates inside the guest are part of the result.
START_NS = 1_704_067_200_000_000_000
VIRTUAL_TIME = ["time-travel=inf-cpu", f"time-travel-start={START_NS}"]
CONSOLE_LINES = 15
TROUBLE = ("Kernel panic", "WARNING: ", "BUG: ", "Oops", "Call Trace", "Out of memory")
PR_SET_PDEATHSIG = 1  # linux/prctl.h
SCRATCH_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Outcome:
    """How a guest's run ended."""

    result: dict[str, Any]
    console: str
    wall_s: float


def scratch_folder() -> Path:
    """Choose where the guest's memory file lies: fast, large enough, and allowing exec.

    Raises:
        LosslabError: no such place.
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
    raise LosslabError(
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
        GuestLostError: the guest hung, panicked, or left no result; with the console's last lines.
        LosslabError: the guest's job failed.
    """
    (job_folder / "job.json").write_text(json.dumps(job, indent=1, sort_keys=True) + "\n")
    console_path = job_folder / "console.log"
    begin = time.monotonic()
    # A short path without spaces for the kernel's command line, whatever the clone's is.
    with (
        tempfile.TemporaryDirectory(prefix="losslab-", dir=scratch_folder()) as scratch,
        own_cpu() as cpu,
    ):
        links = Path(scratch)
        for name, target in (("root", image_root), ("out", job_folder)):
            (links / name).symlink_to(target.resolve())
        # A copy, without byte code: where the host's Python is of the guest's version, the guest
        # would find it from the second run on, and reading differs from compiling by microseconds.
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, links / "src" / PACKAGE.name, ignore=ignored)
        command = [
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
        # Its own session, so that every process of the guest can be ended together.
        with console_path.open("wb") as console:
            process = subprocess.Popen(
                command,
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=None if interactive else console,
                stderr=None if interactive else subprocess.STDOUT,
                env={"HOME": scratch, "TMPDIR": scratch, "PATH": "/usr/bin:/bin"},
                cwd=scratch,
                start_new_session=True,
                preexec_fn=lambda: _prepare_guest(cpu),  # noqa: PLW1509
            )
            hung = False
            try:
                process.wait(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                hung = True
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    console_text = console_path.read_text(errors="replace")
    tail = "\n".join(console_text.splitlines()[-CONSOLE_LINES:])
    if hung:
        raise GuestLostError(
            f"the guest must end within {timeout_s:g} s of wall time, found it still running; "
            f"its console's last lines:\n{tail}",
            hint="raise --timeout-s if the host is slow",
        )
    result_path = job_folder / "result.json"
    if not result_path.exists():
        raise GuestLostError(
            f"the guest must leave result.json, found none (exit status {process.returncode}); "
            f"its console's last lines:\n{tail}"
        )
    result = json.loads(result_path.read_text())
    if "error" in result:
        raise LosslabError(f"the guest's job must succeed, found:\n{result['error']}")
    return Outcome(result, console_text, time.monotonic() - begin)


def _prepare_guest(cpu: int) -> None:
    """Tie the guest to one CPU and to this process's life, between fork and exec."""
    os.sched_setaffinity(0, {cpu})
    # A guest must not outlive a killed parent: prctl(2), PR_SET_PDEATHSIG.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def console_reasons(console: str) -> list[str]:
    """Quote the console lines that speak of a warning or panic of the guest's kernel."""
    return [
        f"the guest's console must show no warning, found: {line.strip()}"
        for line in console.splitlines()
        if any(word in line for word in TROUBLE)
    ]
