"""Where packets went between two read-backs: sent, received, dropped, lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from losslab.emulation.topology import INTERFACES, interface

OF_SOME_PATHS = (
    "duplicates", "reordered", "marks", "ecn_capable", "ce_received", "policer_drops", "acks_seen",
    "acks_thinned", "others",
)  # fmt: skip
# What qdiscs call the CE marks that they set (tc's xstats); of cake's, each tin has its own.
MARKS = ("ecn_mark", "marked")
# Of what filters drop; its `drops` are all of theirs.
FILTERS = "ffff:"
# Where packets wait for the bottleneck: host, interface and handle.
BOTTLENECK_QUEUE = ("r1", interface("r1", "r2").name, "10:")
# Where some may be sent before their turn, which netem counts as requeued (netem_enqueue,
# net/sched/sch_netem.c).
DELAY_LINES = ("1:", "10:")


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
    # Of a path that does more than delay and lose. By the emulator: packets made twice, and sent
    # before their turn; CE marks that its queue set.
    duplicates: int = 0
    reordered: int = 0
    marks: int = 0
    # By the receiver: packets that say their flow knows ECN, and those with a mark.
    ecn_capable: int = 0
    ce_received: int = 0
    # Dropped by the policer, and acknowledgements: those that were to be thinned out, and were.
    policer_drops: int = 0
    acks_seen: int = 0
    acks_thinned: int = 0
    # What mechanisms count by themselves.
    others: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON-ready data; of what not every path has, those that are any."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value or name not in OF_SOME_PATHS
        }

    @property
    def unexplained_back(self) -> int:
        """Packets on the way back that neither arrived nor were dropped by the emulator."""
        drops = self.loss_back_drops + self.link_back_drops + self.acks_thinned
        return self.sent_back - self.received_back - drops

    @property
    def unexplained(self) -> int:
        """Data-direction packets that neither arrived nor were dropped by the emulator."""
        drops = self.bottleneck_drops + self.link_drops + self.loss_drops + self.policer_drops
        return self.sent + self.duplicates - self.received - drops

    @property
    def loss_offered(self) -> int:
        """Packets that the lossy interface saw."""
        return self.received + self.loss_drops

    @property
    def loss_measured_percent(self) -> float:
        """Share of those that it lost."""
        return 100 * self.loss_drops / self.loss_offered if self.loss_offered else 0.0


KNOWN = {each.name for each in fields(Traffic)}
NO_COUNTS: Mapping[str, int] = MappingProxyType({})


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
    counts: Mapping[str, int] = NO_COUNTS,
    duplicating: bool = False,
) -> Traffic:
    """Count what passed between two states as `hosts.read_back` gives them.

    `back` is the first router that the receiver's packets meet; `counts` are what mechanisms count
    by themselves; `duplicating` says that netem may make packets twice.
    """

    def link(host: str, towards: str, side: str, what: str) -> int:
        name = interface(host, towards).name
        return int(after[host]["links"][name][side][what] - before[host]["links"][name][side][what])

    def qdisc(host: str, towards: str, what: str, handle: str = "1:") -> int:
        name = interface(host, towards).name
        return int(
            _qdisc(after, host, name, handle).get(what, 0)
            - _qdisc(before, host, name, handle).get(what, 0)
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

    def received_by_ip(name: str) -> int:
        return counter("receiver", f"IpExtIn{name}Pkts")

    # What left the delay line or was lost there, less what came to it: netem does not count them.
    duplicates = 0
    if duplicating:
        duplicates = qdisc("r2", "receiver", "packets") + qdisc("r2", "receiver", "drops")
        duplicates -= link("r2", "r1", "rx", "packets")
    marks_of = [_marks(_bottleneck_queue(state)) for state in (before, after)]
    return Traffic(
        sent=link("sender", "r1", "tx", "packets"),
        received=link("receiver", "r2", "rx", "packets"),
        bottleneck_drops=qdisc("r1", "r2", "drops"),
        link_drops=counts.get("link_drops", 0),
        loss_drops=qdisc("r2", "receiver", "drops"),
        sender_drops=qdisc("sender", "r1", "drops"),
        largest_mean_packet_bytes=max(means, default=0.0),
        retransmits=counter("sender", "TcpRetransSegs"),
        memory_pressures=sum(counter(host, "TcpExtTCPMemoryPressures") for host in after),
        sent_back=link("receiver", back, "tx", "packets"),
        received_back=link("sender", "r1", "rx", "packets"),
        loss_back_drops=qdisc(back, "r1", "drops"),
        link_back_drops=counts.get("link_back_drops", 0),
        duplicates=duplicates,
        reordered=sum(qdisc("r2", "receiver", "requeues", line) for line in DELAY_LINES),
        marks=marks_of[1] - marks_of[0],
        ecn_capable=sum(map(received_by_ip, ("ECT0", "ECT1", "CE"))),
        ce_received=received_by_ip("CE"),
        policer_drops=qdisc("r1", "r2", "drops", FILTERS),
        acks_seen=_acted_on(after, back) - _acted_on(before, back),
        acks_thinned=qdisc(back, "r1", "drops", FILTERS),
        others={name: count for name, count in counts.items() if name not in KNOWN},
    )


def _acted_on(state: dict[str, Any], back: str) -> int:
    """Count the packets on the way back that a filter has acted on."""
    found = state[back].get("filters", {}).get(interface(back, "r1").name, [])
    return sum(int(action["packets"]) for action in found)


def _bottleneck_queue(state: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of the qdisc in which packets wait, tc's words or those over netlink."""
    more: dict[str, Any] = state["r1"].get("dualpi2", {})
    return _qdisc(state, *BOTTLENECK_QUEUE) | more


def _marks(qdisc: dict[str, Any]) -> int:
    """Count the CE marks that a qdisc has set."""
    parts = [qdisc, *qdisc.get("tins", [])]
    return int(sum(part.get(name, 0) for part in parts for name in MARKS))


def bypassed(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Count the packets between two states that r1 sent on past the bottleneck, over r3.

    What the sender sends belongs over r2; r3 is a way back, if it is used at all.
    """
    name = interface("r1", "r3").name
    passed = [state["r1"]["links"][name]["tx"]["packets"] for state in (before, after)]
    return int(passed[1] - passed[0])
