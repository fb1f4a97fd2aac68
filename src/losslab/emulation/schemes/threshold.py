"""Exercise C: additive increase below a fixed RTT, multiplicative decrease above it."""

from __future__ import annotations

from dataclasses import dataclass, field

from losslab.emulation.schemes import Ack, Scheme

FIRST_WINDOW = 4.0


@dataclass
class DelayThreshold(Scheme):
    """AIMD that shrinks at each acknowledgement with an RTT of at least `threshold_ms`."""

    threshold_ms: float = 160.0
    add: float = 1.0
    multiply: float = 2.0
    _window: float = field(init=False, default=FIRST_WINDOW)

    def window_packets(self) -> float:
        return self._window

    def timeout_ms(self) -> float:
        return self.threshold_ms

    def on_ack(self, ack: Ack) -> None:
        if ack.rtt_ms < self.threshold_ms:
            self._window += self.add / self._window
        elif self._window > 1:
            # Also below one packet, as in the source: the next one leaves after the timeout.
            self._window /= self.multiply
