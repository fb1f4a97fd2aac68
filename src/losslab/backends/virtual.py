"""The virtual backend: boot the pinned kernel as a process, in virtual time, for one job.

No root, no Docker, no kernel module: User-Mode Linux with `time-travel=inf-cpu`, its root folder
the host image, its results in the job's folder. See Documentation/virt/uml in the kernel's source.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from losslab.backends import parcel, remedies
from losslab.backends.base import (
    RESULT_FILE,
    STARTED,
    End,
    Instrument,
    Job,
    Needs,
    Start,
    refuse_failure,
)
from losslab.errors import GuestLostError, HostError
from losslab.lock import own_folder
from losslab.study.condition import Condition
from losslab.study.seeds import derived_seed

MEMORY = "2G"  # sparse; with less, TCP's share makes windows collapse
# Any fixed instant: 2024-01-01T00:00:00Z. Dates inside the guest are part of the result.
START_NS = 1_704_067_200_000_000_000
VIRTUAL_TIME = ["time-travel=inf-cpu", f"time-travel-start={START_NS}"]
TROUBLE = ("Kernel panic", "WARNING: ", "BUG: ", "Oops", "Call Trace", "Out of memory")
SCRATCH_BYTES = 256 * 2**20
# How long a guest's first program may take to begin its job. It takes half a second, and under an
# emulated processor half a minute.
START_LIMIT_S = 120.0
# A guest needs up to 5 s of wall time per second of a 1 Gbit/s flow on a slow, busy host; a minute
# to start is ten times what it takes.
START_S = 60.0


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


class Guest:
    """Mininet's own hosts in a kernel of ours."""

    needs = Needs(
        job="emulation/jobs/guest.py", kernel="plain", images=("host",), command="make setup",
        start_s=START_S,
    )  # fmt: skip

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Refuse nothing: a guest brings all that a condition needs."""
        return {}

    def root(self, tools: Instrument) -> Path:
        """Return the image that is the guest's root folder."""
        return tools.image_root

    @contextlib.contextmanager
    def start(self, tools: Instrument, job: Job) -> Iterator[Start]:
        """Give a guest a CPU, and a folder of links and copies."""
        # A short path without spaces for the kernel's command line, whatever the clone's is.
        with own_folder(scratch_folder(), "losslab-guest-") as links, own_cpu() as cpu:
            for name, target in (("root", self.root(tools)), ("out", job.folder)):
                (links / name).symlink_to(target.resolve())
            parcel.pack(links / "src")
            yield Start(
                _command(tools.kernel, links, job.seed, job.interactive),
                cwd=links,
                variables={"HOME": str(links), "TMPDIR": str(links), "PATH": "/usr/bin:/bin"},
                cpu=cpu,
                # A file that the guest has open is one that its kernel has open here: ffmpeg alone
                # needs 200.
                all_files=True,
                start_limit_s=START_LIMIT_S,
                scratch=links,
            )

    def result(self, job: Job, end: End, console: str) -> dict[str, Any]:
        """Read what a guest left, or say why it is nothing."""
        result: dict[str, Any] = {}
        with contextlib.suppress(OSError, json.JSONDecodeError):
            result = json.loads((job.folder / RESULT_FILE).read_text())
        if not result or "error" in result or result.get("reasons"):
            # A check may have failed for what the host did.
            remedies.refuse_host_failure(console, end.status, end.scratch_full)
        if not (job.folder / STARTED).exists():
            raise remedies.not_started(console, end.status)
        said = f"last on its console: {remedies.last_words(console)}"
        if end.status is None:
            raise GuestLostError(
                f"the guest must end within {job.timeout_s:g} s of wall time, found it still "
                f"running; {said}",
                hint="raise --timeout-s if the host is slow",
            )
        if not result:
            raise GuestLostError(
                f"the guest must leave result.json, found none (exit status {end.status}); {said}"
            )
        refuse_failure(result)
        reasons = console_reasons(console)
        return result | ({"reasons": [*result["reasons"], *reasons]} if "reasons" in result else {})


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


def console_reasons(console: str) -> list[str]:
    """Quote the console lines that speak of a warning or panic of the guest's kernel."""
    return [
        f"the guest's console must show no warning, found: {line.strip()}"
        for line in console.splitlines()
        if any(word in line for word in TROUBLE)
    ]
