"""What must hold for a replicate to be a number: pure functions from evidence to reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    found = [
        check(evidence)
        for check in (
            _rtt,
            _algorithm,
            _packet_size,
            _bypassed,
            _conservation,
            _conservation_back,
            _loss_rate,
            _loss_rate_back,
            _goodput,
            _memory,
            _limited,
            _unexplained_counts,
        )
    ]
    for mechanism in evidence.promise.mechanisms:
        found += mechanism.reasons(evidence)
    return [reason for reason in found if reason]


def _rtt(e: Evidence) -> str | None:
    wanted, path = e.promise.rtt_ms, e.promise
    if e.rtt_ms is None:
        return f"ping must measure an RTT of {wanted:g} ms, found no reply at all"
    # The least of some twenty: an early one, where there are any, and perhaps never one without
    # further delay.
    below_ms, above_ms = wanted - e.rtt_ms - path.below_ms, e.rtt_ms - wanted - path.above_ms
    if max(below_ms, above_ms) > e.rtt_tolerance_ms:
        return f"RTT of the idle path must be {wanted:g} ms, found {e.rtt_ms:g} ms"
    return None


def _algorithm(e: Evidence) -> str | None:
    wrong = [
        f"{flow.name} must use {flow.wanted}, found {', '.join(flow.found) or 'no connection'}"
        for flow in e.flows
        if flow.found != [flow.wanted]
    ]
    return "; ".join(wrong) or None


def _packet_size(e: Evidence) -> str | None:
    mean = e.traffic.largest_mean_packet_bytes
    if e.promise.single_packets and mean > FRAME_BYTES:
        return (
            f"mean packet must be at most {FRAME_BYTES} bytes on every link, found {mean:.0f}: "
            "loss would hit aggregates, not packets"
        )
    return None


def _bypassed(e: Evidence) -> str | None:
    if e.bypassed:
        return (
            "everything that the sender sends must pass the bottleneck, found "
            f"{e.bypassed} packets on the way over r3: a program on the receiver must use the "
            f"address {RECEIVER_ADDRESS}"
        )
    return None


def _conservation(e: Evidence) -> str | None:
    t = e.traffic
    if t.sender_drops and e.promise.loss_at_sender_percent is None:
        return f"the sender's own qdisc must drop nothing, found {t.sender_drops} packets"
    # With offloads on, a bucket smaller than an aggregate segments it: counts do not compare.
    if e.promise.single_packets and t.unexplained != 0:
        return (
            "packets sent must equal packets received plus those that the emulator dropped, found "
            f"{t.sent} sent, {t.received} received, {t.bottleneck_drops} dropped at the "
            f"bottleneck, {t.link_drops} by the trace-driven link, {t.policer_drops} by the "
            f"policer, {t.loss_drops} lost, {t.duplicates} made twice: {t.unexplained} unexplained"
        )
    return None


def _conservation_back(e: Evidence) -> str | None:
    t = e.traffic
    if e.promise.single_packets and t.unexplained_back != 0:
        return (
            "packets sent back must equal packets received plus those that the emulator dropped, "
            f"found {t.sent_back} sent, {t.received_back} received, {t.loss_back_drops} lost, "
            f"{t.acks_thinned} thinned out: {t.unexplained_back} unexplained"
        )
    return None


def _loss_rate(e: Evidence) -> str | None:
    if e.promise.mean_rate_mbit is not None:
        return None  # by phases, in `phases`
    if e.promise.loss_at_sender_percent is not None:
        return _loss_at_sender(e, e.promise.loss_at_sender_percent)
    t = e.traffic
    burst = e.promise.loss_run_packets
    return outside_interval("loss", e.promise.loss_percent, t.loss_offered, t.loss_drops, burst)


def _loss_rate_back(e: Evidence) -> str | None:
    if e.promise.mean_rate_mbit is not None:
        return None
    t = e.traffic
    offered = t.received_back + t.link_back_drops + t.loss_back_drops
    burst = e.promise.loss_run_packets
    return outside_interval(
        "loss on the way back", e.promise.loss_back_percent, offered, t.loss_back_drops, burst
    )


def _loss_at_sender(e: Evidence, percent: float) -> str | None:
    """Judge by a bound: aggregates are not counted, nor those for which netem had no room."""
    p, drops = percent / 100, e.traffic.sender_drops
    least = p * e.traffic.sent / AGGREGATE_PACKETS_MAX
    least -= Z * math.sqrt(least)
    if drops < least:
        return (
            f"the sender's netem must lose {percent:g} % of at least "
            f"{e.traffic.sent // AGGREGATE_PACKETS_MAX} aggregates, found {drops} lost"
        )
    return None


def _goodput(e: Evidence) -> str | None:
    rate_mbit = e.promise.mean_rate_mbit or e.promise.rate_mbit
    if e.goodput_mbit > rate_mbit:
        return (
            f"the receiver cannot be faster than the link's {rate_mbit:g} Mbit/s, "
            f"found {e.goodput_mbit:.1f}"
        )
    return None


def _memory(e: Evidence) -> str | None:
    if e.traffic.memory_pressures:
        return f"TCP memory pressure must not occur, found {e.traffic.memory_pressures} times"
    return None


def _limited(e: Evidence) -> str | None:
    wrong = []
    for flow in e.flows:
        share = flow.buffer_limited_share
        if not e.promise.window_may_limit:
            share += flow.window_limited_share
        if flow.bulk and share > LIMITED_SHARE_MAX:
            wrong.append(f"{100 * share:.1f} % of the busy time of {flow.name}")
    if wrong:
        return f"send and receive buffers must not limit a flow, found {'; '.join(wrong)} limited"
    return None


def _unexplained_counts(e: Evidence) -> str | None:
    """Say what was counted that only mechanisms do that the path does not have."""
    explained = {name for each in e.promise.mechanisms for name in each.explains}
    counts = {name: getattr(e.traffic, name) for name in OF_SOME_PATHS if name not in explained}
    del counts["acks_seen"], counts["others"]
    wrong = [f"{name} {count}" for name, count in counts.items() if count]
    return f"this path must have none of these packets, found {', '.join(wrong)}" if wrong else None
