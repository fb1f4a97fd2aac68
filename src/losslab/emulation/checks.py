"""What must hold for a replicate to be a number: pure functions from evidence to reasons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from losslab.emulation.accounts import OF_SOME_PATHS, Traffic
from losslab.emulation.mechanism import Z, outside_interval
from losslab.emulation.qdiscs import FRAME_BYTES
from losslab.emulation.topology import RECEIVER_ADDRESS

if TYPE_CHECKING:
    from losslab.emulation.plan import Promise
    from losslab.emulation.probes.queue import QueueSample

# netem rounds its delays to ticks of 64 ns; a probe reads the clock, which costs 256 ns in virtual
# time (TIMER_MULTIPLIER, arch/um/kernel/time.c).
RTT_TOLERANCE_SHARE = 0.001
RTT_TOLERANCE_MS = 0.003
# In real time every hop's timer and wake-up comes late by some microseconds, and never early.
REAL_TIME_RTT_SHARE = 0.01
REAL_TIME_RTT_MS = 0.1
# Full segments in an aggregate of GSO_LEGACY_MAX_SIZE bytes (linux/netdevice.h).
AGGREGATE_PACKETS_MAX = 45
# A window or buffer that limits for less cannot move the mean by as much as replicates differ.
LIMITED_SHARE_MAX = 0.02


@dataclass(frozen=True)
class FlowEvidence:
    """What the kernel said of a flow's connections."""

    name: str
    wanted: str
    found: list[str]  # algorithms
    # Of its busy time, in which the receiver's window or the sender's buffer held it back.
    window_limited_share: float
    buffer_limited_share: float
    # Wants all the path can carry.
    bulk: bool = True


@dataclass(frozen=True)
class Evidence:
    """Everything that the checks look at."""

    promise: Promise
    rtt_ms: float | None
    goodput_mbit: float
    flows: list[FlowEvidence]
    traffic: Traffic
    real_time: bool = False
    # Each ping on the idle path; `rtt_ms` is the least.
    idle_ms: Sequence[float] = ()
    accurate_ecn: bool = False  # every connection of the flows agreed on it
    # Packets of the sender's that did not pass the bottleneck.
    bypassed: int = 0
    queue: Sequence[QueueSample] = ()  # of the bottleneck

    @property
    def rtt_tolerance_ms(self) -> float:
        """Return by how much the RTT of the idle path may be off."""
        wanted = self.promise.rtt_ms
        if self.real_time:
            return REAL_TIME_RTT_MS + REAL_TIME_RTT_SHARE * wanted
        return max(RTT_TOLERANCE_MS, RTT_TOLERANCE_SHARE * wanted)


def reasons(evidence: Evidence) -> list[str]:
    """List why the replicate is not a number; empty when it is one."""
    found = [*_of_path(evidence), *_of_packets(evidence), *_of_loss(evidence), *_of_flows(evidence)]
    for mechanism in evidence.promise.mechanisms:
        found += mechanism.reasons(evidence)
    return [reason for reason in found if reason]


def _of_path(e: Evidence) -> Iterator[str]:
    path, tolerance_ms = e.promise, e.rtt_tolerance_ms
    low_ms, high_ms = -path.below_ms - tolerance_ms, path.above_ms + tolerance_ms
    # The least of some twenty: an early one, where there are any, and perhaps never one without
    # further delay.
    if e.rtt_ms is None:
        yield f"ping must measure an RTT of {path.rtt_ms:g} ms, found no reply at all"
    elif not low_ms <= e.rtt_ms - path.rtt_ms <= high_ms:
        yield f"RTT of the idle path must be {path.rtt_ms:g} ms, found {e.rtt_ms:g} ms"
    rate_mbit = path.mean_rate_mbit or path.rate_mbit
    if e.goodput_mbit > rate_mbit:
        yield (
            f"the receiver cannot be faster than the link's {rate_mbit:g} Mbit/s, found "
            f"{e.goodput_mbit:.1f}"
        )
    if e.bypassed:
        yield (
            "everything that the sender sends must pass the bottleneck, found "
            f"{e.bypassed} packets on the way over r3: a program on the receiver must use the "
            f"address {RECEIVER_ADDRESS}"
        )


