"""Spread a user's guests over the CPUs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from losslab.errors import HostError
from losslab.lock import open_lock, private_folder

# Guests on a CPU that are counted; with more of them nothing is fast anyway.
PLACES_PER_CPU = 8
# Root's own folder, where there is no XDG_RUNTIME_DIR.
RUN = Path("/run/losslab")


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
    second campaign's guests must not all go where the first one's are. So where the locks cannot
    be had, a guest takes a CPU without one.

    Args:
        folder: Where the locks are, a file for each CPU and place on it; of this user by default.
        cpus: To choose from; those that this process may use, if none are named.
    """
    cpus = cpus or sorted(os.sched_getaffinity(0))
    refused = []
    for place in [folder] if folder else lock_folders():
        try:
            held = _hold(place, cpus)
        except HostError as error:
            refused.append(error.message)
            continue
        with contextlib.ExitStack() as stack:
            cpu = cpus[os.getpid() % len(cpus)]
            if held is not None:
                cpu, lock = held
                stack.callback(os.close, lock)
            yield cpu
            return
    print(
        f"losslab: note: guests may share a CPU while another is idle: {'; '.join(refused)}",
        file=sys.stderr,
    )
    yield cpus[os.getpid() % len(cpus)]


def _hold(folder: Path, cpus: Sequence[int]) -> tuple[int, int] | None:
    """Lock the first free place in a folder; None if all are taken.

    Returns:
        The CPU, and the descriptor that holds its lock.

    Raises:
        HostError: the folder or a file in it is not this user's own.
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
