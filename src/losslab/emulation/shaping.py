"""Qdiscs of a path: delay, loss, rate and buffer on the routers' interfaces.

Netem link and bottleneck are separate. netem delays and drops packets; its limit is never reached.
The bottleneck is a token bucket or an exact link, with a queue of the stated length. There is no
shaping on the sender, because TCP would react to it; its `fq` is the same for every algorithm. The
exception is `sender_delay_ms`, which reproduces that mistake. With the shaper `htb-netem`, rate,
delay and buffer share one interface per direction, as in Mininet's links. A bare path (`rtt_ms` 0)
has only a bottleneck, for kernels without netem and fq.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from losslab.emulation.link.banded import banded
from losslab.emulation.mechanism import Mechanism, netem_link, of
from losslab.emulation.qdiscs import (
    DUALPI2,
    UNLIMITED,
    DualPi2,
    LinkStep,
    OwnQueue,
    Qdisc,
    htb_quantum,
    link,
    netem,
    rate_of,
    token_bucket,
)
from losslab.emulation.topology import BULK_PORT, Interface, bottleneck, interface, reverse_router
from losslab.study.axes import NONE, OWN, derived_seed, plain
from losslab.study.packetsizes import AGGREGATE_BYTES, DEFAULT, ETHERNET_BYTES, frame_bytes

if TYPE_CHECKING:
    from losslab.study.condition import Condition

# Maximum frame with segmentation offload.
# A smaller token bucket would never send it.
OFFLOADED_FRAME_BYTES = AGGREGATE_BYTES + ETHERNET_BYTES

# With a bucket of one frame, the link loses the lateness of each timer (3 % of 1 Gbit/s). With two
# frames it catches up.
BURST_FRAMES = 2

# HTB's default burst: 1600 bytes and rate / 1e9 (tc/q_htb.c). A class sends while it has tokens, so
# its last packet may exceed the burst (htb_class_mode, net/sched/sch_htb.c).
HTB_BURST_BYTES = 1600

# Kernel memory of a packet in a queue besides its payload (skb->truesize), which memory limits
# count: 2,304 bytes for a full packet by default.
QUEUED_MORE_BYTES = 856
# FQ-CoDel's default memory limit (fq_codel_init, net/sched/sch_fq_codel.c).
FQ_CODEL_BYTES = 32 * 2**20

# Queues with a limit in packets as their only option.
LIMITED_IN_PACKETS = ("codel", "fq_codel", "pie")

# Queues that send packets in the order of their arrival: a packet waits for all packets before it.
SINGLE_QUEUES = ("fifo", "bfifo", "codel", "pie", "red", "red-step")

# netem's default limit (tc-netem(8)).
NETEM_DEFAULT_LIMIT_PACKETS = 1000

# Limit of the sender's fq_codel: its default (tc-fq_codel(8)).
FQ_CODEL_PACKETS = 10_240

# Limit of the sender's fq: its default (tc-fq(8)). It is also the limit of each flow, whose default
# of 100 packets assumes aggregates: without offloads, BBR's pacing queues more packets per ms.
FQ_PACKETS = 10_000


def _largest_bytes(condition: Condition) -> int:
    """Return the size of the largest frame that a bottleneck sends at once."""
    single_packets = condition.offloads == "off"
    return frame_bytes(condition.mtu_bytes) if single_packets else OFFLOADED_FRAME_BYTES


def bucket_bytes(condition: Condition) -> int:
    """Return what the bottleneck may send at once beyond its rate: 0 for an exact link."""
    if exact(condition):
        return 0
    if condition.shaper == "htb-netem":
        return HTB_BURST_BYTES + _largest_bytes(condition)
    return BURST_FRAMES * _largest_bytes(condition)


def exact(condition: Condition) -> bool:
    """Return whether a condition's rates are those of exact links."""
    return condition.shaper == "link"


def queued_bytes(mtu_bytes: int) -> int:
    """Return the kernel's memory of a full packet in a queue."""
    return mtu_bytes - DEFAULT.mtu_bytes + DEFAULT.segment_bytes + QUEUED_MORE_BYTES


