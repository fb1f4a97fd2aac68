"""Host resources of a guest: space for its memory, resource limits, and a CPU."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from losslab.backends.base import Finding
from losslab.errors import HostError
from losslab.lock import open_lock, private_folder

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
# Root's folder if XDG_RUNTIME_DIR is not set.
RUN = Path("/run/losslab")


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


def lock_folders() -> list[Path]:
    """List candidate folders for this user's CPU locks; the first private one is used.

    XDG_RUNTIME_DIR belongs to one user (XDG Base Directory Specification). In a temporary folder,
    another user may already have a file with the name.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    own = [Path(runtime) / "losslab"] if Path(runtime).is_absolute() else []
    run = [RUN] if os.geteuid() == 0 else []
    return [*own, *run, Path(tempfile.gettempdir()) / f"losslab-{os.geteuid()}"]


@contextlib.contextmanager
def own_cpu(folder: Path | None = None, cpus: Sequence[int] | None = None) -> Iterator[int]:
    """Reserve the CPU that the fewest guests of this user use.

    A guest whose kernel and processes share a CPU runs up to twice as fast as one that the
    scheduler spreads over several. The locks keep the guests of several campaigns on different
    CPUs. Sharing a CPU costs time, not correctness; without usable locks, a guest takes any CPU.

    Args:
        folder: Folder of the locks, with files for each CPU; this user's by default.
        cpus: The CPUs to choose from; by default those that this process may use.
    """
    cpus = cpus or sorted(os.sched_getaffinity(0))
    refused = []
    with contextlib.ExitStack() as stack:
        cpu = cpus[os.getpid() % len(cpus)]
        for place in [folder] if folder else lock_folders():
            try:
                held = _hold(place, cpus)
            except HostError as error:
                refused.append(error.message)
                continue
            if held is not None:
                cpu, lock = held
                stack.callback(os.close, lock)
            break
        else:
            print(
                "losslab: note: guests may share a CPU while another is idle: "
                + "; ".join(refused),
                file=sys.stderr,
            )
        yield cpu


def _hold(folder: Path, cpus: Sequence[int]) -> tuple[int, int] | None:
    """Take the first free lock in a folder; return its CPU and descriptor, or None if none is free.

    The folder must be private.
    """
    with private_folder(folder) as descriptor:
        for place in range(PLACES_PER_CPU):
            for cpu in cpus:
                lock = open_lock(folder / f"cpu-{cpu}.{place}", descriptor)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(lock)
                    continue
                return cpu, lock
    return None
