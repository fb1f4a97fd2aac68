"""What a path promises that does more to packets than delay and lose them, and whether it did.

Pure functions from evidence to reasons, as in `checks`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from losslab.emulation.accounts import Traffic
from losslab.emulation.lines import burst_chances, data_line
from losslab.emulation.probes.queue import QueueSample
from losslab.emulation.qdiscs import FRAME_BYTES
from losslab.emulation.shaping import MARKING
from losslab.study import changes
from losslab.study.condition import Condition

# Two-sided normal quantile of a false alarm in 16,000 replicates.
Z = 4.0
FALSE_ALARM = 1 / 16_000
# Of the packets that a flow under ECN sends, all but its handshake and what it sends again carry
# ECT (RFC 3168, 6.1.5): without ECN none do.
CAPABLE_SHARE_MIN = 0.5


# Apps whose programs say by themselves whether they know ECN; ngtcp2 always does.
OWN_ECN = ("command", "quic")


@dataclass(frozen=True)
class Impaired:
    """What it promises; percentages of packets on the way to the receiver."""

    burst_packets: float = 1.0
    jitter_ms: float = 0.0
    early_percent: float = 0.0
    early_ms: float = 0.0
    duplicate_percent: float = 0.0
    ack_thinning: int = 1
    policer_mbit: float = 0.0
    policer_burst_packets: int = 0
    ecn: str = "off"
    marking: bool = False  # the bottleneck's queue, where packets can be marked
    # Of a path that changes, whose loss is judged phase by phase: the mean rate of the time that
    # goodput is of.
    mean_rate_mbit: float | None = None

    @classmethod
    def of(cls, condition: Condition) -> Impaired:
        """Say what a condition's path promises."""
        line, ecn = data_line(condition), condition.ecn
        if ecn == "off" and condition.app in OWN_ECN:
            ecn = "their own"
        return cls(
            burst_packets=line.burst_packets,
            jitter_ms=line.jitter_ms,
            early_percent=line.early_percent,
            early_ms=line.early_ms if line.early_percent else 0.0,
            duplicate_percent=line.duplicate_percent,
            ack_thinning=condition.ack_thinning,
            policer_mbit=condition.policer_mbit,
            policer_burst_packets=condition.policer_burst_packets if condition.policer_mbit else 0,
            ecn=ecn,
            marking=condition.ecn != "off" and condition.queue in MARKING,
            mean_rate_mbit=_mean_rate_mbit(condition),
        )

    @property
    def uneven(self) -> bool:
        """Tell whether packets on an idle path differ in their delay, or its rate changes."""
        return bool(self.jitter_ms or self.early_percent or self.mean_rate_mbit)

    def reasons(
        self,
        traffic: Traffic,
        idle_ms: Sequence[float],
        tolerance_ms: float,
        accurate_ecn: bool = False,
    ) -> list[str]:
        """List what was not kept; empty when all was.

        Args:
            traffic: What was counted.
            idle_ms: RTTs of the idle path.
            tolerance_ms: By which they may be off.
            accurate_ecn: Both ends agreed on it.
        """
        found = [
            self._jitter(idle_ms, tolerance_ms),
            outside_interval("early packets", self.early_percent, traffic.received,
                             traffic.reordered),
            outside_interval("packets made twice", self.duplicate_percent,
                             traffic.received - traffic.duplicates, traffic.duplicates),
            self._thinning(traffic),
            *self._ecn(traffic, accurate_ecn),
        ]  # fmt: skip
        return [reason for reason in found if reason]

    def summary(self, t: Traffic) -> dict[str, float]:
        """Describe what the path did of what it promises."""
        found: dict[str, float] = {}
        if self.early_percent:
            found["reordered_packets"] = t.reordered
        if self.duplicate_percent:
            found["duplicate_packets"] = t.duplicates
        if self.ack_thinning > 1:
            found["acks_thinned"] = t.acks_thinned
        if self.policer_mbit:
            found["policer_drops"] = t.policer_drops
        if self.ecn != "off":
            found |= {
                "ecn_marks": t.marks,
                "ce_received_packets": t.ce_received,
                "ecn_marked_percent": 100 * t.ce_received / max(1, t.received),
            }
        return found

    def _jitter(self, idle_ms: Sequence[float], tolerance_ms: float) -> str | None:
        if not idle_ms or not self.jitter_ms:
            return None
        spread_ms, least_ms = max(idle_ms) - min(idle_ms), self._spread_least_ms(len(idle_ms))
        most_ms = self.jitter_ms + self.early_ms + tolerance_ms
        if least_ms <= spread_ms <= most_ms:
            return None
        return (
            f"RTTs of the idle path must differ by {least_ms:.3g} to {most_ms:.3g} ms, with a "
            f"jitter of {self.jitter_ms:g} ms, found {spread_ms:.3g} ms between {len(idle_ms)} "
            "of them"
        )

    def _spread_least_ms(self, count: int) -> float:
        """Return a range that so many evenly drawn numbers miss once in 1 / FALSE_ALARM times.

        The chance that n of them lie within a share x is n x^(n-1) - (n-1) x^n, less than n x^(n-1)
        (David and Nagaraja, Order Statistics, section 2.3).
        """
        if count < 2:
            return 0.0
        return float(self.jitter_ms * (FALSE_ALARM / count) ** (1 / (count - 1)))

    def _thinning(self, t: Traffic) -> str | None:
        wanted = t.acks_seen - t.acks_seen // self.ack_thinning
        if t.acks_thinned == wanted:
            return None
        return (
            f"one of {self.ack_thinning} of {t.acks_seen} acknowledgements must get through and "
            f"{wanted} be dropped, found {t.acks_thinned} dropped"
        )

    def policed(self, queue: Sequence[QueueSample]) -> list[str]:
        """Say that more passed the policer than it lets through; empty when it did not.

        Args:
            queue: Samples of the bottleneck behind it.
        """
        if not self.policer_mbit or len(queue) < 2:
            return []
        first, last = queue[0], queue[-1]
        passed = last.sent_bytes + last.backlog_bytes - first.sent_bytes - first.backlog_bytes
        allowed = (last.t_s - first.t_s) * self.policer_mbit * 1e6 / 8
        allowed += (self.policer_burst_packets + 1) * FRAME_BYTES
        if passed <= allowed:
            return []
        return [
            f"at most {allowed:.0f} bytes must pass a policer of {self.policer_mbit:g} Mbit/s in "
            f"{last.t_s - first.t_s:.3f} s, found {passed}"
        ]

    def _ecn(self, t: Traffic, accurate: bool) -> Iterator[str]:
        if self.ecn == "their own":
            return
        if self.ecn == "accurate" and not accurate:
            yield "both ends must agree on Accurate ECN with ecn accurate, found that they did not"
        if self.ecn == "off":
            if t.ecn_capable:
                yield (
                    f"no packet may say that it knows ECN with ecn off, found {t.ecn_capable}; an "
                    "algorithm that asks for ECN by itself, as dctcp does, needs ecn on"
                )
            return
        if t.ecn_capable < CAPABLE_SHARE_MIN * t.received:
            yield (
                f"at least {100 * CAPABLE_SHARE_MIN:g} % of {t.received} packets must say that "
                f"they know ECN with ecn {self.ecn}, found {t.ecn_capable}"
            )
        lost = t.loss_drops + t.bottleneck_drops
        if not -t.duplicates <= t.marks - t.ce_received <= lost:
            yield (
                "packets that the bottleneck marked must equal marked packets received, but for "
                f"{lost} lost and {t.duplicates} made twice, found {t.marks} marked and "
                f"{t.ce_received} received"
            )
        if t.marks and not self.marking:
            yield f"a queue without marks must not mark, found {t.marks} marks"


