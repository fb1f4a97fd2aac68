"""Exercise D, the source's winner: the window is mean delivery rate times minimum RTT."""

from __future__ import annotations

from dataclasses import dataclass, field

from losslab.emulation.schemes import Ack, Delivery, Scheme

FIRST_WINDOW = 10.0


@dataclass
class EwmaBbr(Scheme):
    """Scheme with cwnd = scale * btlbw_avg * rtt_min, equation 1 of the source.

    `alpha` is the weight of the newest delivery rate in its mean, `timeout` the timeout in ms.
    """

    alpha: float = 0.9
    scale: float = 1.5
    timeout: float = 75.0
    _rate_per_ms: float = field(init=False, default=0.0)
    _delivery: Delivery = field(init=False, default_factory=Delivery)

    def window_packets(self) -> float:
        """Return the window, or the initial window while it is below one packet."""
        window = self.scale * self._rate_per_ms * self._delivery.min_rtt_ms
        return window if window >= 1 else FIRST_WINDOW

    def timeout_ms(self) -> float:
        return self.timeout

    def on_sent(self, sequence: int, now_ms: float) -> None:
        self._delivery.on_sent(sequence)

    def on_ack(self, ack: Ack) -> None:
        rate = self._delivery.rate_per_ms(ack)
        if self._rate_per_ms == 0:
            self._rate_per_ms = rate
        else:
            self._rate_per_ms += self.alpha * (rate - self._rate_per_ms)
