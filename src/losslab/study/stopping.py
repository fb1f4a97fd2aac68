"""The stopping rule: a cell ends when its mean's confidence interval is narrow enough.

The order of the replicates' seeds is fixed, so a cell always stops after the same replicate.

A cell that may end early is looked at after each replicate from the minimum on. Narrow intervals
are selected, so an ordinary 95 % interval at the end covers the mean too rarely (93 % in the worst
case, `bench/verdict_errors.R`). The intervals that the results show therefore spend the 5 % error
over the looks (alpha spending: Lan and DeMets, Biometrika 70, 1983), with Bonferroni's inequality,
so they are valid for every rule that looks at these numbers of replicates. The decision to end uses
the ordinary interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from losslab.study.intervals import mean_interval

# Share of the error for all looks before the last. A cell that ends there is precise anyway, and
# the others keep almost the width of a single look.
EARLY_ERROR = 0.2


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

    def error_share(self, replicates: int) -> float:
        """Return the share of the 5 % error that an interval of this number of replicates has."""
        looks = self.maximum - self.minimum
        if looks == 0:
            return 1.0
        return 1 - EARLY_ERROR if replicates >= self.maximum else EARLY_ERROR / looks

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
