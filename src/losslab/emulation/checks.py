"""Validity checks of a replicate: pure functions from evidence to violations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from losslab.emulation.accounting import OPTIONAL_COUNTS, Traffic
from losslab.emulation.goodput import Goodput
from losslab.emulation.mechanism import Z, outside_acceptance_interval
from losslab.emulation.qdiscs import UNLIMITED
from losslab.emulation.topology import RECEIVER_ADDRESS
from losslab.study.axes import OWN
from losslab.study.packetsizes import AGGREGATE_BYTES, DEFAULT

if TYPE_CHECKING:
    from losslab.emulation.plan import PathSpec
    from losslab.emulation.probes import QueueSample
    from losslab.emulation.qdiscs import LinkStep

# netem rounds delays to ticks of 64 ns. Each clock read of a probe takes 256 ns of virtual time
# (TIMER_MULTIPLIER, arch/um/kernel/time.c).
RTT_TOLERANCE_SHARE = 0.001
RTT_TOLERANCE_MS = 0.003
# In real time, timers and wake-ups at every hop are some microseconds late, and never early.
REAL_TIME_RTT_SHARE = 0.01
REAL_TIME_RTT_MS = 0.1
# A window or buffer that limits a flow for less than this share of its time changes the mean by
# less than the variation between replicates.
LIMITED_SHARE_MAX = 0.02


@dataclass(frozen=True)
class FlowEvidence:
    """Kernel statistics of a flow's connections."""

    name: str
    wanted: str  # the flow's congestion control
    found: list[str]  # congestion controls of its connections
    # Share of the busy time in which the receiver's window or the sender's buffer limited it.
    window_limited_share: float
    buffer_limited_share: float
    # A bulk flow: no window or buffer may limit it.
    bulk: bool = True


@dataclass(frozen=True)
class Evidence:
    """Input of the checks."""

    path_spec: PathSpec
    rtt_ms: float | None  # fastest ping on the idle path
    # Reported goodputs; each must be possible on the path. Empty if the programs failed.
    goodputs: Sequence[Goodput]
    flows: list[FlowEvidence]
    traffic: Traffic
    max_rate_mbit: float  # highest rate of the bottleneck during the traffic
    real_time: bool = False
    idle_ms: Sequence[float] = ()  # all pings on the idle path
    accurate_ecn: bool = False  # every connection of the flows negotiated Accurate ECN
    bypassed: int = 0  # packets from the sender that did not pass the bottleneck
    queue: Sequence[QueueSample] = ()  # of the bottleneck
    # Acknowledged bytes of the app's TCP flows up to the configured end, by flow.
    delivered_bytes: Mapping[str, int] = field(default_factory=dict)
    buckets: int = 1  # times that the bottleneck's bucket was filled at once
    rates: Sequence[LinkStep] = ()  # of the bottleneck, if it is an exact link

    @property
    def rtt_tolerance_ms(self) -> float:
        """Return the tolerance for the RTT of the idle path."""
        base_ms = self.path_spec.rtt_ms
        if self.real_time:
            return REAL_TIME_RTT_MS + REAL_TIME_RTT_SHARE * base_ms
        return max(RTT_TOLERANCE_MS, RTT_TOLERANCE_SHARE * base_ms)


def violations(evidence: Evidence) -> list[str]:
    """List the violations that make the replicate invalid; empty if it is valid."""
    lines: list[str | None] = [line for check in CHECKS for line in check(evidence)]
    for mechanism in evidence.path_spec.mechanisms:
        lines += mechanism.violations(evidence)
    return [line for line in lines if line]


def _of_path(e: Evidence) -> Iterator[str]:
    path, tolerance_ms = e.path_spec, e.rtt_tolerance_ms
    low_ms, high_ms = -path.effect.below_ms - tolerance_ms, path.effect.above_ms + tolerance_ms
    # The fastest of about 20 pings. Reordering makes some early; jitter may delay all of them.
    if e.rtt_ms is None:
        yield f"ping must measure an RTT of {path.rtt_ms:g} ms, found no reply"
    # On an exact link, each ping takes its bytes over the rate. A token bucket is full then.
    elif not low_ms <= e.rtt_ms - (base_ms := path.rtt_ms + path.ping_ms) <= high_ms:
        yield f"RTT of the idle path must be {base_ms:g} ms, found {e.rtt_ms:g} ms"
    if e.bypassed:
        yield (
            f"every packet from the sender must pass the bottleneck, found {e.bypassed} packets "
            f"sent over r3: a program on the receiver must use the address {RECEIVER_ADDRESS}"
        )


