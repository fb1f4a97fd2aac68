"""Whether measured values agree with a published number: a ratio with its confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from losslab.study.intervals import LEVEL, MIN_RUNS, Interval, t_quantile
from losslab.tools.explain.case import Number


@dataclass(frozen=True)
class Agreement:
    """The measured values of a number, and how much runs scatter."""

    number: Number
    values: tuple[float, ...]
    scatter: float  # standard deviation of a run / mean
    freedom: float  # degrees of freedom of the scatter

    @property
    def mean(self) -> float:
        """Return the arithmetic mean, as reports do."""
        return fmean(self.values)

    @property
    def difference(self) -> float:
        """Return the logarithm of measured mean / published mean."""
        return self.number.log(self.mean) - self.number.log(self.number.mean)

    @property
    def variances(self) -> tuple[float, float]:
        """Return the variances of the logarithms of both means, by the delta method.

        A published mean without scatter has that of the measured runs.
        """
        theirs = self.scatter if self.number.scatter is None else self.number.scatter
        return self.scatter**2 / len(self.values), theirs**2 / self.number.runs

    def interval(self, count: int = 1) -> Interval | None:
        """Return the confidence interval of the difference; `count` intervals share the 5 % error.

        None for fewer than `intervals.MIN_RUNS` runs.
        """
        if len(self.values) < MIN_RUNS:
            return None
        level = 1 - (1 - LEVEL) / count
        half = t_quantile(level, self._freedom()) * math.sqrt(sum(self.variances))
        return self.difference - half, self.difference + half

    def _freedom(self) -> float:
        """Return the degrees of freedom (Welch and Satterthwaite; Biometrika 34, 1947)."""
        own, theirs = self.variances
        if self.number.scatter is None or own + theirs == 0:
            return self.freedom
        return (own + theirs) ** 2 / (own**2 / self.freedom + theirs**2 / (self.number.runs - 1))

    def contradicts(self, tolerance: float, count: int) -> bool:
        """Return whether the whole interval is beyond the tolerance."""
        ends = self.interval(count)
        return ends is not None and (ends[0] > tolerance or ends[1] < -tolerance)
