"""Confidence intervals and significance tests over replicates, and the stopping rule.

The means and ratios are those of the report (analysis/R/intervals.R); a test compares both
implementations on the same data.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
# Fewer runs have neither a confidence interval nor significant differences: they are too few to
# estimate the variance.
MIN_RUNS = 5

Interval = tuple[float, float]


@dataclass(frozen=True)
class Ratio:
    """A ratio of two samples; a field is None if it is undefined or there are too few runs."""

    value: float | None
    interval: Interval | None = None
    # Two-sided.
    p_value: float | None = None


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Return the confidence interval of a mean; None for fewer than five runs.

    The interval is Student's t on logarithms, for the mean of a log-normal distribution (Cox's
    interval with t: Olsson, Journal of Statistics Education 13(1), 2005). The distribution of runs
    is often skewed, and then the plain t interval covers the mean too rarely. If a value is zero or
    negative, the interval is the plain t interval.
    """
    n = len(values)
    if n < MIN_RUNS:
        return None
    if min(values) <= 0:
        return difference_interval(values, level)
    logs = [math.log(value) for value in values]
    variance = statistics.variance(logs)
    centre = statistics.fmean(logs) + variance / 2
    half = math.sqrt(variance / n + variance**2 / (2 * (n - 1))) * t_quantile(level, n - 1)
    return _exp(centre - half), _exp(centre + half)


# Metrics whose values have an upper limit. Their smallest value is zero.
UPPER_LIMITS = {
    "jain_index": 1.0, "frames_delivered_percent": 100.0, "frames_on_time_percent": 100.0,
    "rwnd_limited_percent": 100.0,
}  # fmt: skip


def level_of(share: float, level: float = LEVEL) -> float:
    """Return the level of an interval that has a share of the error of another level."""
    return 1 - (1 - level) * share


def metric_interval(values: Sequence[float], metric: str, level: float = LEVEL) -> Interval | None:
    """Return the confidence interval of a metric's mean; None for fewer than five runs.

    If its values have an upper limit, it is Student's t for the logit of the mean, by the delta
    method, and is within the limits.
    """
    upper, n = UPPER_LIMITS.get(metric, math.inf), len(values)
    share = statistics.fmean(values) / upper
    if n < MIN_RUNS or not 0 < share < 1:
        return mean_interval(values, level)
    error = statistics.stdev(values) / upper / math.sqrt(n) / (share * (1 - share))
    centre, half = math.log(share / (1 - share)), t_quantile(level, n - 1) * error
    low, high = (upper / (1 + _exp(-end)) for end in (centre - half, centre + half))
    return low, high


