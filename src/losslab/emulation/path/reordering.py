"""Reordering: data packets that arrive before their turn.

A second netem is behind the first: what it picks goes at once, what it does not pick waits for as
long as the others come later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from losslab.emulation.mechanism import Line, Mechanism, outside_interval
from losslab.study.axes import axis

if TYPE_CHECKING:
    from losslab.emulation.accounts import Traffic
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Reordering(Mechanism):
    """How many data packets come early, in percent, and by how much."""

    early_percent: float = 0.0
    early_ms: float = 0.0

    order = 4
    of_lines = with_others = True
    explains = ("reordered",)
    after = "jitter_order"
    axes = {
        "reorder_percent": axis(
            0.0,
            help="data packets that come `reorder_ms` before their turn",
            span="[0, 100)", unit="% of packets", named="reorder{}",
        ),
        "reorder_ms": axis(
            5.0,
            help="by how much; at most half of the RTT",
            span="[0.01, 1000]", unit="ms", named="early{}",
        ),
    }  # fmt: skip

    def of(self, condition: Condition) -> Self:
        early_ms = condition.reorder_ms if condition.reorder_percent else 0.0
        return replace(self, early_percent=condition.reorder_percent, early_ms=early_ms)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.reorder_percent > 0 and condition.reorder_ms > condition.rtt_ms / 2:
            yield (
                f"reorder_ms must be at most half of rtt_ms, {condition.rtt_ms / 2:g} here, found "
                f"{condition.reorder_ms:g}"
            )

    def on_line(self, condition: Condition, way: str, its: Line) -> Line:
        """Move a part of the data's delay into a second netem."""
        if way != "data":
            return its
        expected = {"reorder.reorder": self.early_percent / 100, "gap": 1}
        option = (f"reorder {self.early_percent:.10g}% gap 1", expected)
        behind = (*its.behind, ("early", self.early_ms, option))
        return replace(its, delay_ms=its.delay_ms - self.early_ms, behind=behind)

    @property
    def below_ms(self) -> float:
        return self.early_ms

    def reasons(self, e: Evidence) -> Iterator[str | None]:
        t = e.traffic
        yield outside_interval("early packets", self.early_percent, t.received, t.reordered)

    def summary(self, t: Traffic) -> dict[str, float]:
        return {"reordered_packets": t.reordered}


FEATURE = Reordering()
