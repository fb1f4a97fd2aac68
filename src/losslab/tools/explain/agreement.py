"""Whether measured values agree with a published number: a ratio with its confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from losslab.study.intervals import LEVEL, Interval, metric_interval, t_quantile
from losslab.tools.explain.case import Number


@dataclass(frozen=True)
class Agreement:
    """The measured values of a number."""

    number: Number
    values: tuple[float, ...]
    # Standard deviation of a run's logarithm, for a published mean without scatter.
    scatter: float

    @property
    def mean(self) -> float:
        """Return the arithmetic mean, as reports do."""
        return fmean(self.values)

    @property
    def difference(self) -> float:
        """Return the logarithm of measured mean / published mean."""
        return self.number.log(self.mean) - self.number.log(self.number.mean)

    def interval(self, count: int = 1) -> Interval | None:
        """Return the confidence interval of the difference; `count` intervals share the 5 % error.

        Both means have their intervals of `intervals.metric_interval`, which this combines (MOVER:
        Zou and Donner, Statistics in Medicine 27, 2008). None for fewer than `intervals.MIN_RUNS`
        runs.
        """
        level = 1 - (1 - LEVEL) / count
        own, number = metric_interval(self.values, self.number.metric, level), self.number
        if own is None:
            return None
        mean, published = number.log(self.mean), number.log(number.mean)
        below, above = mean - number.log(own[0]), number.log(own[1]) - mean
        theirs = number.interval(level)
        if theirs is None:
            half = t_quantile(level, len(self.values) - 1) * self.scatter / math.sqrt(number.runs)
            their_below = their_above = half
        else:
            their_below = published - number.log(theirs[0])
            their_above = number.log(theirs[1]) - published
        return (self.difference - math.hypot(below, their_above),
                self.difference + math.hypot(above, their_below))  # fmt: skip

    def contradicts(self, tolerance: float, count: int) -> bool:
        """Return whether the whole interval is beyond the tolerance."""
        ends = self.interval(count)
        return ends is not None and (ends[0] > tolerance or ends[1] < -tolerance)
