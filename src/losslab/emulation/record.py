"""The kernel's own record of connections and a queue, which it keeps at exact times.

A guest's kernel samples in a soft interrupt and keeps the samples in memory (kernel patch 0017), so
that no program wakes up for them and no clock is read. Standard library only.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from losslab.emulation.probes import QueueSample, TcpSample, tcp_sample

FILE = Path("/proc/net_record")
# The kernel hands out whole blocks of 16 KiB, as many as fit.
READ_BYTES = 1 << 20
# `struct tcp_sample` and `struct queue_sample` of net/ipv4/tcp_record.c.
TCP_SAMPLE = struct.Struct("=QQQQQQ3Q4I5IHBB16s")
QUEUE_SAMPLE = struct.Struct("=QQIII4x")


class Record:
    """Record of the namespace in which it is created; it begins with an order."""

    def __init__(self) -> None:
        self._descriptor = os.open(FILE, os.O_RDWR)
        self.full = False  # the kernel had no room for a sample

    def begin(self, order: str) -> None:
        """Begin to record: `tcp START INTERVAL`, `queue START INTERVAL DEVICE`, or `events`.

        Times are in ns. Events are those of the connections' congestion control.
        """
        os.write(self._descriptor, order.encode())

    def read(self) -> bytes:
        """Take what has been recorded since the last read out of the kernel's memory."""
        parts, room = [], memoryview(bytearray(READ_BYTES))
        while count := self.read_into(room):
            parts.append(bytes(room[:count]))
        return b"".join(parts)

    def read_into(self, room: memoryview) -> int:
        """Take as much as has room, at least READ_BYTES; return its number of bytes.

        It needs no new memory, whose first use costs a guest as much as the rest.
        """
        try:
            return os.readv(self._descriptor, [room])
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self.full = True
            return 0

    def close(self) -> None:
        """Forget what has been recorded."""
        os.close(self._descriptor)


def tcp_samples(data: bytes) -> Iterator[tuple[int, TcpSample]]:
    """Yield (time in ns, sample) from a record of TCP."""
    for (
        ns, pacing, delivery, acked, sent, sent_again, busy_us, rwnd_us, sndbuf_us, cwnd, ssthresh,
        rtt_us, rttvar_us, retransmits, unacked, sacked, mss, unsent, port, _, accurate, algorithm,
    ) in TCP_SAMPLE.iter_unpack(data):  # fmt: skip
        yield ns, tcp_sample(
            port, algorithm.rstrip(b"\0").decode(), (mss, unacked, sacked, rtt_us, rttvar_us,
            ssthresh, cwnd, retransmits, pacing, acked, unsent, delivery, busy_us, rwnd_us,
            sndbuf_us, sent, sent_again), bool(accurate),
        )  # fmt: skip


def queue_samples(data: bytes, origin_ns: int) -> Iterator[QueueSample]:
    """Yield the samples of a queue's record, with times since `origin_ns`."""
    for ns, sent, packets, octets, drops in QUEUE_SAMPLE.iter_unpack(data):
        yield QueueSample((ns - origin_ns) / 1e9, packets, octets, drops, sent)
