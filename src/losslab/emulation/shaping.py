"""Delay, loss, rate and buffer on the routers' interfaces: the tc commands and what tc reads back.

Delay line and bottleneck are separate: netem delays (and loses) with a limit that it can never
reach; a token bucket with a FIFO of the stated length is the bottleneck. Nothing is shaped on the
sender, where TCP would see it: its `fq` is the same for every algorithm. The one exception is a
condition with `sender_delay_ms`, which asks for that mistake. With the shaper `htb-netem` rate,
delay and buffer are on one interface each way, which is how Mininet's links do it. A bare path
(`rtt_ms` 0) has its bottleneck and nothing else, for kernels that have neither netem nor fq.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from losslab.emulation.beyond_tc import DUALPI2, DualPi2
from losslab.emulation.mechanism import Mechanism, line, of
from losslab.emulation.qdiscs import FRAME_BYTES, Shaper, netem
from losslab.emulation.topology import BULK_PORT, Interface, bottleneck, interface, reverse_router
from losslab.study.seeds import derived_seed

if TYPE_CHECKING:
    from losslab.study.condition import Condition

# The largest packet that the stack can form with segmentation offload (GSO_LEGACY_MAX_SIZE,
# linux/netdevice.h): a bucket smaller than a packet would never let it pass.
OFFLOADED_FRAME_BYTES = 65_550

# A bucket of one frame loses every nanosecond by which its timer is late (3 % of 1 Gbit/s); with
# two the time is made up for by the next frame.
BURST_FRAMES = 2

# What a waiting packet of full size takes of the kernel's memory (skb->truesize), which is what
# CAKE limits.
CAKE_BYTES_PER_PACKET = 2304

# Queues whose one option is a limit in packets.
LIMITED_IN_PACKETS = ("codel", "fq_codel", "pie")

# netem's limit where none is stated (tc-netem(8)).
NETEM_DEFAULT_LIMIT_PACKETS = 1000

# The limit of the sender's fq_codel, its default (tc-fq_codel(8)).
FQ_CODEL_PACKETS = 10_240

# The limit of the sender's fq, its default (tc-fq(8)), and here also of each flow: fq's own 100
# packets are meant for aggregates, and without offloads a millisecond of BBR's pacing, which TCP
# lets wait there, is more.
FQ_PACKETS = 10_000


def queue(condition: Condition, mechanisms: Sequence[Mechanism] = ()) -> list[Shaper]:
    """List the qdiscs in which packets wait for the bottleneck's bucket."""
    packets = condition.buffer_packets
    if condition.queue == "two-fifos":
        return _two_fifos(packets)
    if condition.queue == DUALPI2:
        return [DualPi2(bottleneck(), "parent 1:1", "10:", DUALPI2, "", {}, limit=packets)]
    octets = packets * FRAME_BYTES
    least = max(octets // 12, 2 * FRAME_BYTES)
    # kind, arguments, and what must read back. Buffers are the stated ones; what else an AQM has is
    # its default, as a user would deploy it, and RED's thresholds are those of tc-red(8): maximum a
    # quarter of the limit, minimum a third of that, burst (2 min + max) / (3 avpkt).
    choices: dict[str, tuple[str, str, dict[str, Any]]] = {
        **{name: (name, f"limit {packets}", {"limit": packets}) for name in LIMITED_IN_PACKETS},
        "fifo": ("pfifo", f"limit {packets}", {"limit": packets}),
        "bfifo": ("bfifo", f"limit {octets}", {"limit": octets}),
        "cake": (
            "cake",
            f"unlimited memlimit {CAKE_BYTES_PER_PACKET * packets}",
            {"bandwidth": "unlimited", "memlimit": CAKE_BYTES_PER_PACKET * packets},
        ),
        "red": (
            "red",
            f"limit {octets} min {least} max {3 * least} avpkt {FRAME_BYTES} "
            f"burst {5 * least // (3 * FRAME_BYTES) + 1} probability 0.02 "
            f"bandwidth {condition.rate_mbit:g}mbit",
            {"limit": octets, "min": least, "max": 3 * least},
        ),
        "red-step": _red_step(condition),
    }
    kind, arguments, expected = choices[condition.queue]
    made = Shaper(bottleneck(), "parent 1:1", "10:", kind, arguments, expected)
    for mechanism in mechanisms:
        made = mechanism.on_queue(condition, made)
    return [made]


def _red_step(condition: Condition) -> tuple[str, str, dict[str, Any]]:
    """Make RED a step (Alizadeh et al., Data Center TCP, SIGCOMM 2010, section 3.1).

    Its thresholds are a byte apart, and a burst of as many packets as the threshold makes it look
    at a mean of half the present queue and half its past one (tc_red_eval_ewma, tc/tc_red.c), the
    nearest to the present that it has.
    """
    octets, least = condition.buffer_packets * FRAME_BYTES, condition.mark_packets * FRAME_BYTES
    arguments = (
        f"limit {octets} min {least} max {least + 1} avpkt {FRAME_BYTES} "
        f"burst {condition.mark_packets} probability 1 bandwidth {condition.rate_mbit:g}mbit"
    )
    return "red", arguments, {"limit": octets, "min": least, "max": least + 1}


def _two_fifos(packets: int) -> list[Shaper]:
    """Give bulk flows a FIFO of their own, and each of the two half of the rate (tc-drr(8))."""
    where = bottleneck()
    fifos = [
        Shaper(
            where, f"parent 10:{number}", f"{10 + number}:", "pfifo", f"limit {packets}",
            {"limit": packets},
        )
        for number in (1, 2)
    ]  # fmt: skip
    filters = "filter add dev {} parent 10: protocol ip prio {} {} classid 10:{}".format
    more = (
        *(f"class add dev {where.name} parent 10: classid 10:{n} drr quantum {FRAME_BYTES}"
          for n in (1, 2)),
        filters(where.name, 1, f"flower ip_proto tcp dst_port {BULK_PORT}", 1),
        filters(where.name, 2, "matchall", 2),
    )  # fmt: skip
    return [Shaper(where, "parent 1:1", "10:", "drr", "", {}, more), *fifos]


def one_interface(condition: Condition, seed: int) -> list[Shaper]:
    """List the qdiscs of a rate, a delay and a buffer on one interface each way.

    As `TCLink` of Mininet and the scripts of the lab cs144_bufferbloat have it (tc_cmd.sh): netem
    under a class of htb. netem's limit is the buffer, and counts what is in its delay line, too;
    what has waited for the rate for as long as the delay has served it. Of two FIFOs each has half
    of the rate and may borrow the other's (tc_cmd_diff.sh gives each all of it, and so both twice
    the link's; its page then takes 1 s, where the source of the study has 2).
    """
    rate_bytes = math.floor(condition.rate_mbit * 1e6 / 8)
    found = []
    for where, purpose, port in (
        (bottleneck(), "data", "dst_port"),
        (interface(reverse_router(condition.path), "r1"), "reverse", "src_port"),
    ):
        shares = {"1:1": rate_bytes}
        lines = [_htb_class(where, "1:", "1:1", rate_bytes, rate_bytes)]
        leaves = ["1:1"]
        if condition.queue == "two-fifos":
            leaves = ["1:11", "1:12"]
            half = rate_bytes // 2
            shares |= dict.fromkeys(leaves, half)
            lines += [_htb_class(where, "1:1", leaf, half, rate_bytes) for leaf in leaves]
            add = f"filter add dev {where.name} parent 1: protocol ip"
            lines += [
                f"{add} prio 1 flower ip_proto tcp {port} {BULK_PORT} classid {leaves[0]}",
                f"{add} prio 2 matchall classid {leaves[1]}",
            ]
        options = {leaf: {"rate": share, "ceil": rate_bytes} for leaf, share in shares.items()}
        default = int(leaves[-1].removeprefix("1:"), 16)
        found.append(
            Shaper(
                where, "root", "1:", "htb", f"default {default:x}", {"default": f"{default:#x}"},
                tuple(lines), options,
            )
        )  # fmt: skip
        found += [
            netem(
                where, condition.rtt_ms / 2, 0.0, derived_seed(seed, f"netem-{purpose}"),
                condition.buffer_packets, f"parent {leaf}", f"{10 + number}:",
            )
            for number, leaf in enumerate(leaves)
        ]  # fmt: skip
    return found


def _htb_class(where: Interface, parent: str, handle: str, rate: int, ceil: int) -> str:
    """Write the line that makes a class; rates in bytes/s."""
    return (
        f"class add dev {where.name} parent {parent} classid {handle} "
        f"htb rate {rate * 8}bit ceil {ceil * 8}bit"
    )


def _sender(condition: Condition, seed: int) -> Shaper:
    """Choose the qdisc of the sender's own interface."""
    where = interface("sender", "r1")
    if condition.sender_queue == "fq_codel":
        limit = {"limit": FQ_CODEL_PACKETS}
        return Shaper(where, "root", "1:", "fq_codel", f"limit {FQ_CODEL_PACKETS}", limit)
    if condition.sender_delay_ms == 0:
        limits = {"limit": FQ_PACKETS, "flow_limit": FQ_PACKETS}
        arguments = f"limit {FQ_PACKETS} flow_limit {FQ_PACKETS}"
        return Shaper(where, "root", "1:", "fq", arguments, limits)
    return netem(
        where,
        condition.sender_delay_ms,
        condition.loss_percent,
        derived_seed(seed, "netem-sender"),
        NETEM_DEFAULT_LIMIT_PACKETS,
    )


def shapers(condition: Condition, seed: int) -> list[Shaper]:
    """List the qdiscs of a condition, the sender's first.

    The forward half of the routers' delay and the loss of data packets sit behind the bottleneck,
    the reverse half on the first router of the way back.
    """
    if condition.shaper == "htb-netem":
        return [_sender(condition, seed), *one_interface(condition, seed)]
    frame_bytes = FRAME_BYTES if condition.offloads == "off" else OFFLOADED_FRAME_BYTES
    burst_bytes = BURST_FRAMES * frame_bytes
    rate_bytes = math.floor(condition.rate_mbit * 1e6 / 8)
    back, mechanisms = reverse_router(condition.path), of(condition)
    link = [
        Shaper(
            where=bottleneck(),
            parent="root",
            handle="1:",
            kind="tbf",
            # `limit` is the inner FIFO's at creation; the pfifo below replaces it.
            arguments=f"rate {rate_bytes * 8}bit burst {burst_bytes} limit {burst_bytes}",
            expected={"rate": rate_bytes},
        ),
        *queue(condition, mechanisms),
    ]
    if condition.bare:
        return link
    return [
        _sender(condition, seed),
        *link,
        *line(condition, "data").shapers(interface("r2", "receiver"), seed, "netem-data"),
        *line(condition, "back").shapers(interface(back, "r1"), seed, "netem-reverse"),
        *(qdisc for mechanism in mechanisms for qdisc in mechanism.qdiscs(condition)),
    ]