def _of_packets(e: Evidence) -> Iterator[str]:
    t, mean = e.traffic, e.traffic.largest_mean_packet_bytes
    if t.sender_drops and e.promise.loss_at_sender_percent is None:
        yield f"the sender's own qdisc must drop nothing, found {t.sender_drops} packets"
    explained = {name for each in e.promise.mechanisms for name in each.explains}
    counts = {name: getattr(t, name) for name in OF_SOME_PATHS if name not in explained}
    del counts["acks_seen"], counts["others"]
    wrong = [f"{name} {count}" for name, count in counts.items() if count]
    if wrong:
        yield f"this path must have none of these packets, found {', '.join(wrong)}"
    # With offloads on, a bucket smaller than an aggregate segments it: counts do not compare.
    if not e.promise.single_packets:
        return
    if mean > FRAME_BYTES:
        yield (
            f"mean packet must be at most {FRAME_BYTES} bytes on every link, found {mean:.0f}: "
            "loss would hit aggregates, not packets"
        )
    if t.unexplained and not (t.sender_drops and e.promise.loss_at_sender_percent is None):
        yield (
            "packets sent must equal packets received plus those that the emulator dropped, found "
            f"{t.sent} sent, {t.received} received, {t.bottleneck_drops} dropped at the "
            f"bottleneck, {t.link_drops} by the trace-driven link, {t.policer_drops} by the "
            f"policer, {t.loss_drops} lost, {t.duplicates} made twice: {t.unexplained} unexplained"
        )
    if t.unexplained_back:
        yield (
            "packets sent back must equal packets received plus those that the emulator dropped, "
            f"found {t.sent_back} sent, {t.received_back} received, {t.loss_back_drops} lost, "
            f"{t.acks_thinned} thinned out: {t.unexplained_back} unexplained"
        )


def _of_loss(e: Evidence) -> Iterator[str | None]:
    t, path = e.traffic, e.promise
    if path.mean_rate_mbit is not None:
        return  # by phases, in `changing`
    if path.loss_at_sender_percent is None:
        offered, run = t.loss_offered, path.loss_run_packets
        yield outside_interval("loss", path.loss_percent, offered, t.loss_drops, run)
    else:
        # A bound: aggregates are not counted, nor those for which netem had no room.
        aggregates = t.sent // AGGREGATE_PACKETS_MAX
        least = path.loss_at_sender_percent / 100 * t.sent / AGGREGATE_PACKETS_MAX
        if t.sender_drops < least - Z * math.sqrt(least):
            yield (
                f"the sender's netem must lose {path.loss_at_sender_percent:g} % of at least "
                f"{aggregates} aggregates, found {t.sender_drops} lost"
            )
    offered = t.received_back + t.link_back_drops + t.loss_back_drops
    yield outside_interval(
        "loss on the way back", path.loss_back_percent, offered, t.loss_back_drops,
        path.loss_run_packets,
    )  # fmt: skip


def _of_flows(e: Evidence) -> Iterator[str]:
    wrong = [
        f"{flow.name} must use {flow.wanted}, found {', '.join(flow.found) or 'no connection'}"
        for flow in e.flows
        if flow.found != [flow.wanted]
    ]
    if wrong:
        yield "; ".join(wrong)
    if e.traffic.memory_pressures:
        yield f"TCP memory pressure must not occur, found {e.traffic.memory_pressures} times"
    limited = []
    for flow in e.flows:
        share = flow.buffer_limited_share
        if not e.promise.window_may_limit:
            share += flow.window_limited_share
        if flow.bulk and share > LIMITED_SHARE_MAX:
            limited.append(f"{100 * share:.1f} % of the busy time of {flow.name}")
    if limited:
        yield f"send and receive buffers must not limit a flow, found {'; '.join(limited)} limited"
