"""Exercise B: additive increase, and multiplicative decrease on late RTTs."""

from __future__ import annotations

from dataclasses import dataclass, field

from losslab.emulation.schemes import Ack, Scheme

FIRST_WINDOW = 4.0
FIRST_TIMEOUT_MS = 1000.0


@dataclass
class Aimd(Scheme):
    """AIMD with an RTT above the retransmission timeout (RFC 6298) as congestion signal.

    `alpha` and `beta` are the weights of the newest sample in the mean RTT and its deviation. The
    timeout is the mean plus `rtt_gain` times the deviation. The window grows by `add` per window
    and is divided by `multiply`.
    """

    alpha: float = 0.125
    beta: float = 0.25
    rtt_gain: float = 4.0
    add: float = 1.0
    multiply: float = 2.0
    _window: float = field(init=False, default=FIRST_WINDOW)
    _mean_ms: float | None = field(init=False, default=None)
    _deviation_ms: float = field(init=False, default=0.0)
    _timeout_ms: float = field(init=False, default=FIRST_TIMEOUT_MS)

    def window_packets(self) -> float:
        return self._window

    def timeout_ms(self) -> float:
        return self._timeout_ms

    def on_ack(self, ack: Ack) -> None:
        """Update the window, then the RTT estimate."""
        rtt_ms = ack.rtt_ms
        if self._mean_ms is None:
            # As in the source; in RFC 6298, the deviation starts with half of the sample.
            self._mean_ms = self._deviation_ms = rtt_ms
        else:
            if rtt_ms >= self._timeout_ms:
                self._window = max(self._window / self.multiply, 1.0)
            else:
                self._window += self.add / self._window
            # Whole ms: the source's difference is an integer (uint64_t rtt_diff in its controller).
            difference_ms = float(int(abs(self._mean_ms - rtt_ms)))
            self._deviation_ms += self.beta * (difference_ms - self._deviation_ms)
            self._mean_ms += self.alpha * (rtt_ms - self._mean_ms)
        self._timeout_ms = self._mean_ms + self.rtt_gain * self._deviation_ms
