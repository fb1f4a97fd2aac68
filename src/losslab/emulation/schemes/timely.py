"""Exercise D: TIMELY (Mittal et al., SIGCOMM 2015) with a window, as adapted by the source."""

from __future__ import annotations

from dataclasses import dataclass, field

from losslab.emulation.schemes import Ack, Scheme

FIRST_WINDOW = 10.0
MIN_HALVED_WINDOW = 10.0  # a smaller window is not halved
# Growth per window: up to `low_ms`, with a gradient of at most 0, and from the fifth of those in a
# row on.
GROWTH_LOW, GROWTH_FALLING, GROWTH_FAST = 5.0, 3.0, 10.0
FAST_AFTER = 5


@dataclass
class Timely(Scheme):
    """TIMELY: grow up to `low_ms`, halve from `high_ms` on, follow the RTT gradient in between.

    The gradient is the weighted mean change of the RTT per packet, divided by `low_ms`; `alpha` is
    the weight of the newest change. A positive gradient reduces the window by `beta` times the
    gradient.
    """

    low_ms: float = 80.0
    high_ms: float = 200.0
    alpha: float = 0.125
    beta: float = 0.8
    _window: float = field(init=False, default=FIRST_WINDOW)
    _last_rtt_ms: float | None = field(init=False, default=None)
    _change_ms: float = field(init=False, default=0.0)
    _falling: int = field(init=False, default=0)

    def window_packets(self) -> float:
        return self._window

    def timeout_ms(self) -> float:
        """Return 50 ms, as in the source."""
        return 50.0

    def on_ack(self, ack: Ack) -> None:
        rtt_ms = ack.rtt_ms
        last_ms, self._last_rtt_ms = self._last_rtt_ms, rtt_ms
        if last_ms is None:
            return
        change_ms = rtt_ms - last_ms
        if self._change_ms == 0:
            self._change_ms = change_ms
        else:
            self._change_ms += self.alpha * (change_ms - self._change_ms)
        gradient = self._change_ms / self.low_ms
        if rtt_ms >= self.high_ms:
            self._falling = 0
            if self._window >= MIN_HALVED_WINDOW:
                self._window /= 2
        elif rtt_ms <= self.low_ms:
            self._falling = 0
            self._window += GROWTH_LOW / self._window
        elif gradient <= 0:
            self._falling += 1
            growth = GROWTH_FAST if self._falling >= FAST_AFTER else GROWTH_FALLING
            self._window += growth / self._window
        else:
            self._falling = 0
            self._window = max(self._window * (1 - self.beta * gradient), 1.0)
