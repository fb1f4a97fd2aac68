"""The stopping rule: a cell ends when its mean's confidence interval is narrow enough.

The order of the replicates' seeds is fixed, so a cell always stops after the same replicate.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from losslab.study.intervals import mean_interval


@dataclass(frozen=True)
class StoppingRule:
    """The minimum and maximum number of a cell's replicates, and the target precision."""

    minimum: int
    maximum: int
    # Target half-width of the mean's 95 % CI, in percent of the mean; None: stop at the minimum.
    half_width_percent: float | None = None

    def __str__(self) -> str:
        """Return the number of replicates, or its range."""
        same = self.minimum == self.maximum
        return str(self.minimum) if same else f"{self.minimum}-{self.maximum}"

    def enough(self, replicates: int, values: Sequence[float]) -> bool:
        """Return whether to stop; `values` are the primary metric of the valid replicates."""
        if replicates < self.minimum:
            return False
        if replicates >= self.maximum or self.half_width_percent is None:
            return True
        return half_width_percent(values) <= self.half_width_percent


def half_width_percent(values: Sequence[float]) -> float:
    """Return the half-width of the mean's 95 % confidence interval in percent of the mean.

    The result is infinite if there are too few values for an interval or the mean is zero.
    """
    interval = mean_interval(values)
    if interval is None or (mean := statistics.fmean(values)) == 0:
        return math.inf
    low, high = interval
    return 100 * (high - low) / 2 / abs(mean)
