"""Exercise D, the source's winner: a window of the mean delivery rate times the least RTT."""

from __future__ import annotations

from dataclasses import dataclass, field

from losslab.schemes.base import Ack, Scheme

FIRST_WINDOW = 10.0


@dataclass
class EwmaBbr(Scheme):
    """cwnd = scale * btlbw_avg * rtt_min, equation 1 of the source.

    `alpha` weighs the newest delivery rate in its mean; a packet is sent after `timeout_ms` without
    an acknowledgement.
    """

    alpha: float = 0.9
    scale: float = 1.5
    timeout: float = 75.0
    _rate_per_ms: float = field(init=False, default=0.0)
    _least_rtt_ms: float = field(init=False, default=0.0)
    _delivered: int = field(init=False, default=0)
    _delivered_at_sending: dict[int, int] = field(init=False, default_factory=dict)

    def window_packets(self) -> float:
        """Return the window; that of the beginning while it is below one packet."""
        window = self.scale * self._rate_per_ms * self._least_rtt_ms
        return window if window >= 1 else FIRST_WINDOW

    def timeout_ms(self) -> float:
        """Return the parameter."""
        return self.timeout

    def on_sent(self, sequence: int, now_ms: float) -> None:
        """Remember how much was delivered when this packet left."""
        self._delivered_at_sending[sequence] = self._delivered

    def on_ack(self, ack: Ack) -> None:
        """Take the packet's delivery rate into the mean."""
        self._delivered += 1
        rtt_ms = ack.rtt_ms
        if self._least_rtt_ms == 0 or rtt_ms < self._least_rtt_ms:
            self._least_rtt_ms = rtt_ms
        delivered = self._delivered - self._delivered_at_sending.pop(ack.sequence, self._delivered)
        rate = delivered / rtt_ms
        if self._rate_per_ms == 0:
            self._rate_per_ms = rate
        else:
            self._rate_per_ms += self.alpha * (rate - self._rate_per_ms)
