"""Jitter: extra delay of each data packet, uniformly distributed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from losslab.emulation.mechanism import FALSE_ALARM, Effect, Mechanism, NetemLink, Option
from losslab.emulation.qdiscs import JITTER
from losslab.study.axes import MIN_MS, axis

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition

# With a rate, netem keeps packets in order (netem_enqueue, net/sched/sch_netem.c). At this rate a
# full packet takes 12 ns.
IN_ORDER_RATE = "1000gbit"
IN_ORDER_BYTES_PER_S = 125_000_000_000


@dataclass(frozen=True)
class Jitter(Mechanism):
    """Extra delay, uniformly distributed between 0 and `jitter_ms`."""

    jitter_ms: float = 0.0

    order = 3
    needs_netem_links = True
    axes = {
        "jitter_ms": axis(
            0.0,
            help="extra delay of each data packet, uniformly distributed between 0 and this value",
            span="[0, 1000]", smallest=MIN_MS, unit="ms", named="jitter{}",
        ),
        "jitter_order": axis(
            "kept",
            help="whether packets with a shorter delay overtake others",
            choices={"kept": "no: packets stay in order", "mixed": "yes"},
            named="jitter-{}",
        ),
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        order = condition.jitter_order
        if order != "kept" and condition.jitter_ms == 0:
            yield f"jitter_order {order} needs a jitter_ms above 0"

    def on_netem_link(self, condition: Condition, direction: str, link: NetemLink) -> NetemLink:
        """Add a mean delay of half the jitter, and vary it by the same amount."""
        if direction != "data":
            return link
        around_ns = round(self.jitter_ms / 2 * 1e6)
        # tc expects the variation right after `delay TIME`.
        options: list[Option] = [(f"{around_ns}ns", {JITTER: around_ns / 1e9})]
        if condition.jitter_order == "kept":
            options.append((f"rate {IN_ORDER_RATE}", {"rate.rate": IN_ORDER_BYTES_PER_S}))
        return replace(
            link, delay_ms=link.delay_ms + self.jitter_ms / 2, options=(*options, *link.options)
        )

    def effect(self, condition: Condition) -> Effect:
        return Effect(above_ms=self.jitter_ms)

    def violations(self, e: Evidence) -> Iterator[str | None]:
        """Compare the range of the idle pings with that of uniform draws.

        Batches release a packet at the end of its slot, up to their length after it was ready. They
        may hide as much of the jitter, or add as much to its range: a slot that is longer than the
        delay begins when a lone packet comes, and then all of them have the same RTT.
        """
        if not e.idle_ms:
            return
        batches_ms = max(0.0, e.path_spec.effect.above_ms - self.jitter_ms)
        spread_ms = max(e.idle_ms) - min(e.idle_ms)
        min_ms = max(0.0, self._min_spread_ms(len(e.idle_ms)) - batches_ms)
        max_ms = self.jitter_ms + batches_ms + e.path_spec.effect.below_ms + e.rtt_tolerance_ms
        if not min_ms <= spread_ms <= max_ms:
            yield (
                f"idle RTTs must spread over {min_ms:.3g} to {max_ms:.3g} ms with a jitter of "
                f"{self.jitter_ms:g} ms, found {spread_ms:.3g} ms over {len(e.idle_ms)} pings"
            )

    def _min_spread_ms(self, count: int) -> float:
        """Return the range that `count` uniform draws fall below with probability FALSE_ALARM.

        The probability that n draws lie within a fraction x of the range is n x^(n-1) - (n-1) x^n,
        less than n x^(n-1) (David and Nagaraja, Order Statistics, section 2.3).
        """
        if count < 2:
            return 0.0
        return float(self.jitter_ms * (FALSE_ALARM / count) ** (1 / (count - 1)))


FEATURE = Jitter()
