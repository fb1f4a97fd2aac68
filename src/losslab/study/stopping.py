"""When a cell has enough replicates: the interval of its mean is narrow, or patience is at its end.

The replicates' seeds are fixed in their order, so the same cell always stops after the same one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Student's t: two-sided 95 % quantiles for 1 to 29 degrees of freedom (R: qt(0.975, 1:29)).
# Rounded, and for this rule alone: other digits could end a recorded cell after another replicate.
# All other confidence intervals are those of `study.intervals`.
T_QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045,
)  # fmt: skip
NORMAL_QUANTILE = 1.96


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

        Args:
            replicates: How many were measured.
            values: The primary metric of those that are valid.
        """
        if replicates < self.least:
            return False
        if replicates >= self.most or self.half_width_percent is None:
            return True
        return half_width_percent(values) <= self.half_width_percent


def half_width_percent(values: Sequence[float]) -> float:
    """Return half the width of the mean's 95 % interval in percent of the mean.

    Infinite for fewer than two values and for a mean of zero.
    """
    n = len(values)
    if n < 2 or (mean := statistics.fmean(values)) == 0:
        return math.inf
    t = T_QUANTILES[n - 2] if n - 2 < len(T_QUANTILES) else NORMAL_QUANTILE
    return 100 * t * statistics.stdev(values) / math.sqrt(n) / abs(mean)
