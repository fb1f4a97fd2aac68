"""Delay, loss, rate and buffer on the routers' interfaces: the tc commands and what tc reads back.

Delay line and bottleneck are separate: netem delays (and loses) with a limit that it can never
reach; a token bucket with a FIFO of the stated length is the bottleneck. Nothing is shaped on the
sender, where TCP would see it: its `fq` is the same for every algorithm. The one exception is a
condition with `sender_delay_ms`, which asks for that mistake. A bare path (`rtt_ms` 0) has its
bottleneck and nothing else, for kernels that have neither netem nor fq.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from losslab.emulation.topology import Interface, interface, reverse_router
from losslab.study.condition import NO_TRACE, Condition, derived_seed

MTU_BYTES = 1500
FRAME_BYTES = 1514  # MTU and Ethernet header: what a qdisc counts per packet

# The largest packet that the stack can form with segmentation offload (GSO_LEGACY_MAX_SIZE,
# linux/netdevice.h): a bucket smaller than a packet would never let it pass.
OFFLOADED_FRAME_BYTES = 65_550

# A bucket of one frame loses every nanosecond by which its timer is late (3 % of 1 Gbit/s); with
# two the time is made up for by the next frame.
BURST_FRAMES = 2

# Behind a trace-driven link.
SPARE_PACKETS = 1000

# The port of bulk flows, which a queue may set apart.
BULK_PORT = 5201

# What a waiting packet of full size takes of the kernel's memory (skb->truesize), which is what
# CAKE limits.
CAKE_BYTES_PER_PACKET = 2304

# netem keeps probabilities as 32-bit numbers (tc_netem_corr.loss_corr, linux/pkt_sched.h).
NETEM_PROBABILITY_STEP = 2.0**-32

# netem's limit where none is stated (tc-netem(8)).
NETEM_DEFAULT_LIMIT_PACKETS = 1000

# The limit of the sender's fq, its default (tc-fq(8)), and here also of each flow: fq's own 100
# packets are meant for aggregates, and without offloads a millisecond of BBR's pacing, which TCP
# lets wait there, is more.
FQ_PACKETS = 10_000

# A limit that netem cannot reach: packets of 64 bytes at 10 Gbit/s for 10 s of delay stay below.
NEVER_FULL_PACKETS = 200_000_000


@dataclass(frozen=True)
class Shaper:
    """One qdisc: where it sits, the tc arguments that make it, the options that must read back."""

    where: Interface
    parent: str
    handle: str
    kind: str
    arguments: str
    expected: dict[str, Any]
    # Further lines that follow it: classes and filters of a qdisc that has them.
    more: tuple[str, ...] = ()

    def command(self) -> str:
        """Write the `tc -batch` lines."""
        line = (
            f"qdisc add dev {self.where.name} {self.parent} handle {self.handle} "
            f"{self.kind} {self.arguments}"
        ).rstrip()
        return "\n".join([line, *self.more])


def _netem(
    where: Interface,
    delay_ms: float,
    loss_percent: float,
    seed: int,
    limit_packets: int = NEVER_FULL_PACKETS,
) -> Shaper:
    delay_ns = round(delay_ms * 1e6)
    arguments = f"limit {limit_packets} delay {delay_ns}ns"
    expected: dict[str, Any] = {
        "limit": limit_packets,
        "delay.delay": delay_ns / 1e9,
    }
    if loss_percent > 0:
        arguments += f" loss random {loss_percent:g}%"
        expected["loss-random.loss"] = loss_percent / 100
    return Shaper(
        where=where,
        parent="root",
        handle="1:",
        kind="netem",
        arguments=f"{arguments} seed {seed}",
        expected=expected | {"seed": seed},
    )


def bottleneck() -> Interface:
    """Name the interface whose queue is the bottleneck's."""
    return interface("r1", "r2")


