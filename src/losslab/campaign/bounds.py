"""Physical bounds of a run's metrics that follow from its condition alone."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from losslab.campaign import inputs
from losslab.emulation.flows.outcome import MIN_WINDOW_S
from losslab.emulation.link import tracelink
from losslab.emulation.shaping import OFFLOADED_FRAME_BYTES, bucket_bytes, exact
from losslab.study import metrics, packetsizes, schedule
from losslab.study.axes import DRAWN_TRACE
from losslab.study.condition import NO_TRACE, Condition

RATE_UNIT = "Mbit/s"
# Recorded numbers have six digits.
ROUNDING = 1e-5
# Mean rates of traces that are drawn for each replicate.
DRAWN_MBIT = {"trace": tracelink.MEAN_MBIT, "trace_back": tracelink.MEAN_BACK_MBIT}
# Steps in which the lengths of windows on a trace double.
WINDOWS_PER_DOUBLING = 8


def above_links(summary: Mapping[str, Any], condition: Condition) -> list[str]:
    """Return an error for each metric in Mbit/s that is above what the links carry in its time.

    The metrics are those declared in this unit. Their limit is the sum of the rates of all links
    with a rate, which is the bottleneck's on most paths, and one packet, which was under way when
    the window began. A token bucket may also send what it has saved. A trace may send its
    opportunities; if its file is not here, the limit is not known.
    """
    start = {name: getattr(condition, name) for name in schedule.SET}
    phases = schedule.phases(condition.changes, start)
    early_s, shortest_s = _early_s(condition, phases), _shortest_s(summary, condition)
    rate_mbit = condition.second_rate_mbit + condition.reverse_rate_mbit
    traces_mbit, where = 0.0, []
    if condition.trace == NO_TRACE:
        rate_mbit += max(phase.values["rate_mbit"] for phase in phases)
    for axis in inputs.TRACES:
        if (trace := getattr(condition, axis)) != NO_TRACE:
            most_mbit = _trace_mbit(axis, trace, shortest_s, early_s)
            if most_mbit is None:
                return []
            traces_mbit += most_mbit
            where.append(f"a trace of at most {most_mbit:g} Mbit/s in {shortest_s:g} s")
    if rate_mbit:
        where.insert(0, f"links of {rate_mbit:g} Mbit/s")
    if saved_bytes := len(phases) * bucket_bytes(condition):
        where.append(f"{saved_bytes} bytes of full buckets")
    octets = _packets_bytes(summary, condition) + saved_bytes + early_s * rate_mbit * 1e6 / 8
    limit_mbit = rate_mbit + traces_mbit + octets * 8 / 1e6 / shortest_s
    return [
        f"{name} must be at most {limit_mbit:g} Mbit/s on {' and '.join(where)}, found {value:g}"
        for name, value in sorted(summary.items())
        if isinstance(value, int | float) and (metric := metrics.get(name)) is not None
        if metric.unit == RATE_UNIT
        if not value <= limit_mbit * (1 + ROUNDING)
    ]


def _shortest_s(summary: Mapping[str, Any], condition: Condition) -> float:
    """Return the length of the shortest window of a rate."""
    return min(
        condition.duration_s - condition.warmup_s,
        MIN_WINDOW_S,
        summary.get("completion_s") or condition.duration_s,
    )


def _packets_bytes(summary: Mapping[str, Any], condition: Condition) -> float:
    """Return the bytes of the packet under way and of duplicates, which follow the bottleneck."""
    frame = packetsizes.of(condition).frame_bytes
    single = exact(condition) or condition.offloads == "off"
    duplicates = summary.get("duplicate_packets") or 0
    return (frame if single else OFFLOADED_FRAME_BYTES) + float(duplicates * frame)


def _early_s(condition: Condition, phases: list[schedule.Phase]) -> float:
    """Return how much earlier than its window a metric's bytes may have passed the links.

    What is counted in a window passed the bottleneck in one of the same length, if the delay from
    there is constant. Bytes of a delay that falls, and of acknowledgements that are lost or wait,
    passed it before.
    """
    rtts_ms = [phase.values["rtt_ms"] for phase in phases]
    jitter_ms = condition.jitter_ms * (2 if condition.jitter_direction == "both" else 1)
    early_s = (max(rtts_ms) - min(rtts_ms) + jitter_ms + condition.data_batch_ms) / 1e3
    if condition.reorder_percent:
        early_s += condition.reorder_ms / 1e3
    late = (
        (condition.loss_direction != "data" and condition.loss_percent > 0)
        or max(phase.values["loss_percent"] for phase in phases) > condition.loss_percent
        or any(phase.outage for phase in phases)
        or condition.ack_thinning > 1
        or condition.ack_batch_ms > 0
        or condition.reverse_rate_mbit > 0
        or condition.trace_back != NO_TRACE
        or "ack" in condition.drop_list
    )
    return max(early_s, condition.warmup_s) if late else early_s


@functools.lru_cache
def _trace_mbit(axis: str, trace: str, shortest_s: float, early_s: float) -> float | None:
    """Return the highest rate of a trace in windows of at least a length; None if it is not here.

    Each window may begin `early_s` earlier. A window of twice the length or more consists of
    shorter ones, so it has no higher rate.
    """
    steps = range(WINDOWS_PER_DOUBLING)
    lengths_s = [shortest_s * math.exp2(n / WINDOWS_PER_DOUBLING) for n in (*steps, len(steps))]
    windows_ms = [(length_s + early_s) * 1e3 for length_s in lengths_s[1:]]
    if trace == DRAWN_TRACE:
        of_round = tracelink.count(DRAWN_MBIT[axis])
        most = [of_round * (1 + int(ms // tracelink.DURATION_MS)) for ms in windows_ms]
    elif times := inputs.opportunities_ms(trace):
        most = [tracelink.most_opportunities(times, ms) for ms in windows_ms]
    else:
        return None
    mbit = 8 * tracelink.OPPORTUNITY_BYTES / 1e6
    return max(count * mbit / lengths_s[n] for n, count in enumerate(most))
