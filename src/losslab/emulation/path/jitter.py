"""Jitter: further delay of each data packet, drawn evenly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from losslab.emulation.mechanism import FALSE_ALARM, Line, Mechanism, Option
from losslab.study.axes import axis

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition

# With a rate, netem never sends a packet before those that came before it (netem_enqueue,
# net/sched/sch_netem.c); with one so high that a full packet takes 12 ns of it.
IN_ORDER_RATE = "1000gbit"
IN_ORDER_BYTES_PER_S = 125_000_000_000


@dataclass(frozen=True)
class Jitter(Mechanism):
    """Further delay in ms, drawn evenly from 0 to this."""

    jitter_ms: float = 0.0

    order = 3
    of_lines = with_others = True
    after = "loss_burst_packets"
    axes = {
        "jitter_ms": axis(
            0.0,
            help="further delay of each data packet, drawn evenly from 0 to this",
            span="[0, 1000]", unit="ms", named="jitter{}",
        ),
        "jitter_order": axis(
            "kept",
            help="whether packets of other delays overtake",
            choices={"kept": "no: who comes behind a late one waits", "mixed": "yes"},
            named="jitter-{}",
        ),
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        order = condition.jitter_order
        if order != "kept" and condition.jitter_ms == 0:
            yield f"jitter_order {order} needs a jitter_ms, found none"

    def on_line(self, condition: Condition, way: str, its: Line) -> Line:
        """Delay data by as much in the mean, and more or less by up to as much."""
        if way != "data":
            return its
        around_ns = round(self.jitter_ms / 2 * 1e6)
        # Right behind `delay TIME`, where tc looks for it.
        options: list[Option] = [(f"{around_ns}ns", {"delay.jitter": around_ns / 1e9})]
        if condition.jitter_order == "kept":
            options.append((f"rate {IN_ORDER_RATE}", {"rate.rate": IN_ORDER_BYTES_PER_S}))
        return replace(
            its, delay_ms=its.delay_ms + self.jitter_ms / 2, options=(*options, *its.options)
        )

    @property
    def above_ms(self) -> float:
        return self.jitter_ms

    def reasons(self, e: Evidence) -> Iterator[str | None]:
        if not e.idle_ms:
            return
        spread_ms, least_ms = max(e.idle_ms) - min(e.idle_ms), self._spread_least_ms(len(e.idle_ms))
        most_ms = self.jitter_ms + e.promise.below_ms + e.rtt_tolerance_ms
        if not least_ms <= spread_ms <= most_ms:
            yield (
                f"RTTs of the idle path must differ by {least_ms:.3g} to {most_ms:.3g} ms, with a "
                f"jitter of {self.jitter_ms:g} ms, found {spread_ms:.3g} ms between "
                f"{len(e.idle_ms)} of them"
            )

    def _spread_least_ms(self, count: int) -> float:
        """Return a range that so many evenly drawn numbers miss once in 1 / FALSE_ALARM times.

        The chance that n of them lie within a share x is n x^(n-1) - (n-1) x^n, less than n x^(n-1)
        (David and Nagaraja, Order Statistics, section 2.3).
        """
        if count < 2:
            return 0.0
        return float(self.jitter_ms * (FALSE_ALARM / count) ** (1 / (count - 1)))


FEATURE = Jitter()