def _of_goodput(e: Evidence) -> Iterator[str]:
    path, received = e.path_spec, e.traffic.received
    packet_bytes = path.sizes.mtu_bytes if path.single_packets else AGGREGATE_BYTES
    for goodput in e.goodputs:
        mean_mbit = path.effect.mean_rate_mbit or path.rate_mbit
        rate_mbit = mean_mbit if goodput.in_window else e.max_rate_mbit
        if path.exact and path.by_trace:
            rate_mbit = math.inf  # the trace is the rate
        # The first packet of a window began before it.
        burst_bytes = e.buckets * path.bucket_bytes + path.packet_bytes
        burst_mbit = burst_bytes * 8 / 1e6 / goodput.seconds if goodput.seconds else 0.0
        # "not at most" is true for nan, too.
        if not goodput.mbit <= rate_mbit + burst_mbit:
            full = "" if path.exact else " and full buckets"
            more = f", or {burst_mbit:g} more with one packet{full}, {burst_bytes} bytes"
            yield (
                f"goodput must be at most the link's {rate_mbit:g} Mbit/s{more}, found "
                f"{goodput.mbit:g}"
            )
        octets = goodput.mbit * 1e6 / 8 * goodput.seconds
        if not octets <= received * packet_bytes:
            yield (
                f"goodput must be at most what reached the receiver's link, {received} packets of "
                f"at most {packet_bytes} bytes, found {goodput.mbit:g} Mbit/s for "
                f"{goodput.seconds:g} s, {octets:.0f} bytes"
            )


def excess_bytes(rates: Sequence[LinkStep], queue: Sequence[QueueSample]) -> float:
    """Return by how many bytes any window between two samples exceeded a link's rate, at most.

    `rates` has the link's list; its 0 is that of the samples' clock. Whole nanoseconds and integers
    are exact: a full window with one packet has no byte more.
    """
    lowest, worst, possible, number = None, 0, 0, 0  # bits x 1e9
    now_ns = round(queue[0].t_s * 1e9) if queue else 0
    for sample in queue:
        sample_ns = round(sample.t_s * 1e9)
        while number + 1 < len(rates) and (step_ns := rates[number + 1].at_ns) <= sample_ns:
            possible += rates[number].rate * max(0, step_ns - now_ns)
            now_ns, number = max(now_ns, step_ns), number + 1
        possible += rates[number].rate * (sample_ns - now_ns)
        now_ns = sample_ns
        ahead = 8 * 10**9 * sample.sent_bytes - possible
        lowest = ahead if lowest is None else min(lowest, ahead)
        worst = max(worst, ahead - lowest)
    return worst / 8e9


def _of_bottleneck(e: Evidence) -> Iterator[str]:
    if not e.rates or e.rates[0].rate == UNLIMITED:
        return
    most = e.path_spec.sizes.frame_bytes
    if (excess := excess_bytes(e.rates, e.queue)) > most:
        yield (
            "no window of the bottleneck may carry more than its rate times its length and one "
            f"packet of {most} bytes, found {excess:.0f} bytes more"
        )


