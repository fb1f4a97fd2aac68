"""Where packets went between two read-backs: sent, received, dropped, lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from losslab.emulation.topology import INTERFACES, Interface, bottleneck, interface

OF_SOME_PATHS = (
    "duplicates", "reordered", "marks", "ecn_capable", "ce_received", "policer_drops", "acks_seen",
    "acks_thinned", "others",
)  # fmt: skip
# What qdiscs call the CE marks that they set (tc's xstats); of cake's, each tin has its own.
MARKS = ("ecn_mark", "marked")
# Of what filters drop; its `drops` are all of theirs.
FILTERS = "ffff:"
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


def _qdisc(state: Mapping[str, Any], end: Interface, handle: str) -> dict[str, Any]:
    known: list[dict[str, Any]] = state[end.host]["qdiscs"]
    return next((q for q in known if (q.get("dev"), q.get("handle")) == (end.name, handle)), {})


@dataclass(frozen=True)
class Between:
    """Two states of the hosts, as `hosts.read_back` gives them, and what was counted between."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def _rise(self, count: Callable[[Mapping[str, Any]], int]) -> int:
        return int(count(self.after) - count(self.before))

    def link(self, end: Interface, side: str, what: str = "packets") -> int:
        """Count the packets or bytes that an interface sent (`tx`) or received (`rx`)."""
        return self._rise(lambda state: state[end.host]["links"][end.name][side][what])

    def qdisc(self, end: Interface, what: str = "drops", handle: str = "1:") -> int:
        """Count what a qdisc on an interface did."""
        return self._rise(lambda state: _qdisc(state, end, handle).get(what, 0))

    def counter(self, host: str, name: str) -> int:
        """Count by one of a host's own counters."""
        return self._rise(lambda state: state[host]["counters"][name])

    def marks(self) -> int:
        """Count the CE marks that the bottleneck's queue has set."""
        # tc's words, or those over netlink.
        return self._rise(
            lambda state: marks(_qdisc(state, bottleneck(), "10:") | state["r1"].get("dualpi2", {}))
        )

    def acted_on(self, end: Interface) -> int:
        """Count the packets that the filters of an interface have acted on."""
        return self._rise(
            lambda state: sum(
                int(action["packets"])
                for action in state[end.host].get("filters", {}).get(end.name, [])
            )
        )

    @property
    def bypassed(self) -> int:
        """Count the packets that r1 sent on past the bottleneck, over r3.

        What the sender sends belongs over r2; r3 is a way back, if it is used at all.
        """
        return self.link(interface("r1", "r3"), "tx")


def marks(qdisc: Mapping[str, Any]) -> int:
    """Count the CE marks that a qdisc has set."""
    parts = [qdisc, *qdisc.get("tins", [])]
    return int(sum(part.get(name, 0) for part in parts for name in MARKS))


def traffic(
    between: Between, back: str, counts: Mapping[str, int] = NO_COUNTS, duplicating: bool = False
) -> Traffic:
    """Count what passed between two states.

    `back` is the first router that the receiver's packets meet; `counts` are what mechanisms count
    by themselves; `duplicating` says that netem may make packets twice.
    """
    its, sender, receiver = between, interface("sender", "r1"), interface("receiver", "r2")
    last, back_line = interface("r2", "receiver"), interface(back, "r1")
    # Links count what the stack hands them; qdiscs count the segments inside an aggregate, and so
    # look the same with offloads on (bstats_update, include/net/sch_generic.h).
    means = [
        its.link(end, side, "bytes") / packets
        for end in INTERFACES
        for side in ("rx", "tx")
        if (packets := its.link(end, side)) > 0
    ]
    # What left the delay line or was lost there, less what came to it: netem does not count them.
    duplicates = 0
    if duplicating:
        duplicates = its.qdisc(last, "packets") + its.qdisc(last)
        duplicates -= its.link(interface("r2", "r1"), "rx")
    ce, ect0, ect1 = (its.counter("receiver", f"IpExtIn{e}Pkts") for e in ("CE", "ECT0", "ECT1"))
    return Traffic(
        sent=its.link(sender, "tx"),
        received=its.link(receiver, "rx"),
        bottleneck_drops=its.qdisc(bottleneck()),
        link_drops=counts.get("link_drops", 0),
        loss_drops=its.qdisc(last),
        sender_drops=its.qdisc(sender),
        largest_mean_packet_bytes=max(means, default=0.0),
        retransmits=its.counter("sender", "TcpRetransSegs"),
        memory_pressures=sum(its.counter(h, "TcpExtTCPMemoryPressures") for h in its.after),
        sent_back=its.link(interface("receiver", back), "tx"),
        received_back=its.link(sender, "rx"),
        loss_back_drops=its.qdisc(back_line),
        link_back_drops=counts.get("link_back_drops", 0),
        duplicates=duplicates,
        reordered=sum(its.qdisc(last, "requeues", line) for line in DELAY_LINES),
        marks=its.marks(),
        ecn_capable=ect0 + ect1 + ce,
        ce_received=ce,
        policer_drops=its.qdisc(bottleneck(), "drops", FILTERS),
        acks_seen=its.acted_on(back_line),
        acks_thinned=its.qdisc(back_line, "drops", FILTERS),
        others={name: count for name, count in counts.items() if name not in KNOWN},
    )
