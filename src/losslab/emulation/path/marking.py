"""Explicit congestion notification (ECN): the hosts' mode and marking queues, on every path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from losslab.emulation.app import apps
from losslab.emulation.mechanism import Mechanism
from losslab.emulation.qdiscs import Qdisc
from losslab.study.axes import OWN, Seed, axis
from losslab.study.hostsettings import KERNEL

if TYPE_CHECKING:
    from losslab.emulation.accounting import Traffic
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition

# Queues that mark with the option `ecn`, and queues that mark, or may, without it.
MARK_WITH_OPTION = ("codel", "fq_codel", "pie", "red", "red-step")
MARKING = (*MARK_WITH_OPTION, "cake", "dualpi2", OWN)
# A flow with ECN sends all packets with ECT except its handshake and retransmissions (RFC 3168,
# 6.1.5). A flow without ECN sends none.
CAPABLE_SHARE_MIN = 0.5
# Packets of one direction that open, acknowledge and close a connection, as SYN, ACK and FIN. They
# matter for flows of a few packets.
CONTROL_PACKETS = 4


@dataclass(frozen=True)
class Marking(Mechanism):
    """ECN mode of the hosts, and whether packets can be marked."""

    ecn: str = "off"
    marking: bool = False

    order = 8
    explains = ("marks", "ecn_capable", "ce_received")
    axes = {
        "ecn": axis(
            "off",
            help="explicit congestion notification of the hosts, and of every queue that can mark "
            "(quoted in a study: YAML reads on as true)",
            choices={
                "off": "", "on": "RFC 3168", "accurate": "AccECN, of newer kernels",
                "kernel": "the hosts' own default",
            },
            named="ecn-{}", seed=Seed.NEVER,
        ),
        "mark_packets": axis(
            20,
            help="queue length above which the queue `red-step` marks; the DCTCP paper uses 20 at "
            "1 Gbit/s",
            span="[1, 100000]", unit="packets", named="mark{}", seed=Seed.NEVER,
        ),
    }  # fmt: skip

    def used(self, condition: Condition) -> bool:
        """Return True: with ECN off, no packet may carry ECT."""
        return True

    def of(self, condition: Condition) -> Self:
        ecn = condition.ecn
        if ecn == "off" and apps()[condition.app].own_ecn:
            ecn = "their own"
        return replace(self, ecn=ecn, marking=condition.ecn != "off" and condition.queue in MARKING)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.ecn != "off" and not apps()[condition.app].with_ecn:
            yield f"ecn must be off with the app {condition.app}, found {condition.ecn}"
        if "mark_packets" in self.changed(condition) and condition.queue != "red-step":
            yield f"mark_packets needs the queue red-step, found {condition.queue}"
        if condition.queue == "red-step" and condition.mark_packets >= condition.buffer_packets:
            yield (
                f"mark_packets must be below buffer_packets, {condition.buffer_packets} here, "
                f"found {condition.mark_packets}"
            )

    def on_queue(self, condition: Condition, qdisc: Qdisc) -> Qdisc:
        """Enable marking in the bottleneck's queue."""
        if condition.ecn == "off" or condition.queue not in MARK_WITH_OPTION:
            return qdisc
        return replace(
            qdisc, arguments=f"{qdisc.arguments} ecn", expected=qdisc.expected | {"ecn": True}
        )

    def violations(self, e: Evidence) -> Iterator[str | None]:
        t = e.traffic
        if self.ecn == "their own":
            return
        if self.ecn == "accurate" and not e.accurate_ecn:
            yield "with ecn accurate, both ends must negotiate Accurate ECN, found they did not"
        if self.ecn == "off":
            if t.ecn_capable:
                yield (
                    f"with ecn off, no packet may carry ECT, found {t.ecn_capable}; an algorithm "
                    "that enables ECN itself, such as dctcp, needs ecn on"
                )
            return
        # Without TCP, the programs decide.
        # Those that open and close a connection carry none.
        due = max(0, t.received - t.retransmits - t.pings - CONTROL_PACKETS * t.opened)
        if self.ecn != KERNEL and e.flows and t.ecn_capable < CAPABLE_SHARE_MIN * due:
            yield (
                f"with ecn {self.ecn}, at least {100 * CAPABLE_SHARE_MIN:g} % of {due} packets "
                f"that are no retransmissions must carry ECT, found {t.ecn_capable} (if a SYN "
                "was lost, TCP went on without ECN: try --sysctl both:net.ipv4.tcp_ecn_fallback=0)"
            )
        lost = t.loss_drops + t.bottleneck_drops
        if not -t.duplicates <= t.marks - t.ce_received <= lost:
            yield (
                "packets marked by the bottleneck must equal marked packets received, except for "
                f"{lost} lost and {t.duplicates} duplicated, found {t.marks} marked and "
                f"{t.ce_received} received"
            )
        if t.marks and not self.marking:
            yield f"a queue without ECN must not mark packets, found {t.marks} marks"

    def observed(self, e: Evidence) -> dict[str, Any]:
        """Return the mode that the ends negotiated by the kernel's own settings."""
        if self.ecn != KERNEL:
            return {}
        mode = "on" if e.traffic.ecn_capable else "off"
        return {"ecn_negotiated": "accurate" if e.accurate_ecn else mode}

    def summary(self, t: Traffic) -> dict[str, float]:
        if self.ecn == "off":
            return {}
        return {
            "ecn_marks": t.marks,
            "ce_received_packets": t.ce_received,
            "ecn_marked_percent": 100 * t.ce_received / max(1, t.received),
        }


FEATURE = Marking()
