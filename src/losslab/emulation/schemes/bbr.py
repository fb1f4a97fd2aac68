"""Exercise D: BBR as the source built it from the paper (Cardwell et al., ACM Queue 2016)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from losslab.emulation.schemes.base import Ack, Delivery, Scheme

STARTUP_GAIN = 2.885  # 2 / ln 2
STEADY_WINDOW_GAIN = 2.0
# Rounds in which the rate grew by less than a quarter, after which the pipe is full.
FULL_AFTER, FULL_GROWTH = 3, 0.25
# The source never lets the rate estimate fall below five packets per RTT.
LEAST_PACKETS_PER_RTT = 5.0
PAPER_STAGES = (1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
TUNED_STAGES = (1.25, 0.75, 1.0, 1.0, 1.25, 0.75, 1.0, 1.0)


@dataclass
class SourceBbr(Scheme):
    """STARTUP, DRAIN, then gain cycling, one stage per RTT, on a windowed maximum of the rate.

    `rate_window_ms` is how long a delivery rate counts, `rtt_window_ms` how long an RTT does: 0 for
    ever, as in the source in the end; the paper has 10 s. `tuned=1` takes the source's stages,
    which probe for more twice per cycle, `tuned=0` the paper's. `startup=0` cycles from the first
    packet on, as the source did at first, from a fixed rate that it does not state: here the least.
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
        return self._delivery.least_rtt_ms or 1.0

    def _rate_per_ms(self) -> float:
        best = max((rate for _, rate in self._rates), default=0.0)
        return max(best, LEAST_PACKETS_PER_RTT / self._rtt_ms())

    def _gain(self) -> float:
        if self._phase == "startup":
            return STARTUP_GAIN
        if self._phase == "drain":
            return 1 / STARTUP_GAIN
        return (TUNED_STAGES if self.tuned else PAPER_STAGES)[self._stage]

    def window_packets(self) -> float:
        """Return gain times bandwidth-delay product."""
        gain = STEADY_WINDOW_GAIN if self._phase == "steady" else self._gain()
        return max(gain * self._rate_per_ms() * self._rtt_ms(), 1.0)

    def pacing_gap_ms(self) -> float:
        return 1 / (self._gain() * self._rate_per_ms())

    def on_sent(self, sequence: int, now_ms: float) -> None:
        self._delivery.on_sent(sequence)

    def on_ack(self, ack: Ack) -> None:
        """Update both filters; once per RTT, the stage and the phase."""
        rate = self._delivery.rate_per_ms(ack)
        self._rates.append((ack.acked_ms, rate))
        while self._rates[0][0] < ack.acked_ms - self.rate_window_ms:
            self._rates.popleft()
        if self.rtt_window_ms:
            # Only what later samples do not undercut can ever be the least: the first one is.
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
