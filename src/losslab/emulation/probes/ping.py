"""Round-trip times by ICMP echo, timed by the kernel.

As `ping` does it, but for its habit of spinning on the clock for up to 10 ms before it sends: in
virtual time, where looking at the clock is all that lets time pass, that costs seconds per run.
"""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

COLUMNS = "t_s,rtt_ms"
BEFORE_COUNT = 20  # at 10 % loss each way, all of 20 are lost in one of 10^14 runs
BEFORE_INTERVAL_S = 0.02
# Past every queue: what has not come by then is lost.
BEFORE_PATIENCE_S = 1.0
DURING_INTERVAL_S = 0.1

ECHO_REPLY, ECHO_REQUEST = 0, 8  # linux/icmp.h
HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence
PAYLOAD = bytes(56)  # as ping(8)
IDENTIFIER = 0x10_55
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the control message has the same number
TIMESPEC = struct.Struct("@qq")


def checksum(data: bytes) -> int:
    """Compute the Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return int(~(total + (total >> 16)) & 0xFFFF)


def request(sequence: int) -> bytes:
    """Make an echo request."""
    blank = HEADER.pack(ECHO_REQUEST, 0, 0, IDENTIFIER, sequence) + PAYLOAD
    return HEADER.pack(ECHO_REQUEST, 0, checksum(blank), IDENTIFIER, sequence) + PAYLOAD


def reply_sequence(packet: bytes) -> int | None:
    """Return the sequence number of one of our replies; None for any other ICMP packet."""
    header_bytes = 4 * (packet[0] & 0x0F)  # of IPv4, which a raw socket leaves in place
    kind, _, _, identifier, sequence = HEADER.unpack_from(packet, header_bytes)
    return int(sequence) if (kind, identifier) == (ECHO_REPLY, IDENTIFIER) else None


class EchoProbe:
    """Sends echo requests from the namespace where it was made, and gathers the answers."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)
        self._socket.connect((address, 0))
        self._sent: list[tuple[float, int]] = []  # caller's time in s, kernel's clock in ns
        self._rtt_ms: dict[int, float] = {}

    def send(self, t_s: float) -> None:
        """Send a request; `t_s` is the caller's clock."""
        self._sent.append((t_s, time.clock_gettime_ns(time.CLOCK_REALTIME)))
        self._socket.send(request((len(self._sent) - 1) & 0xFFFF))

    @property
    def answered(self) -> bool:
        """Tell whether every request has been answered."""
        return len(self._rtt_ms) == len(self._sent)

    def replies(self) -> list[tuple[float, float]]:
        """Return (time sent in s, round-trip time in ms) of each request answered so far."""
        self.receive()
        return [(self._sent[n][0], rtt_ms) for n, rtt_ms in sorted(self._rtt_ms.items())]

    def receive(self) -> None:
        """Take in what has arrived, as long as there is a request that waits for its answer."""
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
            # The latest request with these 16 bits of its number.
            number = len(self._sent) - 1 - ((len(self._sent) - 1 - sequence) & 0xFFFF)
            arrived_ns = seconds * 1_000_000_000 + nanoseconds
            self._rtt_ms[number] = (arrived_ns - self._sent[number][1]) / 1e6

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def measure_idle(
    probe: EchoProbe, rtt_ms: float, apart_s: float = 0.0
) -> list[tuple[float, float]]:
    """Send a few requests over a path of about `rtt_ms` and wait for their answers.

    They are at least `apart_s` apart.
    """
    interval_s = max(BEFORE_INTERVAL_S, apart_s)
    for number in range(BEFORE_COUNT):
        probe.send(number * interval_s)
        time.sleep(interval_s)
    deadline = time.monotonic() + BEFORE_PATIENCE_S + 2 * rtt_ms / 1e3 + apart_s
    while not probe.answered and time.monotonic() < deadline:
        time.sleep(BEFORE_INTERVAL_S)
        probe.receive()
    return probe.replies()


def write_csv(replies: list[tuple[float, float]], path: Path) -> None:
    """Write replies as `COLUMNS`."""
    lines = [f"{t_s:.3f},{rtt_ms:.6f}" for t_s, rtt_ms in replies]
    path.write_text("\n".join([COLUMNS, *lines]) + "\n")