def queue(condition: Condition) -> list[Shaper]:
    """List the qdiscs in which packets wait for the bottleneck's bucket."""
    packets = condition.buffer_packets
    if condition.trace != NO_TRACE:
        # The queue is the trace-driven link's; the bucket behind it is never short.
        limit = {"limit": SPARE_PACKETS}
        return [Shaper(bottleneck(), "parent 1:1", "10:", "pfifo", f"limit {SPARE_PACKETS}", limit)]
    if condition.queue == "two-fifos":
        return _two_fifos(packets)
    octets = packets * FRAME_BYTES
    least = max(octets // 12, 2 * FRAME_BYTES)
    # kind, arguments, and what must read back. Buffers are the stated ones; what else an AQM has is
    # its default, as a user would deploy it, and RED's thresholds are those of tc-red(8): maximum a
    # quarter of the limit, minimum a third of that, burst (2 min + max) / (3 avpkt).
    choices: dict[str, tuple[str, str, dict[str, Any]]] = {
        "fifo": ("pfifo", f"limit {packets}", {"limit": packets}),
        "bfifo": ("bfifo", f"limit {octets}", {"limit": octets}),
        "codel": ("codel", f"limit {packets}", {"limit": packets}),
        "fq_codel": ("fq_codel", f"limit {packets}", {"limit": packets}),
        "pie": ("pie", f"limit {packets}", {"limit": packets}),
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
    }
    kind, arguments, expected = choices[condition.queue]
    return [Shaper(bottleneck(), "parent 1:1", "10:", kind, arguments, expected)]


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


def _sender(condition: Condition, seed: int) -> Shaper:
    """Choose the qdisc of the sender's own interface."""
    where = interface("sender", "r1")
    if condition.sender_delay_ms == 0:
        limits = {"limit": FQ_PACKETS, "flow_limit": FQ_PACKETS}
        arguments = f"limit {FQ_PACKETS} flow_limit {FQ_PACKETS}"
        return Shaper(where, "root", "1:", "fq", arguments, limits)
    return _netem(
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
    half_ms = (condition.rtt_ms - condition.sender_delay_ms) / 2
    frame_bytes = FRAME_BYTES if condition.offloads == "off" else OFFLOADED_FRAME_BYTES
    burst_bytes = BURST_FRAMES * frame_bytes
    rate_bytes = math.floor(condition.rate_mbit * 1e6 / 8)
    reverse_loss = condition.loss_percent if condition.loss_direction == "both" else 0.0
    back = reverse_router(condition.path)
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
        *queue(condition),
    ]
    if condition.bare:
        return link
    return [
        _sender(condition, seed),
        *link,
        _netem(
            interface("r2", "receiver"),
            half_ms,
            0.0 if condition.sender_delay_ms else condition.loss_percent,
            derived_seed(seed, "netem-data"),
        ),
        _netem(interface(back, "r1"), half_ms, reverse_loss, derived_seed(seed, "netem-reverse")),
    ]


def _option(options: dict[str, Any], dotted: str) -> Any:
    """Fetch `a.b` from nested options; None where it is absent."""
    value: Any = options
    for key in dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def differences(wanted: list[Shaper], found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Compare what was asked with `tc -json qdisc show` of each host.

    Args:
        wanted: The qdiscs that were asked for.
        found: Per host the parsed output of `tc -json qdisc show`.

    Returns:
        A sentence for every qdisc that is missing, differs, or was not asked for.
    """
    reasons = []
    shaping_kinds = {"netem", "tbf", "htb"}
    for shaper in wanted:
        where = f"{shaper.where.name} on {shaper.where.host}"
        candidates = [
            q
            for q in found.get(shaper.where.host, [])
            if q.get("dev") == shaper.where.name and q.get("handle") == shaper.handle
        ]
        if not candidates or candidates[0].get("kind") != shaper.kind:
            kinds = ", ".join(q.get("kind", "?") for q in candidates) or "none"
            reasons.append(f"qdisc {shaper.kind} must be on {where}, found {kinds}")
            continue
        options = candidates[0].get("options", {})
        for name, value in shaper.expected.items():
            got = _option(options, name)
            same = got == value or (
                isinstance(got, int | float)
                and isinstance(value, float)
                and math.isclose(got, value, rel_tol=1e-6, abs_tol=NETEM_PROBABILITY_STEP)
            )
            if not same:
                reasons.append(
                    f"qdisc {shaper.kind} on {where} must have {name} {value}, found {got}"
                )
    asked = {(s.where.host, s.where.name, s.kind) for s in wanted}
    for host, qdiscs in found.items():
        for q in qdiscs:
            if q.get("kind") in shaping_kinds and (host, q.get("dev"), q["kind"]) not in asked:
                reasons.append(f"qdisc {q['kind']} on {q.get('dev')} of {host} was not asked for")
    return reasons
