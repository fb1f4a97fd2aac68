"""Packet duplication: data packets that arrive twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from losslab.emulation.mechanism import Mechanism, NetemLink, outside_acceptance_interval
from losslab.emulation.qdiscs import percent
from losslab.study.axes import MIN_PERCENT, axis

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Duplication(Mechanism):
    """Duplication of a percentage of data packets."""

    duplicate_percent: float = 0.0

    order = 5
    needs_netem_links = True
    counted = {"duplicate_packets": "duplicates"}
    axes = {
        "duplicate_percent": axis(
            0.0,
            help="data packets that arrive twice",
            span="[0, 100)", smallest=MIN_PERCENT, unit="% of packets", named="twice{}",
        )
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        lossy = condition.loss_percent > 0 and condition.loss_direction != "back"
        if condition.duplicate_percent > 0 and lossy:
            yield (
                "duplicate_percent needs a forward path without loss, because netem draws loss and "
                f"duplication together; found loss_percent {condition.loss_percent:g}"
            )

    def on_netem_link(self, condition: Condition, direction: str, link: NetemLink) -> NetemLink:
        if direction != "data":
            return link
        share = self.duplicate_percent / 100
        return link.plus(f"duplicate {percent(share)}", {"duplicate.duplicate": share})

    def violations(self, e: Evidence) -> Iterator[str | None]:
        t = e.traffic
        sent = t.received - t.duplicates
        yield outside_acceptance_interval(
            "duplicated packets", self.duplicate_percent, sent, t.duplicates
        )


FEATURE = Duplication()
