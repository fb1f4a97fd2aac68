"""How to write a scheme: copy this file, rename the class, add it to `SCHEMES`, and change it.

Every field with a value is a parameter of that name in a study; fields with a leading underscore
and `init=False` are the scheme's memory. This one keeps two packets in flight and one more for each
`step_ms` by which the RTT stays below `target_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from losslab.emulation.schemes.base import Ack, Scheme


@dataclass
class Template(Scheme):
    """A window that shrinks in a straight line as the RTT grows."""

    target_ms: float = 120.0
    step_ms: float = 10.0
    _rtt_ms: float = field(init=False, default=0.0)

    def window_packets(self) -> float:
        """Say how many packets may be unacknowledged."""
        return 2 + max(0.0, self.target_ms - self._rtt_ms) / self.step_ms

    def on_ack(self, ack: Ack) -> None:
        """Remember the newest RTT."""
        self._rtt_ms = ack.rtt_ms
