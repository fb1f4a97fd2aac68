"""Packet accounting between two readings of the hosts: packets sent, received and dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from losslab.emulation.qdiscs import FILTERS, REVERSE_HANDLE
from losslab.emulation.topology import INTERFACES, Interface, bottleneck, interface

# Counts that are 0 on a path that only delays, drops and limits the rate.
OPTIONAL_COUNTS = (
    "duplicates", "reordered", "marks", "ecn_capable", "ce_received", "policer_drops", "acks_seen",
    "acks_thinned", "sender_losses", "others",
)  # fmt: skip
# Counts that are not 0 on slow links only.
QUEUED = ("queued", "queued_back")
# Counters of CE marks in qdiscs' xstats. CAKE has one per tin.
MARKS = ("ecn_mark", "marked")
# Handles of the netems that may reorder. netem counts a reordered packet as requeued
# (netem_enqueue, net/sched/sch_netem.c).
NETEM_HANDLES = ("1:", "10:")


@dataclass(frozen=True)
class Traffic:
    """Packets counted between two readings."""

    # Forward path.
    sent: int
    received: int
    bottleneck_drops: int
    loss_drops: int
    # By the sender's own qdisc, in aggregates: segmentation follows it, with offloads on or off
    # (validate_xmit_skb, net/core/dev.c).
    sender_drops: int
    largest_mean_packet_bytes: float
    retransmits: int
    memory_pressures: int
    # Reverse path.
    sent_back: int
    received_back: int
    loss_back_drops: int
    link_back_drops: int
    # Impairments: packets that netem duplicated and reordered, CE marks that the queue set.
    duplicates: int = 0
    reordered: int = 0
    marks: int = 0
    # Received packets with ECT(0), ECT(1) or CE, and those with CE.
    ecn_capable: int = 0
    ce_received: int = 0
    policer_drops: int = 0
    # Acknowledgements that the thinning filter matched, and those that it dropped.
    acks_seen: int = 0
    acks_thinned: int = 0
    # Packets in the forward path's queues at the second reading. A deep buffer of a slow link takes
    # minutes to empty.
    queued: int = 0
    # Packets in the queues of the reverse path at the second reading, those under way included.
    queued_back: int = 0
    # Packets that the netem of a lossy sender dropped, alone or in aggregates.
    sender_losses: int = 0
    # Received pings, which are losslab's own, and connections that a host opened. They are not in a
    # manifest, which has all counters.
    pings: int = 0
    opened: int = 0
    # Further counts of mechanisms, by name.
    others: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON-ready data, without optional counts that are 0."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in ("pings", "opened")
            and (value or name not in (*OPTIONAL_COUNTS, *QUEUED))
        }

    @property
    def unexplained_back(self) -> int:
        """Packets on the reverse path that neither arrived nor were dropped by the emulator."""
        drops = self.loss_back_drops + self.link_back_drops + self.acks_thinned
        return self.sent_back - self.received_back - drops - self.queued_back

    @property
    def unexplained(self) -> int:
        """Packets on the forward path that neither arrived nor were dropped by the emulator."""
        drops = self.bottleneck_drops + self.loss_drops + self.policer_drops
        return self.sent + self.duplicates - self.received - drops - self.queued

    @property
    def loss_offered(self) -> int:
        """Packets that entered the forward path's netem link."""
        return self.received + self.loss_drops

    @property
    def loss_measured_percent(self) -> float:
        """Share of the offered packets that netem dropped."""
        return 100 * self.loss_drops / self.loss_offered if self.loss_offered else 0.0


# Counters of the packets that a host sends.
SENT_PACKETS = ("TcpOutSegs", "TcpRetransSegs", "UdpOutDatagrams", "IcmpOutMsgs")
# Counters of IPv6 that are part of the same count; TCP's are of both versions.
OF_IPV6 = {
    "UdpOutDatagrams": "Udp6OutDatagrams", "IcmpOutMsgs": "Icmp6OutMsgs",
    "IcmpInEchos": "Icmp6InEchos", "IpExtInCEPkts": "Ip6InCEPkts",
    "IpExtInECT0Pkts": "Ip6InECT0Pkts", "IpExtInECT1Pkts": "Ip6InECT1Pkts",
}  # fmt: skip
NO_COUNTS: Mapping[str, int] = MappingProxyType({})


def _qdisc(state: Mapping[str, Any], end: Interface, handle: str) -> dict[str, Any]:
    qdiscs: list[dict[str, Any]] = state[end.host]["qdiscs"]
    return next((q for q in qdiscs if (q.get("dev"), q.get("handle")) == (end.name, handle)), {})


