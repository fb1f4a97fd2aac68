"""Choose the folder for guests' memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from losslab.errors import HostError

BYTES = 256 * 2**20


def folder() -> Path:
    """Choose where the guest's memory file lies: fast, large enough, and allowing exec.

    Raises:
        HostError: no such place.
    """
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
        elif stats.f_bavail * stats.f_frsize < BYTES:
            tried.append(f"{place} has less than {BYTES >> 20} MiB free")
        else:
            if tried:
                print(
                    f"losslab: note: guest memory in {found}: {'; '.join(tried)}", file=sys.stderr
                )
            return found
    raise HostError(
        f"the guest's memory needs a folder that allows exec and has {BYTES >> 20} MiB "
        f"free, found: {'; '.join(tried)}",
        hint="set LOSSLAB_SCRATCH to such a folder",
    )
