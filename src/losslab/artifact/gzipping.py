"""Gzip on several processors: a file of members, which every gzip reads as one."""

from __future__ import annotations

import gzip
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, BinaryIO, cast

PART_BYTES = 2**20
# Level 1 compresses SVG and CSV to a fifth. Parts whose beginning hardly shrinks are only stored:
# they are compressed already, as packed images and PNG files are.
LEVEL, STORED = 1, 0
SAMPLE_BYTES, WORTH_IT = 2**16, 0.95


class Writer:
    """File that `tarfile` can write to."""

    def __init__(self, file: BinaryIO, pool: ThreadPoolExecutor, ahead: int) -> None:
        self._file, self._pool, self._ahead = file, pool, ahead
        self._part = bytearray()
        self._waiting: deque[Future[bytes]] = deque()

    def write(self, data: bytes) -> int:
        """Compress data, and write what is finished."""
        self._part += data
        if len(self._part) >= PART_BYTES:
            self._submit()
        return len(data)

    def _submit(self) -> None:
        self._waiting.append(self._pool.submit(_member, bytes(self._part)))
        self._part.clear()
        self._flush(self._ahead)

    def _flush(self, keep: int) -> None:
        while len(self._waiting) > keep:
            self._file.write(self._waiting.popleft().result())

    def finish(self) -> None:
        """Write the rest."""
        self._submit()
        self._flush(0)


@contextmanager
def writing(file: BinaryIO, processors: int) -> Iterator[IO[bytes]]:
    """Compress into a file for the length of the block."""
    with ThreadPoolExecutor(processors) as pool:
        writer = Writer(file, pool, 2 * processors)
        yield cast("IO[bytes]", writer)
        writer.finish()


def _member(part: bytes) -> bytes:
    sample = part[:SAMPLE_BYTES]
    shrinks = len(zlib.compress(sample, LEVEL)) < WORTH_IT * len(sample)
    return gzip.compress(part, LEVEL if shrinks else STORED, mtime=0)
