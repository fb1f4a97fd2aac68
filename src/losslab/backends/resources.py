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
# What each limit (getrlimit(2)) must allow: by prlimit(1)'s name, what it limits, bash's command,
# how many of how many bytes. A guest's memory is a sparse file of 2 GiB, which its kernel maps
# whole (2.2 GB of address space boot, 2.0 do not). A file that the guest has open its kernel has
# open, too: ffmpeg alone opens 200.
NEEDED = {
    "nofile": ("open files", "ulimit -n", 1024, 1),
    "as": ("address space in KiB", "ulimit -v", 3 * KIB_PER_GIB, 1024),
    "fsize": ("file size in KiB", "ulimit -f", 2 * KIB_PER_GIB, 1024),
}
# A guest's processes have soft limits as high as the hard ones.
RAISED = tuple(NEEDED)
# Guests on a CPU that are counted; with more of them nothing is fast anyway.
PLACES_PER_CPU = 8
# Root's own folder, where there is no XDG_RUNTIME_DIR.
RUN = Path("/run/losslab")


def scratch_folder() -> Path:
    """Choose where the guest's memory file lies: fast, large enough, and allowing exec."""
    tried = []
    for place in (os.environ.get("LOSSLAB_SCRATCH"), "/dev/shm", os.environ.get("TMPDIR"), "/tmp"):
        if not place:
            continue
        found = Path(place).resolve()
        if not found.is_dir() or not os.access(found, os.W_OK):
            tried.append(f"{place} is not a folder that can be written to")
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
    for name, (what, shell, need, unit) in NEEDED.items():
        hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
        found = None if hard == resource.RLIM_INFINITY else hard // unit
        yield Finding(
            f"limit of {what}",
            found is None or found >= need,
            "none" if found is None else f"{found}, and a guest needs {need}",
            f"raise it to {need}: `{shell} {need}` in a shell of root's, `* hard {name} {need}` in "
            "/etc/security/limits.conf, or the batch system's or container's option for it",
        )


def require_limits() -> None:
    """Refuse limits under which a guest would hang or die: HostError with each that is too low."""
    low = [finding for finding in limits() if not finding.good]
    if low:
        raise HostError(
            "hard limits must leave a guest what it needs, found "
            + "; ".join(f"{finding.what}: {finding.found}" for finding in low),
            hint="; ".join(finding.remedy for finding in low),
        )


def lock_folders() -> list[Path]:
    """List where the locks of this user's CPUs may lie; the first private one counts.

    XDG_RUNTIME_DIR belongs to one user (XDG Base Directory Specification), a temporary folder to
    all: there another user may have taken the name.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    own = [Path(runtime) / "losslab"] if Path(runtime).is_absolute() else []
    run = [RUN] if os.geteuid() == 0 else []
    return [*own, *run, Path(tempfile.gettempdir()) / f"losslab-{os.geteuid()}"]


@contextlib.contextmanager
def own_cpu(folder: Path | None = None, cpus: Sequence[int] | None = None) -> Iterator[int]:
    """Hold one of the CPUs that the fewest guests of this user hold.

    A guest whose kernel and processes share a CPU runs up to twice as fast as one that the
    scheduler spreads. With more guests than CPUs they share, which costs time, not correctness: a
    second campaign's guests must not all go where the first one's are. So if the locks are not
    available, a guest takes a CPU without one.

    Args:
        folder: Where the locks are, a file for each CPU and place on it; of this user by default.
        cpus: To choose from; those that this process may use, if none are named.
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
    """Lock the first free place in a private folder; return its CPU and the lock's descriptor.

    None if all are taken.
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
