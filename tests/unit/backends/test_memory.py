"""Memory of snapshots."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from losslab.backends.snapshot import HOLE_BYTES, release_zeros

# A process with an unnamed file: data, zeros, data beside zeros, a hole.
PROGRAM = f"""
import sys, tempfile
file = tempfile.TemporaryFile(dir='/dev/shm')
n = {HOLE_BYTES}
file.write(b"a" * n + bytes(200 * n) + b"b" + bytes(n - 1))
file.truncate(400 * n)
file.flush()
print(file.fileno(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def waiting() -> Iterator[tuple[int, Path]]:
    """Return the PID of a waiting process, and the path of its unnamed file."""
    words = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield process.pid, Path(f"/proc/{process.pid}/fd/{int(process.stdout.readline())}")
        assert process.stdin
        process.stdin.close()


def test_zeros_are_released_and_the_content_is_the_same(waiting: tuple[int, Path]) -> None:
    pid, path = waiting
    before, allocated = path.read_bytes(), path.stat().st_blocks
    release_zeros(pid)
    assert path.read_bytes() == before
    assert path.stat().st_size == len(before) == 400 * HOLE_BYTES
    assert path.stat().st_blocks * 512 == 2 * HOLE_BYTES
    assert allocated * 512 == 202 * HOLE_BYTES


def test_a_process_without_such_a_file_is_left_alone() -> None:
    release_zeros(os.getpid())
    release_zeros(2**22 + 1)  # no process has this PID
