"""Reordering: data packets that arrive before their turn.

A second netem follows the first. It forwards the selected packets at once and delays all others by
`early_ms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from losslab.emulation.mechanism import (
    Effect,
    Mechanism,
    NetemLink,
    outside_acceptance_interval,
)
from losslab.emulation.qdiscs import percent
from losslab.study.axes import MIN_PERCENT, axis

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Reordering(Mechanism):
    """Reordering of a percentage of data packets, each early by a fixed time."""

    early_percent: float = 0.0
    early_ms: float = 0.0

    order = 4
    needs_netem_links = True
    counted = {"reordered_packets": "reordered"}
    axes = {
        "reorder_percent": axis(
            0.0,
            help="data packets that arrive `reorder_ms` before their turn",
            span="[0, 100)", smallest=MIN_PERCENT, unit="% of packets", named="reorder{}",
        ),
        "reorder_ms": axis(
            5.0,
            help="time by which reordered packets are early; at most half of the RTT",
            span="[0.01, 1000]", unit="ms", named="early{}",
        ),
    }  # fmt: skip

    def of(self, condition: Condition) -> Self:
        early_ms = condition.reorder_ms if condition.reorder_percent else 0.0
        return replace(self, early_percent=condition.reorder_percent, early_ms=early_ms)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.reorder_percent > 0 and condition.reorder_ms > condition.rtt_ms / 2:
            yield (
                f"reorder_ms must be at most half of rtt_ms ({condition.rtt_ms / 2:g}), found "
                f"{condition.reorder_ms:g}"
            )

    def on_netem_link(self, condition: Condition, direction: str, link: NetemLink) -> NetemLink:
        """Move `early_ms` of the forward path's delay into a second netem."""
        if direction != "data":
            return link
        share = self.early_percent / 100
        option = (f"reorder {percent(share)} gap 1", {"reorder.reorder": share, "gap": 1})
        children = (*link.children, ("early", self.early_ms, option))
        return replace(link, delay_ms=link.delay_ms - self.early_ms, children=children)

    def effect(self, condition: Condition) -> Effect:
        return Effect(below_ms=self.early_ms)

    def violations(self, e: Evidence) -> Iterator[str | None]:
        t = e.traffic
        yield outside_acceptance_interval(
            "early packets", self.early_percent, t.received, t.reordered
        )


FEATURE = Reordering()
