"""Where packets went between two read-backs: sent, received, dropped, lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from losslab.emulation.topology import INTERFACES, interface


@dataclass(frozen=True)
class Traffic:
    """Packets counted between two read-backs."""

    sent: int
    received: int
    bottleneck_drops: int
    link_drops: int  # of a trace-driven link
    loss_drops: int
    # By the sender's own qdisc, in aggregates: segmentation comes after it, whatever the offloads
    # are (validate_xmit_skb, net/core/dev.c).
    sender_drops: int
    largest_mean_packet_bytes: float
    retransmits: int
    memory_pressures: int
    # On the way back: by the receiver, at the sender, and lost by the emulator between them.
    sent_back: int
    received_back: int
    loss_back_drops: int
    link_back_drops: int

    @property
    def unexplained_back(self) -> int:
        """Packets on the way back that neither arrived nor were dropped by the emulator."""
        drops = self.loss_back_drops + self.link_back_drops
        return self.sent_back - self.received_back - drops

    @property
    def unexplained(self) -> int:
        """Data-direction packets that neither arrived nor were dropped by the emulator."""
        drops = self.bottleneck_drops + self.link_drops + self.loss_drops
        return self.sent - self.received - drops

    @property
    def loss_offered(self) -> int:
        """Packets that the lossy interface saw."""
        return self.received + self.loss_drops

    @property
    def loss_measured_percent(self) -> float:
        """Share of those that it lost."""
        return 100 * self.loss_drops / self.loss_offered if self.loss_offered else 0.0


def _qdisc(state: dict[str, Any], host: str, device: str, handle: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        (q for q in state[host]["qdiscs"] if q.get("dev") == device and q.get("handle") == handle),
        {},
    )
    return found


def traffic(
    before: dict[str, Any],
    after: dict[str, Any],
    back: str,
    link_drops: int = 0,
    link_back_drops: int = 0,
) -> Traffic:
    """Count what passed between two states as `hosts.read_back` gives them.

    Args:
        before: The state before the traffic.
        after: The state after it.
        back: The first router that the receiver's packets meet.
        link_drops: What a trace-driven link dropped.
        link_back_drops: What that of the way back did.
    """

    def link(host: str, towards: str, side: str, what: str) -> int:
        name = interface(host, towards).name
        return int(after[host]["links"][name][side][what] - before[host]["links"][name][side][what])

    def qdisc(host: str, towards: str, what: str) -> int:
        name = interface(host, towards).name
        return int(
            _qdisc(after, host, name, "1:").get(what, 0)
            - _qdisc(before, host, name, "1:").get(what, 0)
        )

    def counter(host: str, name: str) -> int:
        return int(after[host]["counters"][name] - before[host]["counters"][name])

    # Links count what the stack hands them; qdiscs count the segments inside an aggregate, and so
    # look the same with offloads on (bstats_update, include/net/sch_generic.h).
    means = [
        link(end.host, end.towards, side, "bytes") / packets
        for end in INTERFACES
        for side in ("rx", "tx")
        if (packets := link(end.host, end.towards, side, "packets")) > 0
    ]
    return Traffic(
        sent=link("sender", "r1", "tx", "packets"),
        received=link("receiver", "r2", "rx", "packets"),
        bottleneck_drops=qdisc("r1", "r2", "drops"),
        link_drops=link_drops,
        loss_drops=qdisc("r2", "receiver", "drops"),
        sender_drops=qdisc("sender", "r1", "drops"),
        largest_mean_packet_bytes=max(means, default=0.0),
        retransmits=counter("sender", "TcpRetransSegs"),
        memory_pressures=sum(counter(host, "TcpExtTCPMemoryPressures") for host in after),
        sent_back=link("receiver", back, "tx", "packets"),
        received_back=link("sender", "r1", "rx", "packets"),
        loss_back_drops=qdisc(back, "r1", "drops"),
        link_back_drops=link_back_drops,
    )


def bypassed(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Count the packets between two states that r1 sent on past the bottleneck, over r3.

    What the sender sends belongs over r2; r3 is a way back, if it is used at all.
    """
    name = interface("r1", "r3").name
    passed = [state["r1"]["links"][name]["tx"]["packets"] for state in (before, after)]
    return int(passed[1] - passed[0])
