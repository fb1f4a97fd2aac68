"""Round-trip times of ICMP echo requests, timestamped by the kernel.

`ping` would poll the clock for up to 10 ms before it sends. In virtual time, such polling costs
seconds of wall time per run, because only clock reads advance the time meanwhile.
"""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

COLUMNS = "t_s,rtt_ms"
BEFORE_COUNT = 20  # at 10 % loss in each direction, all 20 are lost in one of 10^14 runs
BEFORE_INTERVAL_S = 0.02
# Added to the path's delay: a reply that is later counts as lost.
BEFORE_TIMEOUT_S = 1.0
DURING_INTERVAL_S = 0.1

ECHO_REPLY, ECHO_REQUEST = 0, 8  # linux/icmp.h
HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence
PAYLOAD = bytes(56)  # as ping(8)
IDENTIFIER = 0x10_55
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the control message has the same number
TIMESPEC = struct.Struct("@qq")


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return int(~(total + (total >> 16)) & 0xFFFF)


def request(sequence: int) -> bytes:
    """Build an echo request."""
    blank = HEADER.pack(ECHO_REQUEST, 0, 0, IDENTIFIER, sequence) + PAYLOAD
    return HEADER.pack(ECHO_REQUEST, 0, checksum(blank), IDENTIFIER, sequence) + PAYLOAD


def reply_sequence(packet: bytes) -> int | None:
    """Return the sequence number of a reply to a probe; None for any other ICMP packet."""
    header_bytes = 4 * (packet[0] & 0x0F)  # a raw socket keeps the IPv4 header
    kind, _, _, identifier, sequence = HEADER.unpack_from(packet, header_bytes)
    return int(sequence) if (kind, identifier) == (ECHO_REPLY, IDENTIFIER) else None


class EchoProbe:
    """Sender of echo requests in the namespace where it is created, and receiver of the replies."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)
        self._socket.connect((address, 0))
        self._sent: list[tuple[float, int]] = []  # caller's time in s, kernel's clock in ns
        self._rtt_ms: dict[int, float] = {}

    def send(self, t_s: float) -> None:
        """Send a request at `t_s` of the caller's clock."""
        self._sent.append((t_s, time.clock_gettime_ns(time.CLOCK_REALTIME)))
        self._socket.send(request((len(self._sent) - 1) & 0xFFFF))

    @property
    def answered(self) -> bool:
        """Return whether every request has a reply."""
        return len(self._rtt_ms) == len(self._sent)

    def replies(self) -> list[tuple[float, float]]:
        """Return (send time in s, RTT in ms) of each request that has a reply."""
        self.receive()
        return [(self._sent[n][0], rtt_ms) for n, rtt_ms in sorted(self._rtt_ms.items())]

    def receive(self) -> None:
        """Read the replies that have arrived, until every request has one."""
        while not self.answered:
            try:
                packet, control, _, _ = self._socket.recvmsg(2048, 64)
            except BlockingIOError:
                return
            sequence = reply_sequence(packet)
            if sequence is None:
                continue
            seconds, nanoseconds = next(
                TIMESPEC.unpack(data[: TIMESPEC.size])
                for level, kind, data in control
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)
            )
            # The latest request whose number has these lower 16 bits.
            number = len(self._sent) - 1 - ((len(self._sent) - 1 - sequence) & 0xFFFF)
            arrived_ns = seconds * 1_000_000_000 + nanoseconds
            self._rtt_ms[number] = (arrived_ns - self._sent[number][1]) / 1e6

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def measure_idle(
    probe: EchoProbe, rtt_ms: float, min_interval_s: float = 0.0
) -> list[tuple[float, float]]:
    """Ping an idle path with an RTT of about `rtt_ms`; return the replies as `replies` does."""
    interval_s = max(BEFORE_INTERVAL_S, min_interval_s)
    for number in range(BEFORE_COUNT):
        probe.send(number * interval_s)
        time.sleep(interval_s)
    deadline = time.monotonic() + BEFORE_TIMEOUT_S + 2 * rtt_ms / 1e3 + min_interval_s
    while not probe.answered and time.monotonic() < deadline:
        time.sleep(BEFORE_INTERVAL_S)
        probe.receive()
    return probe.replies()


def write_csv(replies: list[tuple[float, float]], path: Path) -> None:
    """Write replies as a table with `COLUMNS`."""
    lines = [f"{t_s:.3f},{rtt_ms:.6f}" for t_s, rtt_ms in replies]
    path.write_text("\n".join([COLUMNS, *lines]) + "\n")
