"""Physical bounds of a run's metrics that follow from its condition alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from losslab.emulation.flows.outcome import MIN_WINDOW_S
from losslab.emulation.shaping import OFFLOADED_FRAME_BYTES, bucket_bytes, exact
from losslab.study import metrics, packetsizes, schedule
from losslab.study.axes import NONE
from losslab.study.condition import NO_TRACE, Condition

RATE_UNIT = "Mbit/s"
# Recorded numbers have six digits.
ROUNDING = 1e-5
# Share by which a token bucket that pauses fill again may exceed its rate (`path/pauses.py`).
REFILLED_SHARE = 0.01


def above_links(summary: Mapping[str, Any], condition: Condition) -> list[str]:
    """Return an error for each metric in Mbit/s that is above what the links carry in its time.

    The metrics are those declared in this unit. Their limit is the sum of the rates of all links
    with a rate, which is the bottleneck's on most paths, and one packet, which was under way when
    the window began. A trace is a link without a constant rate: its link sends nothing but at its
    delivery opportunities.
    """
    if condition.trace != NO_TRACE:
        return []
    start = {name: getattr(condition, name) for name in schedule.SET}
    phases = schedule.phases(condition.changes, start)
    most_mbit = max(phase.values["rate_mbit"] for phase in phases)
    most_mbit += condition.second_rate_mbit + condition.reverse_rate_mbit
    limit_mbit = most_mbit + _more_mbit(summary, condition, phases, most_mbit)
    return [
        f"{name} must be at most {limit_mbit:g} Mbit/s on links of {most_mbit:g} Mbit/s, found "
        f"{value:g}"
        for name, value in sorted(summary.items())
        if isinstance(value, int | float) and (metric := metrics.get(name)) is not None
        if metric.unit == RATE_UNIT
        if not value <= limit_mbit * (1 + ROUNDING)
    ]


def _more_mbit(
    summary: Mapping[str, Any], condition: Condition, phases: list[schedule.Phase], most_mbit: float
) -> float:
    """Return by how much a rate may exceed the links', because bytes passed them earlier.

    What is counted in a window passed the bottleneck in one of the same length, if the delay from
    there is constant. Bytes of a delay that falls, and of acknowledgements that are lost or wait,
    passed it before.
    """
    single = condition.offloads == "off"
    frame = packetsizes.of(condition).frame_bytes
    octets = float(frame if single else OFFLOADED_FRAME_BYTES)
    octets += (summary.get("duplicate_packets") or 0) * frame
    if not exact(condition):
        octets += len(phases) * bucket_bytes(frame, single)
        if condition.pauses != NONE:
            octets += REFILLED_SHARE * most_mbit * 1e6 / 8 * condition.duration_s
    rtts_ms = [phase.values["rtt_ms"] for phase in phases]
    early_s = (max(rtts_ms) - min(rtts_ms) + condition.jitter_ms + condition.data_batch_ms) / 1e3
    if condition.reorder_percent:
        early_s += condition.reorder_ms / 1e3
    late = (
        (condition.loss_direction != "data" and condition.loss_percent > 0)
        or max(phase.values["loss_percent"] for phase in phases) > condition.loss_percent
        or any(phase.outage for phase in phases)
        or condition.ack_thinning > 1
        or condition.ack_batch_ms > 0
        or condition.reverse_rate_mbit > 0
        or "ack" in condition.drop_list
    )
    if late:
        early_s = max(early_s, condition.warmup_s)
    octets += early_s * most_mbit * 1e6 / 8
    shortest_s = min(
        condition.duration_s - condition.warmup_s,
        MIN_WINDOW_S,
        summary.get("completion_s") or condition.duration_s,
    )
    return octets * 8 / 1e6 / shortest_s