@dataclass(frozen=True)
class CounterDeltas:
    """Increases of counters between two states of the hosts, as returned by `hosts.read_back`."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def _increase(self, count: Callable[[Mapping[str, Any]], int]) -> int:
        return int(count(self.after) - count(self.before))

    def link(self, end: Interface, side: str, counter: str = "packets") -> int:
        """Count the packets or bytes that an interface sent (`tx`) or received (`rx`)."""
        return self._increase(lambda state: state[end.host]["links"][end.name][side][counter])

    def qdisc(self, end: Interface, counter: str = "drops", handle: str = "1:") -> int:
        """Return the increase of a counter of a qdisc on an interface."""
        return self._increase(lambda state: _qdisc(state, end, handle).get(counter, 0))

    def lost(self, end: Interface) -> int:
        """Count the packets that an exact link sent in outages, which it lost."""
        return self._increase(
            lambda state: sum(
                step[-1] for step in state[end.host].get("rates", {}).get(f"{end.name} 1:", [])
            )
        )

    def kind(self, end: Interface) -> str:
        """Return the kind of an interface's root qdisc; empty without one."""
        return str(_qdisc(self.after, end, "1:").get("kind", ""))

    def queued(self, end: Interface) -> int:
        """Return the packets in an interface's queues at the second reading.

        The root qdisc counts those of its children, too, and netem those that it delays.
        """
        return int(_qdisc(self.after, end, "1:").get("qlen", 0))

    def counter(self, host: str, name: str) -> int:
        """Return the increase of one of a host's TCP or IP counters, of both versions of IP."""

        def count(state: Mapping[str, Any]) -> int:
            counters = state[host]["counters"]
            return int(counters[name] + counters.get(OF_IPV6.get(name), 0))

        return self._increase(count)

    def marks(self) -> int:
        """Count the CE marks that the bottleneck's queue has set."""
        # DualPI2 is read over netlink, because the image's tc does not know it.
        return self._increase(
            lambda state: marks(_qdisc(state, bottleneck(), "10:") | state["r1"].get("dualpi2", {}))
        )

    def matched_by_filters(self, end: Interface) -> int:
        """Count the packets to which the filters of an interface have applied an action."""
        return self._increase(
            lambda state: sum(
                int(action["packets"])
                for action in state[end.host].get("filters", {}).get(end.name, [])
            )
        )

    @property
    def bypassed(self) -> int:
        """Count the packets that r1 sent to r3, past the bottleneck.

        The forward path leads over r2. r3 is on the reverse path of asymmetric paths only.
        """
        return self.link(interface("r1", "r3"), "tx")


def marks(qdisc: Mapping[str, Any]) -> int:
    """Count the CE marks that a qdisc has set."""
    parts = [qdisc, *qdisc.get("tins", [])]
    return int(sum(part.get(name, 0) for part in parts for name in MARKS))


def traffic(
    deltas: CounterDeltas,
    back: str,
    counts: Mapping[str, int] = NO_COUNTS,
    duplicating: bool = False,
    lossy_sender: bool = False,
) -> Traffic:
    """Count the packets between two states.

    `back` is the first router of the reverse path. `counts` are those of mechanisms, by name. If
    `duplicating`, netem may duplicate packets; if `lossy_sender`, the sender's may drop some.
    """
    sender, receiver = interface("sender", "r1"), interface("receiver", "r2")
    last, reverse_link = interface("r2", "receiver"), interface(back, "r1")
    # Links count aggregates as one packet. Qdiscs count the segments inside an aggregate, so their
    # counters look the same with offloads on (bstats_update, include/net/sch_generic.h).
    means = [
        deltas.link(end, side, "bytes") / packets
        for end in INTERFACES
        for side in ("rx", "tx")
        if (packets := deltas.link(end, side)) > 0
    ]
    # netem does not count duplicates: they are the packets that left the netem link or were dropped
    # there, minus those that entered it.
    duplicates = 0
    if duplicating:
        duplicates = deltas.qdisc(last, "packets") + deltas.qdisc(last)
        duplicates -= deltas.link(interface("r2", "r1"), "rx")
    sender_losses = 0
    if lossy_sender:
        # All packets of the protocols, minus those that left netem, which counts the packets of
        # aggregates. Linux counts retransmissions separately (tcp_transmit_skb).
        sender_losses = sum(deltas.counter("sender", name) for name in SENT_PACKETS)
        sender_losses -= deltas.qdisc(sender, "packets")
    # With the shaper htb-netem, packets wait on the reverse path, too, and find its buffer full.
    reverse_drops, buffered = deltas.qdisc(reverse_link), deltas.kind(reverse_link) == "htb"
    # netem counts what the bottleneck below it drops, too.
    below_drops = deltas.qdisc(reverse_link, handle=REVERSE_HANDLE)
    lost, lost_back = deltas.lost(bottleneck()), deltas.lost(interface("receiver", back))
    ce, ect0, ect1 = (deltas.counter("receiver", f"IpExtIn{e}Pkts") for e in ("CE", "ECT0", "ECT1"))
    return Traffic(
        sent=deltas.link(sender, "tx"),
        received=deltas.link(receiver, "rx"),
        bottleneck_drops=deltas.qdisc(bottleneck()),
        loss_drops=deltas.qdisc(last) + lost,
        sender_drops=deltas.qdisc(sender),
        largest_mean_packet_bytes=max(means, default=0.0),
        retransmits=deltas.counter("sender", "TcpRetransSegs"),
        memory_pressures=sum(deltas.counter(h, "TcpExtTCPMemoryPressures") for h in deltas.after),
        sent_back=deltas.link(interface("receiver", back), "tx") + lost_back,
        received_back=deltas.link(sender, "rx"),
        loss_back_drops=0 if buffered else reverse_drops - below_drops + lost_back,
        link_back_drops=reverse_drops if buffered else below_drops,
        duplicates=duplicates,
        reordered=sum(deltas.qdisc(last, "requeues", handle) for handle in NETEM_HANDLES),
        marks=deltas.marks(),
        ecn_capable=ect0 + ect1 + ce,
        ce_received=ce,
        policer_drops=deltas.qdisc(bottleneck(), "drops", FILTERS),
        acks_seen=deltas.matched_by_filters(reverse_link),
        acks_thinned=deltas.qdisc(reverse_link, "drops", FILTERS),
        queued=deltas.queued(bottleneck()) + deltas.queued(last),
        queued_back=deltas.queued(reverse_link),
        sender_losses=sender_losses,
        pings=deltas.counter("receiver", "IcmpInEchos"),
        opened=sum(deltas.counter(host, "TcpActiveOpens") for host in ("sender", "receiver")),
        others=dict(counts),
    )
