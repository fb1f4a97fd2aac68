"""The part of a trace that a run uses: where it starts, its capacity, and the share used.

Traces of config/traces that start at 0 s, and drawn traces, do not have these metrics: their
replicates would not be those of earlier versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.link import exact, tracelink
from losslab.emulation.mechanism import Mechanism, MechanismResult
from losslab.study.axes import DRAWN_TRACE, NONE, axis

if TYPE_CHECKING:
    from losslab.emulation.outcome import Observations
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class TracePart(Mechanism):
    """Start of the traces, and metrics of their part that the run uses."""

    order = 0.5
    axes = {
        "trace_start_s": axis(
            0.0,
            help="time of the files of `trace` and `trace_back` at which the run starts; after "
            "their last line they repeat from 0 s",
            span="[0, 86400)", smallest=0.001, unit="s", named="from{}",
        )
    }  # fmt: skip

    def used(self, condition: Condition) -> bool:
        """Return whether the trace is a user's file or has a start."""
        return self.on(condition) or "@" in condition.trace

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.trace_start_s > 0 and condition.trace in (NONE, DRAWN_TRACE):
            yield f"trace_start_s needs a file as trace, found {condition.trace}"

    def plan(self, condition: Condition, seed: int) -> dict[str, Any]:
        return {exact.START: round(condition.trace_start_s * 1e3)}

    def note(self, plan: Plan, observations: Observations, folder: Path) -> MechanismResult:
        origin_ns = observations.run.timeline.origin_ns - observations.noted["link_begin_ns"]
        begin_ms, end_ms = origin_ns / 1e6, origin_ns / 1e6 + plan.duration_s * 1e3
        path = folder.parent / plan.parts["links"][0].file
        times = tracelink.parse(path.read_text(), str(path))
        capacity = tracelink.capacity_bytes(times, begin_ms, end_ms, plan.parts[exact.START])
        events = (line.split() for line in (folder / tracelink.LOG).read_text().splitlines())
        carried = sum(
            int(octets)
            for at_ms, kind, octets, *_ in events
            if kind == "-" and begin_ms <= int(at_ms) <= end_ms
        )
        return MechanismResult({
            "link_capacity_mbit": capacity * 8 / 1e3 / (end_ms - begin_ms),
            # The first packet may have been sent in part before.
            "link_utilisation_percent": min(100.0, 100 * carried / capacity) if capacity else None,
        })  # fmt: skip


FEATURE = TracePart()