def difference_interval(differences: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Return Student's t interval of the mean difference of pairs; None for fewer than five."""
    n = len(differences)
    if n < MIN_RUNS:
        return None
    mean = statistics.fmean(differences)
    half = t_quantile(level, n - 1) * statistics.stdev(differences) / math.sqrt(n)
    return mean - half, mean + half


def ratio_interval(
    a: Sequence[float], b: Sequence[float], paired: bool, level: float = LEVEL
) -> Ratio:
    """Return the geometric mean of the ratios a / b with its confidence interval.

    The interval is Student's t on the logarithms of paired samples, or Welch's t on those of
    independent samples (Welch, Biometrika 34, 1947). If a value is zero or negative and both means
    are positive, the ratio is that of the means, with the interval by the delta method. If a mean
    is zero or negative, there is no interval, and the p-value is that of the difference of the
    means.

    In paired samples, `a[i]` and `b[i]` are a pair.
    """
    means = statistics.fmean(a), statistics.fmean(b)
    few = min(len(a), len(b)) < MIN_RUNS
    if min(*a, *b) > 0:
        a, b = [math.log(value) for value in a], [math.log(value) for value in b]
        shift = statistics.fmean(a) - statistics.fmean(b)
    elif min(means) > 0:
        # Delta method: a small change of a mean's logarithm equals its relative change.
        a, b = [value / means[0] for value in a], [value / means[1] for value in b]
        shift = math.log(means[0]) - math.log(means[1])
    else:
        value = means[0] / means[1] if means[1] > 0 else None
        p_value = None if few else _p_value(means[0] - means[1], *_standard_error(a, b, paired))
        return Ratio(value, p_value=p_value)
    if few:
        return Ratio(_exp(shift))
    error, freedom = _standard_error(a, b, paired)
    half = t_quantile(level, freedom) * error
    ends = _exp(shift - half), _exp(shift + half)
    return Ratio(_exp(shift), ends, _p_value(shift, error, freedom))


def _exp(power: float) -> float:
    """Return e to a power, or infinity on overflow, as R does."""
    try:
        return math.exp(power)
    except OverflowError:
        return math.inf


def _standard_error(a: Sequence[float], b: Sequence[float], paired: bool) -> tuple[float, float]:
    """Return the standard error of the difference of two means, and its degrees of freedom."""
    if paired:
        differences = [one - other for one, other in zip(a, b, strict=True)]
        return statistics.stdev(differences) / math.sqrt(len(a)), len(a) - 1
    parts = [statistics.variance(each) / len(each) for each in (a, b)]
    if sum(parts) == 0:
        return 0.0, 1
    weights = [part**2 / (len(each) - 1) for part, each in zip(parts, (a, b), strict=True)]
    return math.sqrt(sum(parts)), sum(parts) ** 2 / sum(weights)


def _p_value(difference: float, error: float, freedom: float) -> float:
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return t_tails(abs(difference) / error, freedom)


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for multiple comparisons, by the false discovery rate.

    Of the comparisons whose adjusted p-value is below 0.05, at most 5 % are expected to be false
    positives. If nothing differs, the probability of any false positive is at most 5 % (Benjamini
    and Hochberg, Journal of the Royal Statistical Society B 57(1), 1995; R:
    `p.adjust(method = "BH")`). Unlike a family-wise correction such as Holm's, this one finds a
    small difference in many cells.
    """
    from scipy.stats import false_discovery_control

    return [float(value) for value in false_discovery_control(p_values)] if p_values else []


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for multiple comparisons, by the family-wise error rate.

    The probability of any adjusted p-value below 0.05 without a difference is at most 5 % (Holm,
    Scandinavian Journal of Statistics 6, 1979; R: `p.adjust(method = "holm")`).
    """
    adjusted_values, bound = [1.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        bound = min(1.0, max(bound, p_values[at] * (len(p_values) - rank)))
        adjusted_values[at] = bound
    return adjusted_values


def t_quantile(level: float, freedom: float) -> float:
    """Return the two-sided quantile of Student's distribution: P(|T| <= t) = `level`."""
    from scipy.special import stdtrit  # here, because the import takes 0.3 s

    return float(stdtrit(freedom, (1 + level) / 2))


def t_tails(t: float, freedom: float) -> float:
    """Return the probability of |T| > t of Student's distribution."""
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -t))


# Share of the error for all looks before the last. A cell that ends there is precise anyway, and
# the others keep almost the width of a single look.
EARLY_ERROR = 0.2


@dataclass(frozen=True)
class StoppingRule:
    """The minimum and maximum number of a cell's replicates, and the target precision.

    The order of the replicates' seeds is fixed, so a cell always stops after the same replicate.

    A cell that may end early is looked at after each replicate from the minimum on. Narrow
    intervals are selected, so an ordinary 95 % interval at the end covers the mean too rarely
    (93 % in the worst case, `bench/verdict_errors.R`). The intervals that the results show
    therefore spend the 5 % error over the looks (alpha spending: Lan and DeMets, Biometrika 70,
    1983), with Bonferroni's inequality, so they are valid for every rule that looks at these
    numbers of replicates. The decision to end uses the ordinary interval.
    """

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
