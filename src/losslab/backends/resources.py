"""Host resources of a guest: space for its memory, resource limits, and a CPU."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from losslab.backends.base import Finding
from losslab.errors import HostError, LosslabError
from losslab.instrument.cache import locks
from losslab.lock import taken

MEMORY_BYTES = 256 * 2**20
KIB_PER_GIB = 2**20
# Minimum of each limit (getrlimit(2)): prlimit(1)'s name, description, bash's command, number, unit
# in bytes. A guest's memory is a sparse file of 2 GiB that its kernel maps completely: a guest
# boots with 2.2 GB of address space, but not with 2.0 GB. The kernel opens each file that the guest
# opens; ffmpeg alone opens 200.
NEEDED = {
    "nofile": ("open files", "ulimit -n", 1024, 1),
    "as": ("address space in KiB", "ulimit -v", 3 * KIB_PER_GIB, 1024),
    "fsize": ("file size in KiB", "ulimit -f", 2 * KIB_PER_GIB, 1024),
}
# For a guest's processes, these soft limits are raised to the hard limits.
RAISED = tuple(NEEDED)
# Maximum number of guests per CPU that take locks; with more, performance does not matter.
PLACES_PER_CPU = 8


def scratch_folder() -> Path:
    """Choose the folder of guests' memory: the first with enough space that allows exec."""
    tried = []
    for place in (os.environ.get("LOSSLAB_SCRATCH"), "/dev/shm", os.environ.get("TMPDIR"), "/tmp"):
        if not place:
            continue
        found = Path(place).resolve()
        if not found.is_dir() or not os.access(found, os.W_OK):
            tried.append(f"{place} is not a writable folder")
            continue
        stats = os.statvfs(found)
        if stats.f_flag & os.ST_NOEXEC:
            tried.append(f"{place} is mounted noexec")
        elif stats.f_bavail * stats.f_frsize < MEMORY_BYTES:
            tried.append(f"{place} has less than {MEMORY_BYTES >> 20} MiB free")
        else:
            if tried:
                print(
                    f"losslab: note: guest memory in {found}: {'; '.join(tried)}", file=sys.stderr
                )
            return found
    raise HostError(
        f"the guest's memory needs a folder that allows exec and has {MEMORY_BYTES >> 20} MiB "
        f"free, found: {'; '.join(tried)}",
        hint="set LOSSLAB_SCRATCH to such a folder",
    )


def limits() -> Iterator[Finding]:
    """Compare each hard limit with what a guest needs."""
    for name, (description, shell, need, unit) in NEEDED.items():
        hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
        found = None if hard == resource.RLIM_INFINITY else hard // unit
        yield Finding(
            f"limit of {description}",
            found is None or found >= need,
            "none" if found is None else f"{found}, and a guest needs {need}",
            f"raise it to {need}: `{shell} {need}` in a root shell, `* hard {name} {need}` in "
            "/etc/security/limits.conf, or an option of the batch system or container",
        )


def require_limits() -> None:
    """Raise a HostError that lists the limits that are too low for a guest."""
    low = [finding for finding in limits() if not finding.good]
    if low:
        raise HostError(
            "hard limits must be high enough for a guest, found "
            + "; ".join(f"{finding.requirement}: {finding.found}" for finding in low),
            hint="; ".join(finding.fix for finding in low),
        )


@contextlib.contextmanager
def own_cpu(cpus: Sequence[int] | None = None) -> Iterator[int]:
    """Reserve the CPU that the fewest guests of this user use; by default, of all usable ones.

    A guest whose kernel and processes share a CPU runs up to twice as fast as one that the
    scheduler spreads over several. The locks keep the guests of several campaigns on different
    CPUs. Sharing a CPU costs time, not correctness, and neither does a cache without locks.
    """
    cpus = cpus or sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as lock:
        for place, cpu in itertools.product(range(PLACES_PER_CPU), cpus):
            with contextlib.suppress(OSError, LosslabError):  # in use
                # A cache may be on a disk that several machines share.
                name = f"cpu-{os.uname().nodename}-{cpu}.{place}"
                lock.enter_context(taken(locks() / name))
                break
        else:
            cpu = cpus[os.getpid() % len(cpus)]
        yield cpu
