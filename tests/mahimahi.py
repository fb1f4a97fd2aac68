"""Oracle of trace-driven links: mahimahi's rules on a FIFO, in whole milliseconds.

The rules are those of mm-link (frontend/link_queue.cc), which `losslab.emulation.link.tracelink`
lists. The kernel's link must do with the same arrivals exactly what this link does.
"""

from collections import deque
from dataclasses import dataclass

from losslab.emulation.link.tracelink import OPPORTUNITY_BYTES, opportunities


@dataclass(frozen=True)
class Packet:
    """Packet in the queue and its arrival time."""

    size: int
    arrived_ms: int


class TraceLink:
    """State of a link: its queue, a packet sent in part, and the next opportunity.

    `log` takes a line for each event, as `tracelink.backlog` has them. `start_ms` of the trace is
    0 ms of the log.
    """

    def __init__(self, times, limit_packets, log, start_ms=0):
        self.queue, self.limit_packets, self.log = deque(), limit_packets, log
        self._schedule = opportunities(times, start_ms)
        self.next_ms = next(self._schedule)
        self._sending = None
        self._bytes_left = 0

    def arrive(self, size, now_ms):
        """Add a packet of `size` bytes, or drop it if the queue is full."""
        self.advance(now_ms)
        self.log(f"{now_ms} + {size}")
        if len(self.queue) < self.limit_packets:
            self.queue.append(Packet(size, now_ms))
        else:
            self.log(f"{now_ms} d 1 {size}")

    def advance(self, now_ms):
        """Use the opportunities up to and including `now_ms`."""
        while self.next_ms <= now_ms:
            opportunity_ms, self.next_ms = self.next_ms, next(self._schedule)
            room = OPPORTUNITY_BYTES
            while room > 0 and (self._sending is not None or self._begin()):
                sent = min(room, self._bytes_left)
                room -= sent
                self._bytes_left -= sent
                if self._bytes_left == 0:
                    packet, self._sending = self._sending, None
                    delay_ms = opportunity_ms - packet.arrived_ms
                    self.log(f"{opportunity_ms} - {packet.size} {delay_ms}")

    def _begin(self):
        """Start to send the next packet; return whether there is one."""
        self._sending = self.queue.popleft() if self.queue else None
        self._bytes_left = self._sending.size if self._sending else 0
        return self._sending is not None
