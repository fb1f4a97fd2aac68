"""Jitter: random extra delay of each packet.

netem draws a number of 32 bits for each packet (`get_crandom`, net/sched/sch_netem.c of Linux
6.12). Its remainder is the delay in ns within the range, or the place in a table of a distribution
(`tabledist`). With a correlation, the number is a weighted mean of a new one and the one before.
Its remainder, the low bits, keeps almost nothing of the one before.

tc reads the table from the image (normal.dist, which iproute2's netem/normal.c makes): 4096
quantiles of the normal distribution, as 16-bit multiples of 1/8192 of its standard deviation. So
the lowest is -4 standard deviations, and the highest is 3.52.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

from losslab.emulation.mechanism import FALSE_ALARM, Effect, Mechanism, NetemLink, Option
from losslab.emulation.qdiscs import CORRELATION, JITTER, percent
from losslab.study.axes import MIN_MS, MIN_PERCENT, axis, short

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition

# With a rate, netem keeps packets in order (netem_enqueue, net/sched/sch_netem.c). At this rate a
# full packet takes 12 ns.
IN_ORDER_RATE = "1000gbit"
IN_ORDER_BYTES_PER_S = 125_000_000_000
NORMAL = "normal"
TABLE_ENTRIES = 4096
# The table of the normal distribution begins this many standard deviations below the mean.
NORMAL_SIGMAS = 4


@dataclass(frozen=True)
class Jitter(Mechanism):
    """Extra delay between 0 and `jitter_ms` of each packet, in one direction or in both."""

    jitter_ms: float = 0.0
    jitter_direction: str = "data"
    jitter_distribution: str = "uniform"
    jitter_correlation_percent: float = 0.0

    order = 3
    needs_netem_links = True
    axes = {
        "jitter_ms": axis(
            0.0,
            help="extra delay of each packet, between 0 and this value",
            span="[0, 1000]", smallest=MIN_MS, unit="ms", named="jitter{}",
        ),
        "jitter_order": axis(
            "kept",
            help="whether packets with a shorter delay overtake others",
            choices={"kept": "no: packets stay in order", "mixed": "yes"},
            named="jitter-{}",
        ),
        "jitter_direction": axis(
            "data",
            help="packets that `jitter_ms` delays; with `both`, a round trip has the sum of two "
            "such delays",
            choices={
                "data": "", "both": "data and acknowledgements", "back": "only acknowledgements",
            },
            named="jitter-of-{}",
        ),
        "jitter_distribution": axis(
            "uniform",
            help="distribution of the extra delay",
            choices={
                "uniform": "", NORMAL: "netem's table: mean `jitter_ms` / 2, standard deviation "
                "`jitter_ms` / 8",
            },
            named="jitter-{}",
        ),
        "jitter_correlation_percent": axis(
            0.0,
            help="netem's correlation of each delay with the one before; netem loses almost all of "
            "it",
            span="[0, 100)", smallest=MIN_PERCENT, unit="%", named="jitter-correlation{}",
        ),
    }  # fmt: skip

    @property
    def range_ms(self) -> float:
        """Return the difference between the slowest and the fastest round trip."""
        return self.jitter_ms * (2 if self.jitter_direction == "both" else 1)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.jitter_ms == 0:
            for name in self.changed(condition):
                value = short(getattr(condition, name))
                yield f"{name} {value} needs a jitter_ms above 0"

    def on_netem_link(self, condition: Condition, direction: str, link: NetemLink) -> NetemLink:
        """Add a mean delay of half the jitter, and vary it.

        No draw is below the direction's share of the base RTT, so netem never replaces one by 0.
        """
        if self.jitter_direction not in (direction, "both"):
            return link
        normal = self.jitter_distribution == NORMAL
        around_ns = round(self.jitter_ms / 2 / (NORMAL_SIGMAS if normal else 1) * 1e6)
        text, expected = f"{around_ns}ns", {JITTER: around_ns / 1e9}
        if correlation := self.jitter_correlation_percent / 100:
            text, expected = f"{text} {percent(correlation)}", expected | {CORRELATION: correlation}
        # tc expects the variation right after `delay TIME`. It does not print the distribution.
        options: list[Option] = [(text, expected)]
        if normal:
            options.append((f"distribution {NORMAL}", {}))
        if condition.jitter_order == "kept":
            options.append((f"rate {IN_ORDER_RATE}", {"rate.rate": IN_ORDER_BYTES_PER_S}))
        return replace(
            link, delay_ms=link.delay_ms + self.jitter_ms / 2, options=(*options, *link.options)
        )

    def effect(self, condition: Condition) -> Effect:
        return Effect(above_ms=self.range_ms)

    def violations(self, e: Evidence) -> Iterator[str | None]:
        """Compare the range of the idle pings with that of as many draws.

        The sum of two independent draws has no smaller range than one of them, with the same
        probability.

        Batches release a packet at the end of its slot, up to their length after it was ready. They
        may hide as much of the jitter, or add as much to its range: a slot that is longer than the
        delay begins when a lone packet comes, and then all of them have the same RTT.
        """
        if not e.idle_ms:
            return
        batches_ms = max(0.0, e.path_spec.effect.above_ms - self.range_ms)
        spread_ms = max(e.idle_ms) - min(e.idle_ms)
        min_ms = max(0.0, self._min_spread_ms(len(e.idle_ms)) - batches_ms)
        max_ms = self.range_ms + batches_ms + e.path_spec.effect.below_ms + e.rtt_tolerance_ms
        if not min_ms <= spread_ms <= max_ms:
            yield (
                f"idle RTTs must spread over {min_ms:.3g} to {max_ms:.3g} ms with a jitter of "
                f"{self.range_ms:g} ms, found {spread_ms:.3g} ms over {len(e.idle_ms)} pings"
            )

    def _min_spread_ms(self, count: int) -> float:
        """Return the range that `count` draws fall below with probability FALSE_ALARM at most.

        Let x be the largest probability that a draw lies in a window of some width. The probability
        that n independent draws lie within this width is at most n x^(n-1): the others follow the
        smallest one. (For uniform draws, it is n x^(n-1) - (n-1) x^n: David and Nagaraja, Order
        Statistics, section 2.3.)

        With a correlation c, each number is one of the W = (1 - c) 2^32 that follow a share of the
        one before. Its remainder by m is in a window of r remainders with a probability of at most
        (1 + m / W) (r + 1) / m, whatever was before. All draws then lie within half the window's
        width of the first one with a probability of at most x^(n-1).
        """
        if count < 2:
            return 0.0
        if not self.jitter_correlation_percent:
            return self._width_ms((FALSE_ALARM / count) ** (1 / (count - 1)))
        remainders = TABLE_ENTRIES if self.jitter_distribution == NORMAL else self.jitter_ms * 1e6
        numbers = (1 - self.jitter_correlation_percent / 100) * 2**32
        share = FALSE_ALARM ** (1 / (count - 1)) / (1 + remainders / numbers)
        return self._width_ms(max(0.0, share - 1 / remainders)) / 2

    def _width_ms(self, share: float) -> float:
        """Return the smallest width that has this share of the distribution.

        For the normal distribution, it is about the mean. A window has one more of the table's
        entries than its share at most, and another one for their rounding.
        """
        if self.jitter_distribution != NORMAL:
            return self.jitter_ms * share
        inside = max(0.0, share - 2 / TABLE_ENTRIES)
        return NormalDist().inv_cdf((1 + inside) / 2) * self.jitter_ms / NORMAL_SIGMAS


FEATURE = Jitter()
