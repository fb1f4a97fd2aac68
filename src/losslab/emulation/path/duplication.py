"""Duplication: data packets that arrive twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from losslab.emulation.mechanism import Line, Mechanism, outside_interval
from losslab.study.axes import axis

if TYPE_CHECKING:
    from losslab.emulation.accounts import Traffic
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Duplication(Mechanism):
    """Data packets that come twice, in percent."""

    duplicate_percent: float = 0.0

    order = 5
    of_lines = with_others = True
    explains = ("duplicates",)
    after = "reorder_ms"
    axes = {
        "duplicate_percent": axis(
            0.0,
            help="data packets that come twice",
            span="[0, 100)", unit="% of packets", named="twice{}",
        )
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        lossy = condition.loss_percent > 0 and condition.loss_direction != "back"
        if condition.duplicate_percent > 0 and lossy:
            yield (
                "duplicate_percent needs a way of data without loss: netem draws a packet's loss "
                f"and its copy together, found loss_percent {condition.loss_percent:g}"
            )

    def on_line(self, condition: Condition, way: str, its: Line) -> Line:
        if way != "data":
            return its
        percent = self.duplicate_percent
        option = (f"duplicate {percent:.10g}%", {"duplicate.duplicate": percent / 100})
        return replace(its, options=(*its.options, option))

    def reasons(self, e: Evidence) -> Iterator[str | None]:
        t, percent = e.traffic, self.duplicate_percent
        sent = t.received - t.duplicates
        yield outside_interval("packets made twice", percent, sent, t.duplicates)

    def summary(self, t: Traffic) -> dict[str, float]:
        return {"duplicate_packets": t.duplicates}


FEATURE = Duplication()