def queue(condition: Condition, mechanisms: Sequence[Mechanism] = ()) -> list[Qdisc]:
    """List the qdiscs of the bottleneck's queue."""
    packets = condition.buffer_packets
    if condition.queue == "two-fifos":
        return _per_class_fifos(packets, frame_bytes(condition.mtu_bytes), ethertype(condition))
    if condition.queue == OWN:
        kind, _, arguments = condition.qdisc.partition(" ")
        return [OwnQueue(bottleneck(), "parent 1:1", "10:", kind, arguments, {})]
    if condition.queue == DUALPI2:
        return [DualPi2(bottleneck(), "parent 1:1", "10:", DUALPI2, "", {}, limit=packets)]
    frame = frame_bytes(condition.mtu_bytes)
    octets, memory = packets * frame, packets * queued_bytes(condition.mtu_bytes)
    min_octets, mark_octets = max(octets // 12, 2 * frame), condition.mark_packets * frame

    def red(least: int, most: int, burst: int, probability: str) -> tuple[str, str, dict[str, Any]]:
        arguments = (
            f"limit {octets} min {least} max {most} avpkt {frame} burst {burst} "
            f"probability {probability} bandwidth {plain(condition.rate_mbit)}mbit"
        )
        return "red", arguments, {"limit": octets, "min": least, "max": most}

    # Kind, tc arguments, and options that must be read back. AQMs have the stated buffer and their
    # other defaults. RED's thresholds follow tc-red(8): maximum a quarter of the limit, minimum a
    # third of the maximum, burst (2 min + max) / (3 avpkt). red-step has a step threshold (Alizadeh
    # et al., DCTCP, SIGCOMM 2010, section 3.1), thresholds 1 byte apart. With a burst equal to the
    # threshold, RED's average weighs the current and the previous queue length equally
    # (tc_red_eval_ewma, tc/tc_red.c), the minimum averaging that RED supports.
    choices: dict[str, tuple[str, str, dict[str, Any]]] = {
        **{name: (name, f"limit {packets}", {"limit": packets}) for name in LIMITED_IN_PACKETS},
        "fifo": ("pfifo", f"limit {packets}", {"limit": packets}),
        "bfifo": ("bfifo", f"limit {octets}", {"limit": octets}),
        "cake": (
            "cake",
            f"unlimited memlimit {memory}",
            {"bandwidth": "unlimited", "memlimit": memory},
        ),
        "red": red(min_octets, 3 * min_octets, 5 * min_octets // (3 * frame) + 1, "0.02"),
        "red-step": red(mark_octets, mark_octets + 1, condition.mark_packets, "1"),
    }
    kind, arguments, expected = choices[condition.queue]
    if kind == "fq_codel" and memory > FQ_CODEL_BYTES:
        arguments += f" memory_limit {memory}"
        expected = expected | {"memory_limit": memory}
    qdisc = Qdisc(bottleneck(), "parent 1:1", "10:", kind, arguments, expected)
    for mechanism in mechanisms:
        qdisc = mechanism.on_queue(condition, qdisc)
    return [qdisc]


def ethertype(condition: Condition) -> str:
    """Return the protocol of the flows' packets, as tc names it."""
    return "ip" if condition.ip_version == 4 else "ipv6"


def _per_class_fifos(packets: int, quantum: int, protocol: str) -> list[Qdisc]:
    """Return per-class FIFOs: one for bulk flows and one for the rest, with equal shares (DRR)."""
    where = bottleneck()
    fifos = [
        Qdisc(
            where, f"parent 10:{number}", f"{10 + number}:", "pfifo", f"limit {packets}",
            {"limit": packets},
        )
        for number in (1, 2)
    ]  # fmt: skip
    filters = "filter add dev {} parent 10: protocol {} prio {} {} classid 10:{}".format
    more = (
        *(f"class add dev {where.name} parent 10: classid 10:{n} drr quantum {quantum}"
          for n in (1, 2)),
        filters(where.name, protocol, 1, f"flower ip_proto tcp dst_port {BULK_PORT}", 1),
        filters(where.name, protocol, 2, "matchall", 2),
    )  # fmt: skip
    return [Qdisc(where, "parent 1:1", "10:", "drr", "", {}, more), *fifos]


def one_interface(condition: Condition, seed: int) -> list[Qdisc]:
    """List the qdiscs of the shaper `htb-netem`: rate, delay and buffer on one interface.

    Mininet's `TCLink` and the scripts of the lab cs144_bufferbloat (tc_cmd.sh) have the same: a
    netem under an HTB class. netem's limit is the buffer and includes the packets in the delay; a
    packet that has waited for the rate as long as the delay is not delayed again. Each of two FIFOs
    has half of the rate and may borrow the other half. (tc_cmd_diff.sh gives each FIFO the whole
    rate, so that both have twice the link's; its page then takes 1 s, and 2 s in the study's
    source.)
    """
    rate_bytes, frame = math.floor(condition.rate_mbit * 1e6 / 8), frame_bytes(condition.mtu_bytes)
    qdiscs = []
    for where, purpose, port in (
        (bottleneck(), "data", "dst_port"),
        (interface(reverse_router(condition.path), "r1"), "reverse", "src_port"),
    ):
        shares = {"1:1": rate_bytes}
        lines = [_htb_class(where, "1:", "1:1", rate_bytes, rate_bytes, frame)]
        leaves = ["1:1"]
        if condition.queue == "two-fifos":
            leaves = ["1:11", "1:12"]
            half = rate_bytes // 2
            shares |= dict.fromkeys(leaves, half)
            lines += [_htb_class(where, "1:1", leaf, half, rate_bytes, frame) for leaf in leaves]
            add = f"filter add dev {where.name} parent 1: protocol {ethertype(condition)}"
            lines += [
                f"{add} prio 1 flower ip_proto tcp {port} {BULK_PORT} classid {leaves[0]}",
                f"{add} prio 2 matchall classid {leaves[1]}",
            ]
        options = {leaf: {"rate": share, "ceil": rate_bytes} for leaf, share in shares.items()}
        default = int(leaves[-1].removeprefix("1:"), 16)
        qdiscs.append(
            Qdisc(
                where, "root", "1:", "htb", f"default {default:x}", {"default": f"{default:#x}"},
                tuple(lines), options,
            )
        )  # fmt: skip
        qdiscs += [
            netem(
                where, condition.rtt_ms / 2, 0.0, derived_seed(seed, f"netem-{purpose}"),
                condition.buffer_packets, f"parent {leaf}", f"{10 + number}:",
            )
            for number, leaf in enumerate(leaves)
        ]  # fmt: skip
    return qdiscs


def _htb_class(where: Interface, parent: str, handle: str, rate: int, ceil: int, frame: int) -> str:
    """Return the tc line of an HTB class; rates in bytes/s."""
    quantum = htb_quantum(rate, frame)
    return (
        f"class add dev {where.name} parent {parent} classid {handle} "
        f"htb rate {rate * 8}bit ceil {ceil * 8}bit"
    ) + (f" quantum {quantum}" if quantum else "")


def _sender(condition: Condition, seed: int) -> Qdisc:
    where = interface("sender", "r1")
    if condition.sender_queue == "fq_codel":
        limit = {"limit": FQ_CODEL_PACKETS}
        return Qdisc(where, "root", "1:", "fq_codel", f"limit {FQ_CODEL_PACKETS}", limit)
    if condition.sender_delay_ms == 0:
        limits = {"limit": FQ_PACKETS, "flow_limit": FQ_PACKETS}
        arguments = f"limit {FQ_PACKETS} flow_limit {FQ_PACKETS}"
        return Qdisc(where, "root", "1:", "fq", arguments, limits)
    return netem(
        where,
        condition.sender_delay_ms,
        condition.loss_percent,
        derived_seed(seed, "netem-sender"),
        NETEM_DEFAULT_LIMIT_PACKETS,
    )


def rate_qdisc(
    condition: Condition, where: Interface, rate_mbit: float, parent: str, handle: str
) -> Qdisc:
    """Build what limits an interface to a constant rate, with a condition's shaper."""
    if exact(condition):
        return link(where, [LinkStep(0, rate_of(rate_mbit))], parent, handle)
    burst_bytes = BURST_FRAMES * _largest_bytes(condition)
    return token_bucket(where, rate_mbit, burst_bytes, parent, handle)


def _bottleneck(condition: Condition, mechanisms: Sequence[Mechanism], seed: int) -> Qdisc:
    if exact(condition):
        for mechanism in mechanisms:
            if steps := mechanism.link_steps(condition, seed):
                return link(bottleneck(), steps)
    return rate_qdisc(condition, bottleneck(), condition.rate_mbit, "root", "1:")


def _limited(condition: Condition, mechanisms: Sequence[Mechanism], seed: int) -> list[Qdisc]:
    """List the bottleneck's qdiscs.

    With a trace, an exact link without a rate is above the one that follows the trace: it loses the
    packets of outages.
    """
    queues = queue(condition, mechanisms)
    if not exact(condition) or condition.trace == NONE:
        return [_bottleneck(condition, mechanisms, seed), *queues]
    steps = next(
        (its for each in mechanisms if (its := each.link_steps(condition, seed))),
        [LinkStep(0, UNLIMITED)],
    )
    handles = ("40:", "41:", "42:")
    return [link(bottleneck(), steps), *banded(bottleneck(), "parent 1:1", handles, queues)]


def path_qdiscs(condition: Condition, seed: int) -> list[Qdisc]:
    """List the qdiscs of a condition, the sender's first.

    The forward netem link follows the bottleneck; the reverse one is on the first router of the
    reverse path.
    """
    if condition.shaper == "htb-netem":
        return [_sender(condition, seed), *one_interface(condition, seed)]
    back, mechanisms = reverse_router(condition.path), of(condition)
    limited = _limited(condition, mechanisms, seed)
    if condition.bare:
        return limited
    return [
        _sender(condition, seed),
        *limited,
        *netem_link(condition, "data").qdiscs(interface("r2", "receiver"), seed, "netem-data"),
        *netem_link(condition, "back").qdiscs(interface(back, "r1"), seed, "netem-reverse"),
        *(qdisc for mechanism in mechanisms for qdisc in mechanism.qdiscs(condition)),
    ]