def _of_packets(e: Evidence) -> Iterator[str]:
    t, mean = e.traffic, e.traffic.largest_mean_packet_bytes
    if t.sender_drops and e.path_spec.loss_at_sender_percent is None:
        yield f"the sender's own qdisc must drop nothing, found {t.sender_drops} packets"
    explained = {name for each in e.path_spec.mechanisms for name in each.explains}
    counts = {name: getattr(t, name) for name in OPTIONAL_COUNTS if name not in explained}
    del counts["acks_seen"], counts["sender_losses"], counts["others"]
    wrong = [f"{name} {count}" for name, count in counts.items() if count]
    if wrong:
        yield f"this path must have none of these packets, found {', '.join(wrong)}"
    # With offloads on, a token bucket segments aggregates that are larger than it. Packet counts
    # before and after it are then not comparable.
    if not e.path_spec.single_packets:
        return
    if mean > (frame := e.path_spec.sizes.frame_bytes):
        yield (
            f"mean packet must be at most {frame} bytes on every link, found {mean:.0f}: "
            "loss would hit aggregates, not packets"
        )
    if t.unexplained and not (t.sender_drops and e.path_spec.loss_at_sender_percent is None):
        yield (
            "packets sent must equal packets received plus those that the emulator dropped, found "
            f"{t.sent} sent, {t.received} received, {t.bottleneck_drops} dropped at the "
            f"bottleneck, {t.policer_drops} by the policer, {t.loss_drops} lost, {t.queued} still "
            f"queued, {t.duplicates} duplicated: {t.unexplained} unexplained"
        )
    if t.unexplained_back:
        yield (
            "packets sent on the reverse path must equal packets received plus those that the "
            f"emulator dropped, found {t.sent_back} sent, {t.received_back} received, "
            f"{t.loss_back_drops} lost, {t.acks_thinned} thinned out: {t.unexplained_back} "
            "unexplained"
        )


def _of_loss(e: Evidence) -> Iterator[str | None]:
    t, path = e.traffic, e.path_spec
    if path.effect.mean_rate_mbit is not None:
        return  # checked by phase in `schedule_runner`
    if "data" not in path.effect.checked_losses and path.loss_at_sender_percent is None:
        offered, run = t.loss_offered, path.effect.loss_run_packets
        yield outside_acceptance_interval("loss", path.loss_percent, offered, t.loss_drops, run)
    if path.loss_at_sender_percent is not None:
        # A lower bound: smaller aggregates, and those that netem's full queue drops, are not
        # counted. A sender's own qdisc sees aggregates also without offloads.
        full = AGGREGATE_BYTES // path.sizes.segment_bytes
        aggregates = t.sent // full
        minimum = path.loss_at_sender_percent / 100 * t.sent / full
        if t.sender_drops < minimum - Z * math.sqrt(minimum):
            yield (
                f"the sender's netem must lose {path.loss_at_sender_percent:g} % of at least "
                f"{aggregates} aggregates, found {t.sender_drops} lost"
            )
    if "back" not in path.effect.checked_losses:
        offered = t.received_back + t.link_back_drops + t.loss_back_drops
        yield outside_acceptance_interval(
            "loss on the reverse path", path.loss_back_percent, offered, t.loss_back_drops,
            path.effect.loss_run_packets,
        )  # fmt: skip


def _of_flows(e: Evidence) -> Iterator[str]:
    wrong = [
        f"{flow.name} must use {flow.wanted}, found {', '.join(flow.found) or 'no connection'}"
        for flow in e.flows
        if flow.wanted != OWN and flow.found != [flow.wanted]
    ]
    if wrong:
        yield "; ".join(wrong)
    for name, octets in e.delivered_bytes.items():
        # Not even a starved flow: no acknowledgement has ever reached its congestion control. Slow
        # applications do not fill larger segments.
        if octets < (full := min(e.path_spec.sizes.segment_bytes, DEFAULT.segment_bytes)):
            yield (
                f"{name} must deliver at least one full segment ({full} bytes) before the "
                f"configured end, found {octets} bytes acknowledged: nothing can be said about "
                "its congestion control; the run is too short for the path, or the path loses or "
                "thins out too many packets"
            )
    if e.traffic.memory_pressures:
        yield f"TCP memory pressure must not occur, found {e.traffic.memory_pressures} times"
    limited = []
    for flow in e.flows:
        share = 0.0 if e.path_spec.buffer_may_limit else flow.buffer_limited_share
        if not e.path_spec.window_may_limit:
            share += flow.window_limited_share
        if flow.bulk and share > LIMITED_SHARE_MAX:
            limited.append(f"{100 * share:.1f} % of the busy time of {flow.name}")
    if limited:
        yield f"send and receive buffers must not limit a flow, found {'; '.join(limited)} limited"


CHECKS = (_of_path, _of_goodput, _of_bottleneck, _of_packets, _of_loss, _of_flows)
