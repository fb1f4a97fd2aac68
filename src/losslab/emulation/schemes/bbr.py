"""Exercise D: BBR as the source implemented it from the paper (Cardwell et al., ACM Queue 2016)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from losslab.emulation.schemes import Ack, Delivery, Scheme

STARTUP_GAIN = 2.885  # 2 / ln 2
STEADY_WINDOW_GAIN = 2.0
# Startup ends after this many rounds in which the rate grew by less than this share.
FULL_AFTER, FULL_GROWTH = 3, 0.25
MIN_PACKETS_PER_RTT = 5.0  # the source's minimum of the rate estimate
PAPER_STAGES = (1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
TUNED_STAGES = (1.25, 0.75, 1.0, 1.0, 1.25, 0.75, 1.0, 1.0)


@dataclass
class SourceBbr(Scheme):
    """BBR: startup, drain, then gain cycling with one stage per RTT, on the maximum delivery rate.

    `rate_window_ms` and `rtt_window_ms` are the windows of the maximum rate and the minimum RTT. An
    `rtt_window_ms` of 0 is unlimited, as in the source's last version; the paper has 10 s.
    `tuned=1` selects the source's stages, which probe for bandwidth twice per cycle, and `tuned=0`
    the paper's. `startup=0` starts with gain cycling, as in the source's first version, whose fixed
    initial rate is not stated; here it is the minimum.
    """

    rate_window_ms: float = 100.0
    rtt_window_ms: float = 0.0
    tuned: float = 1
    startup: float = 1
    _phase: str = field(init=False, default="startup")
    _rates: deque[tuple[float, float]] = field(init=False, default_factory=deque)
    _rtts: deque[tuple[float, float]] = field(init=False, default_factory=deque)
    _delivery: Delivery = field(init=False, default_factory=Delivery)
    _stage: int = field(init=False, default=0)
    _stage_began_ms: float = field(init=False, default=0.0)
    _last_rate: float = field(init=False, default=0.0)
    _slow_rounds: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if not self.startup:
            self._phase = "steady"

    def _rtt_ms(self) -> float:
        if self.rtt_window_ms:
            return self._rtts[0][1] if self._rtts else 1.0
        return self._delivery.min_rtt_ms or 1.0

    def _rate_per_ms(self) -> float:
        best = self._rates[0][1] if self._rates else 0.0
        return max(best, MIN_PACKETS_PER_RTT / self._rtt_ms())

    def _gain(self) -> float:
        if self._phase == "startup":
            return STARTUP_GAIN
        if self._phase == "drain":
            return 1 / STARTUP_GAIN
        return (TUNED_STAGES if self.tuned else PAPER_STAGES)[self._stage]

    def window_packets(self) -> float:
        """Return the gain times the bandwidth-delay product."""
        gain = STEADY_WINDOW_GAIN if self._phase == "steady" else self._gain()
        return max(gain * self._rate_per_ms() * self._rtt_ms(), 1.0)

    def pacing_gap_ms(self) -> float:
        return 1 / (self._gain() * self._rate_per_ms())

    def on_sent(self, sequence: int, now_ms: float) -> None:
        self._delivery.on_sent(sequence)

    def on_ack(self, ack: Ack) -> None:
        """Update both filters, and once per RTT the stage and the phase."""
        rate = self._delivery.rate_per_ms(ack)
        # A rate cannot be the maximum if a later one is higher, nor an RTT the minimum if a later
        # one is lower; the first one left is it.
        while self._rates and self._rates[-1][1] <= rate:
            self._rates.pop()
        self._rates.append((ack.acked_ms, rate))
        while self._rates[0][0] < ack.acked_ms - self.rate_window_ms:
            self._rates.popleft()
        if self.rtt_window_ms:
            while self._rtts and self._rtts[-1][1] >= ack.rtt_ms:
                self._rtts.pop()
            self._rtts.append((ack.acked_ms, ack.rtt_ms))
            while self._rtts[0][0] < ack.acked_ms - self.rtt_window_ms:
                self._rtts.popleft()
        if ack.acked_ms - self._stage_began_ms <= self._rtt_ms():
            return
        self._stage_began_ms = ack.acked_ms
        self._stage = (self._stage + 1) % len(PAPER_STAGES)
        if self._phase == "startup":
            grew = rate - self._last_rate >= FULL_GROWTH * self._last_rate
            self._slow_rounds = 0 if grew else self._slow_rounds + 1
            self._last_rate = rate
            if self._slow_rounds >= FULL_AFTER:
                self._phase = "drain"
        elif self._phase == "drain" and ack.in_flight <= self._rate_per_ms() * self._rtt_ms():
            self._phase = "steady"
