"""Explicit congestion notification: of the hosts, and of queues that mark. On every path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from losslab.emulation.mechanism import Mechanism
from losslab.emulation.qdiscs import Shaper
from losslab.study import features
from losslab.study.axes import NONE, Seed, axis

if TYPE_CHECKING:
    from losslab.emulation.accounts import Traffic
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition

# Queues that mark, some only where they are told to.
ASKED_TO_MARK = ("codel", "fq_codel", "pie", "red", "red-step")
MARKING = (*ASKED_TO_MARK, "cake", "dualpi2")
# Of the packets that a flow under ECN sends, all but its handshake and what it sends again carry
# ECT (RFC 3168, 6.1.5): without ECN none do.
CAPABLE_SHARE_MIN = 0.5


@dataclass(frozen=True)
class Marking(Mechanism):
    """ECN mode of the hosts, and whether packets can be marked."""

    ecn: str = "off"
    marking: bool = False

    order = 8
    with_others = True
    explains = ("marks", "ecn_capable", "ce_received")
    after = "policer_burst_packets"
    axes = {
        "ecn": axis(
            "off",
            help="explicit congestion notification of the hosts, and of every queue that can mark "
            "(quoted in a study: YAML reads on as true)",
            choices={"off": "", "on": "RFC 3168", "accurate": "AccECN, of newer kernels"},
            named="ecn-{}", seed=Seed.NEVER,
        ),
        "mark_packets": axis(
            20,
            help="what may wait before the queue `red-step` marks; 20 as in the paper on DCTCP at "
            "1 Gbit/s",
            span="[1, 100000]", unit="packets", named="mark{}", seed=Seed.NEVER,
        ),
    }  # fmt: skip

    def used(self, condition: Condition) -> bool:
        """Every path has it: without ECN, no packet may say that it knows it."""
        return True

    def of(self, condition: Condition) -> Self:
        ecn = condition.ecn
        if ecn == "off" and features.apps()[condition.app].own_ecn:
            ecn = "their own"
        return replace(self, ecn=ecn, marking=condition.ecn != "off" and condition.queue in MARKING)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        its = condition
        if its.ecn != "off" and (its.trace != NONE or not features.apps()[its.app].with_ecn):
            yield (
                "ecn must be off with a trace, whose link does not mark, and with the app "
                f"datagram, found {its.ecn}"
            )
        if "mark_packets" in self.changed(its) and its.queue != "red-step":
            yield f"mark_packets needs the queue red-step, found {its.queue}"
        if its.queue == "red-step" and its.mark_packets >= its.buffer_packets:
            yield (
                f"mark_packets must be below buffer_packets, {its.buffer_packets} here, found "
                f"{its.mark_packets}"
            )

    def on_queue(self, condition: Condition, its: Shaper) -> Shaper:
        """Tell the bottleneck's queue to mark."""
        if condition.ecn == "off" or condition.queue not in ASKED_TO_MARK:
            return its
        return replace(its, arguments=f"{its.arguments} ecn", expected=its.expected | {"ecn": True})

    def reasons(self, e: Evidence) -> Iterator[str | None]:
        t = e.traffic
        if self.ecn == "their own":
            return
        if self.ecn == "accurate" and not e.accurate_ecn:
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

    def summary(self, t: Traffic) -> dict[str, float]:
        if self.ecn == "off":
            return {}
        return {
            "ecn_marks": t.marks,
            "ce_received_packets": t.ce_received,
            "ecn_marked_percent": 100 * t.ce_received / max(1, t.received),
        }


FEATURE = Marking()