def _mean_rate_mbit(condition: Condition) -> float | None:
    """Return the mean rate of what may be acknowledged in the time that goodput is of.

    That passed the bottleneck up to a round trip before.
    """
    if condition.changes == changes.NONE:
        return None
    start = {name: getattr(condition, name) for name in changes.SET}
    found = changes.until(changes.phases(condition.changes, start), condition.duration_s)
    longest_s = max(phase.values["rtt_ms"] for phase in found) / 1e3
    begin_s, end_s = max(0.0, condition.warmup_s - longest_s), condition.duration_s
    carried = sum(
        max(0.0, phase.end_s - max(phase.begin_s, begin_s)) * phase.values["rate_mbit"]
        for phase in found
    )
    return carried / (end_s - condition.warmup_s)


def outside_interval(
    what: str, percent: float, offered: int, found: int, burst_packets: float = 1.0, edge: int = 0
) -> str | None:
    """Say when a number of picked packets is outside its binomial interval; of 0 %, any is.

    Args:
        what: They are.
        percent: Of packets that are to be picked.
        offered: Packets to pick from.
        found: How many were.
        burst_packets: Mean length of a run of them, which makes the interval wider: the variance
            of a two-state chain's sum is the binomial's times (1 + c) / (1 - c) with c its
            correlation from one packet to the next.
        edge: Packets that may have been picked before or after.
    """
    p, wider = percent / 100, 1.0
    if burst_packets > 1 and p:
        correlation = 1 - sum(burst_chances(p, burst_packets))
        wider = (1 + correlation) / (1 - correlation)
    tolerance = edge + (Z * math.sqrt(p * (1 - p) * offered * wider) + 1 if p else 0.0)
    if abs(found - p * offered) <= tolerance:
        return None
    share = 100 * found / offered if offered else 0.0
    return (
        f"{what} must be {percent:g} % of {offered} packets (within {tolerance:.0f}), found "
        f"{found} ({share:.3f} %)"
    )
