"""A scheme to start from: `losslab new scheme` copies it.

Each field with a default value is a parameter of that name in a study. Fields with a leading
underscore and `init=False` are the scheme's state. This scheme keeps two packets in flight, and one
more for each `step_ms` by which the RTT is below `target_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from losslab.emulation.schemes import Ack, Scheme


@dataclass
class Template(Scheme):
    """Window that shrinks linearly as the RTT grows."""

    target_ms: float = 120.0
    step_ms: float = 10.0
    _rtt_ms: float = field(init=False, default=0.0)

    def window_packets(self) -> float:
        """Return the maximum number of packets in flight."""
        return 2 + max(0.0, self.target_ms - self._rtt_ms) / self.step_ms

    def on_ack(self, ack: Ack) -> None:
        """Store the newest RTT."""
        self._rtt_ms = ack.rtt_ms
