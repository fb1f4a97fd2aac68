"""Trace-driven link with mahimahi's rules. Pure data; `forward` puts it into a path.

Rules (mm-link, frontend/link_queue.cc): each opportunity of the trace sends 1500 bytes, of one or
several packets. A packet that is sent in part continues at the next opportunity. An opportunity
with an empty queue is lost. Times are whole milliseconds. Full packets leave the FIFOs at the same
times as in mahimahi. Differences:

- A packet counts with its IP length. In mahimahi it has 4 bytes more, a header of the TUN device,
  and an opportunity has 1504 bytes. A link full of 52-byte acknowledgements therefore carries 7 %
  more packets here.
- CoDel follows RFC 8289: it drops the head and does not round its control law. mahimahi drops the
  packet behind the head and computes in whole milliseconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from losslab.emulation.link import traces

# RFC 8289, sections 4.3 and 4.4.
CODEL_TARGET_MS = 5.0
CODEL_INTERVAL_MS = 100.0


@dataclass(frozen=True)
class Packet:
    """Packet in the queue and its arrival time."""

    content: bytes
    arrived_ms: int


class DropTail:
    """Drop-tail FIFO, by default without limits."""

    def __init__(self, limit_packets: int | None = None, limit_bytes: int | None = None) -> None:
        self._limits = (limit_packets, limit_bytes)
        self._packets: deque[Packet] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._packets)

    def enqueue(self, packet: Packet) -> bool:
        """Add a packet; return False if the queue is full."""
        limit_packets, limit_bytes = self._limits
        if limit_packets is not None and len(self._packets) + 1 > limit_packets:
            return False
        if limit_bytes is not None and self.bytes + len(packet.content) > limit_bytes:
            return False
        self._packets.append(packet)
        self.bytes += len(packet.content)
        return True

    def dequeue(self, now_ms: int) -> tuple[Packet | None, list[Packet]]:
        """Return the next packet, and those dropped before it."""
        if not self._packets:
            return None, []
        packet = self._packets.popleft()
        self.bytes -= len(packet.content)
        return packet, []


class CoDel(DropTail):
    """CoDel (RFC 8289): drops at the head while the standing delay is above the target."""

    def __init__(self, limit_packets: int | None = None) -> None:
        super().__init__(limit_packets)
        self._first_above_ms = 0.0
        self._drop_next_ms = 0.0
        self._count = 0
        self._last_count = 0
        self._dropping = False

    def _head(self, now_ms: int) -> tuple[Packet | None, bool]:
        """Take the head; return it, and whether its delay was above the target for an interval."""
        packet, _ = super().dequeue(now_ms)
        if packet is None:
            self._first_above_ms = 0.0
            return None, False
        sojourn_ms = now_ms - packet.arrived_ms
        if sojourn_ms < CODEL_TARGET_MS or self.bytes <= traces.OPPORTUNITY_BYTES:
            self._first_above_ms = 0.0
            return packet, False
        if self._first_above_ms == 0.0:
            self._first_above_ms = now_ms + CODEL_INTERVAL_MS
            return packet, False
        return packet, now_ms >= self._first_above_ms

    def dequeue(self, now_ms: int) -> tuple[Packet | None, list[Packet]]:
        """Return the next packet, and those dropped before it."""
        dropped: list[Packet] = []
        packet, above = self._head(now_ms)
        if self._dropping:
            if not above:
                self._dropping = False
            while self._dropping and now_ms >= self._drop_next_ms and packet is not None:
                dropped.append(packet)
                self._count += 1
                packet, above = self._head(now_ms)
                if above:
                    self._drop_next_ms += CODEL_INTERVAL_MS / math.sqrt(self._count)
                else:
                    self._dropping = False
        elif above and packet is not None:
            dropped.append(packet)
            packet, above = self._head(now_ms)
            self._dropping = True
            recent = now_ms - self._drop_next_ms < 16 * CODEL_INTERVAL_MS
            delta = self._count - self._last_count
            self._count = delta if recent and delta > 1 else 1
            self._drop_next_ms = now_ms + CODEL_INTERVAL_MS / math.sqrt(self._count)
            self._last_count = self._count
        return packet, dropped


QUEUES: dict[str, Callable[[int], DropTail]] = {
    "fifo": DropTail,
    "bfifo": lambda packets: DropTail(limit_bytes=packets * traces.OPPORTUNITY_BYTES),
    "codel": CoDel,
}


@dataclass
class TraceLink:
    """State of a link: its queue, a packet sent in part, and the next opportunity.

    It logs each event: `MS + BYTES` arrival, `MS - BYTES DELAY` departure, `MS d PACKETS BYTES`
    drop. Arrivals and departures are logged as in mahimahi. mahimahi logs drops on arrival only,
    not CoDel's later drops.
    """

    times: Sequence[int]
    queue: DropTail
    log: Callable[[str], object]
    _schedule: Iterator[int] = field(init=False)
    next_ms: int = field(init=False)
    _sending: Packet | None = field(init=False, default=None)
    _bytes_left: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._schedule = traces.opportunities(self.times)
        self.next_ms = next(self._schedule)

    @property
    def busy(self) -> bool:
        """Return whether a packet is queued or sent in part."""
        return self._sending is not None or len(self.queue) > 0

    def arrive(self, content: bytes, now_ms: int) -> list[bytes]:
        """Add a packet; return those that departed up to `now_ms`."""
        departed = self.advance(now_ms)
        self.log(f"{now_ms} + {len(content)}")
        if not self.queue.enqueue(Packet(content, now_ms)):
            self.log(f"{now_ms} d 1 {len(content)}")
        return departed

    def advance(self, now_ms: int) -> list[bytes]:
        """Use the opportunities up to and including `now_ms`; return the packets that departed."""
        departed: list[bytes] = []
        while self.next_ms <= now_ms:
            opportunity_ms, self.next_ms = self.next_ms, next(self._schedule)
            room = traces.OPPORTUNITY_BYTES
            while room > 0 and (self._sending is not None or self._begin(opportunity_ms)):
                sent = min(room, self._bytes_left)
                room -= sent
                self._bytes_left -= sent
                if self._bytes_left == 0:
                    assert self._sending is not None
                    packet, self._sending = self._sending, None
                    delay_ms = opportunity_ms - packet.arrived_ms
                    self.log(f"{opportunity_ms} - {len(packet.content)} {delay_ms}")
                    departed.append(packet.content)
        return departed

    def _begin(self, now_ms: int) -> bool:
        """Start to send the next packet; return whether there is one."""
        packet, dropped = self.queue.dequeue(now_ms)
        for each in dropped:
            self.log(f"{now_ms} d 1 {len(each.content)}")
        self._sending = packet
        self._bytes_left = len(packet.content) if packet else 0
        return packet is not None


def backlog(lines: Sequence[str], times_ms: Sequence[float]) -> list[tuple[int, int, int]]:
    """Return (packets queued, bytes queued, drops so far) of a log at ascending times."""
    found = []
    packets = octets = drops = 0
    events = [line.split() for line in lines]
    next_event = 0
    for time_ms in times_ms:
        while next_event < len(events) and int(events[next_event][0]) <= time_ms:
            _, kind, *numbers = events[next_event]
            next_event += 1
            if kind == "+":
                packets, octets = packets + 1, octets + int(numbers[0])
            elif kind == "-":
                packets, octets = packets - 1, octets - int(numbers[0])
            else:
                count = int(numbers[0])
                packets, octets = packets - count, octets - int(numbers[1])
                drops += count
        found.append((packets, octets, drops))
    return found


def summarise(
    lines: Sequence[str], begin_ms: float = 0.0, end_ms: float = math.inf
) -> dict[str, float | None]:
    """Summarise a log as mahimahi's `mm-throughput-graph` does; empty if nothing departed.

    Throughput covers the time from `begin_ms` to `end_ms`. In that script, it covers the time from
    the log's first to its last opportunity, which `mm-link --once` makes the trace's length.

    The signal delay of a millisecond is the minimum time that a message of that time needs to reach
    the other end: the delay of the packets sent at that time, or the wait for the next packet sent
    plus its delay.
    """
    stamps: list[int] = []
    delays: list[int] = []
    signal_ms: dict[int, int] = {}
    octets = 0
    for line in lines:
        at, kind, *numbers = line.split()
        if not begin_ms <= int(at) <= end_ms:
            continue
        stamps.append(int(at))
        if kind == "-":
            octets += int(numbers[0])
            delay = int(numbers[1])
            delays.append(delay)
            sent_ms = int(at) - delay
            signal_ms[sent_ms] = min(delay, signal_ms.get(sent_ms, delay))
    span_ms = (max(stamps, default=0) if math.isinf(end_ms) else end_ms) - begin_ms
    if not delays or span_ms <= 0:
        return {}
    for ms in range(max(signal_ms), min(signal_ms) - 1, -1):
        if ms not in signal_ms:
            signal_ms[ms] = signal_ms[ms + 1] + 1
    throughput_mbit = octets * 8 / 1e3 / span_ms
    signal_delay_ms = percentile_95(list(signal_ms.values()))
    return {
        "link_throughput_mbit": throughput_mbit,
        "queue_delay_p95_ms": percentile_95(delays),
        "signal_delay_p95_ms": signal_delay_ms,
        # Throughput over the 95th percentile of the signal delay in s.
        "power": throughput_mbit / (signal_delay_ms / 1e3) if signal_delay_ms else None,
    }


def percentile_95(values: Sequence[int]) -> int:
    """Return the value at 95 % of the sorted values, as `mm-throughput-graph` does."""
    return sorted(values)[int(0.95 * len(values))]
