"""When a cell has enough replicates: its mean's confidence interval is narrow, or there are many.

The replicates' seeds are fixed in their order, so the same cell always stops after the same one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from losslab.study.intervals import mean_interval


@dataclass(frozen=True)
class StoppingRule:
    """How many replicates a cell gets."""

    least: int
    most: int
    # Half the width of the mean's 95 % interval, in percent of the mean; None: `least`, always.
    half_width_percent: float | None = None

    def __str__(self) -> str:
        """Say the number of replicates, or the range of it."""
        return str(self.least) if self.most == self.least else f"{self.least}-{self.most}"

    def enough(self, replicates: int, values: Sequence[float]) -> bool:
        """Tell whether to stop.

        `values` are the primary metric of the valid ones.
        """
        if replicates < self.least:
            return False
        if replicates >= self.most or self.half_width_percent is None:
            return True
        return half_width_percent(values) <= self.half_width_percent


def half_width_percent(values: Sequence[float]) -> float:
    """Return half the width of the mean's 95 % confidence interval in percent of the mean.

    Infinite where there are too few values for an interval, and for a mean of zero.
    """
    interval = mean_interval(values)
    if interval is None or (mean := statistics.fmean(values)) == 0:
        return math.inf
    low, high = interval
    return 100 * (high - low) / 2 / abs(mean)
