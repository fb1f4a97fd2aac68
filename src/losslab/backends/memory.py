"""Memory of snapshots, which every fork copies."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

BLOCK_BYTES = 2**20
# Smaller holes would make more system calls of a fork than they save copying.
HOLE_BYTES = 2**14
PUNCH_HOLE, KEEP_SIZE = 0x02, 0x01  # linux/falloc.h


def release_zeros(pid: int) -> None:
    """Release the zeros in the memory file of a waiting snapshot.

    A hole in the file reads as zeros, so nothing changes for the snapshot and its forks, but forks
    do not copy it. Where the file cannot be found or has no holes, its memory stays as it is.
    """
    try:
        path = _memory_file(pid)
        if path is None:
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _punch(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        return


def _memory_file(pid: int) -> Path | None:
    """Return the largest unnamed file that a process has open."""
    files = [p for p in Path(f"/proc/{pid}/fd").iterdir() if "(deleted)" in os.readlink(p)]
    return max(files, key=lambda path: path.stat().st_size, default=None)


def _punch(descriptor: int) -> None:
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    zeros, size = bytes(HOLE_BYTES), os.fstat(descriptor).st_size
    for at in range(0, size, BLOCK_BYTES):
        if os.lseek(descriptor, at, os.SEEK_DATA) >= at + BLOCK_BYTES:
            continue
        block = os.pread(descriptor, BLOCK_BYTES, at)
        holes = [n for n in range(0, len(block), HOLE_BYTES) if block.startswith(zeros, n)]
        for n in holes:
            if fallocate(descriptor, PUNCH_HOLE | KEEP_SIZE, at + n, HOLE_BYTES):
                raise OSError(ctypes.get_errno(), "fallocate")
