"""Intervals of docs/explanation/statistics.md, written a second time.

Each returns the ends of an interval; NaN for samples that have none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev, variance

import numpy as np
from scipy import stats

MIN_RUNS = 5
# Upper limits of metrics' values; the lower limit is zero.
UPPER_LIMITS = {
    "jain_index": 1.0, "frames_delivered_percent": 100.0, "frames_on_time_percent": 100.0,
    "rwnd_limited_percent": 100.0,
}  # fmt: skip
Ends = tuple[float, float]
NONE = math.nan, math.nan


def statistics_of(values: Sequence[float]) -> dict[str, float]:
    """Return mean, standard deviation, extremes and linear quartiles of at least one value."""
    least, *quartiles, most = np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()
    return {
        "mean": fmean(values), "std": stdev(values) if len(values) > 1 else math.nan, "min": least,
        **dict(zip(("q25", "median", "q75"), quartiles, strict=True)), "max": most,
    }  # fmt: skip


def deterministic(values: Sequence[float]) -> bool:
    """Return whether runs differ by at most a millionth: they are one observation."""
    return len(values) > 1 and max(values) - min(values) <= 1e-6 * abs(fmean(values))


def t_reach(error: float, freedom: float) -> float:
    """Return Student's t of which a share `error` is beyond, on both sides."""
    return float(stats.t.ppf(1 - error / 2, freedom))


def mean_interval(values: Sequence[float], error: float = 0.05, metric: str = "") -> Ends:
    """Return the confidence interval of the mean.

    Cox's on logarithms with t (Olsson, 2005); plain t if a value is not positive. If the metric has
    an upper limit, it is t on the logit of the mean.
    """
    n = len(values)
    if n < MIN_RUNS:
        return NONE
    reach, mean = t_reach(error, n - 1), fmean(values)
    upper = UPPER_LIMITS.get(metric, math.inf)
    if 0 < mean < upper < math.inf:
        share = mean / upper
        half = reach * stdev(values) / upper / math.sqrt(n) / (share * (1 - share))
        logit = math.log(share / (1 - share))
        return upper / (1 + math.exp(half - logit)), upper / (1 + math.exp(-half - logit))
    if min(values) <= 0:
        half = reach * stdev(values) / math.sqrt(n)
        return mean - half, mean + half
    logs = [math.log(value) for value in values]
    spread = variance(logs)
    half = reach * math.sqrt(spread / n + spread**2 / (2 * (n - 1)))
    centre = fmean(logs) + spread / 2
    return math.exp(centre - half), math.exp(centre + half)


def median_interval(values: Sequence[float], error: float = 0.05) -> Ends:
    """Return the interval of the median between two of the sorted values (Conover, 3.2)."""
    n = len(values)
    below = int(stats.binom.ppf(error / 2, n, 0.5))
    if n < MIN_RUNS or below < 1:
        return NONE
    ordered = sorted(values)
    return ordered[below - 1], ordered[n - below]


def prediction(values: Sequence[float], error: float = 0.05, runs: int = 1) -> Ends:
    """Return the prediction interval of the mean of new runs.

    Student's t on logarithms (Hahn and Meeker, Statistical Intervals, 4.7); on the values
    themselves if one of them is not positive, and then not below zero for counts.
    """
    n = len(values)
    if n < MIN_RUNS:
        return NONE
    logs = min(values) > 0
    data = [math.log(value) for value in values] if logs else list(values)
    half = t_reach(error, n - 1) * stdev(data) * math.sqrt(1 / runs + 1 / n)
    low, high = fmean(data) - half, fmean(data) + half
    if logs:
        return math.exp(low), math.exp(high)
    return (max(low, 0.0), max(high, 0.0)) if min(values) >= 0 else (low, high)


def two_samples(values: Sequence[float], sd: float, runs: int, error: float = 0.05) -> Ends:
    """Return Welch's interval of the mean, with the error of a published mean of `runs` runs."""
    if len(values) < MIN_RUNS:
        return NONE
    half = _welch([variance(values), sd**2], [len(values), runs], error)
    return fmean(values) - half, fmean(values) + half


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """Return the ratio of geometric means; with a value of zero, that of the means."""
    if min(*over, *under) > 0:
        return math.exp(fmean(map(math.log, over)) - fmean(map(math.log, under)))
    return fmean(over) / fmean(under) if fmean(under) > 0 else math.nan


def ratio_interval(
    over: Sequence[float], under: Sequence[float], paired: bool, error: float = 0.05
) -> Ends:
    """Return the interval of a ratio: t on logarithms, Welch's without pairs.

    With a value of zero, it is that of the means by the delta method.
    """
    if min(len(over), len(under)) < MIN_RUNS:
        return NONE
    centre = ratio(over, under)
    if min(*over, *under) > 0:
        a, b = ([math.log(value) for value in values] for values in (over, under))
    elif min(fmean(over), fmean(under)) > 0:
        a, b = ([value / fmean(values) for value in values] for values in (over, under))
    else:
        return NONE
    if paired:
        parts = [x - y for x, y in zip(a, b, strict=True)]
        half = t_reach(error, len(parts) - 1) * stdev(parts) / math.sqrt(len(parts))
    else:
        half = _welch([variance(a), variance(b)], [len(a), len(b)], error)
    return centre * math.exp(-half), centre * math.exp(half)


def ratio_prediction(
    over: Sequence[float], under: Sequence[float], runs: int, error: float = 0.05
) -> Ends:
    """Return the prediction interval of the ratio of the means of new runs: Welch's t on logs."""
    if min(len(over), len(under)) < MIN_RUNS or min(*over, *under) <= 0:
        return NONE
    # The variance of a mean of new runs and that of ours, each with the sample's freedom.
    spreads = [variance([math.log(value) for value in values]) for values in (over, under)]
    sizes = [len(over), len(under)]
    parts = [s * (1 / runs + 1 / n) for s, n in zip(spreads, sizes, strict=True)]
    half = _welch_of_parts(parts, sizes, error)
    centre = ratio(over, under)
    return centre * math.exp(-half), centre * math.exp(half)


def scatter_ratio(
    over: Sequence[float], under: Sequence[float], error: float = 0.05
) -> tuple[float, Ends]:
    """Return the ratio of two samples' scatter with its interval (Bonett and Seier, 2003).

    The scatter is the mean absolute deviation from the median, of logarithms if all values are
    positive. Welch's t replaces the normal quantile.
    """
    if min(len(over), len(under)) < MIN_RUNS or deterministic(under):
        return math.nan, NONE
    if deterministic(over):
        return 0.0, (0.0, 0.0)
    logs = min(*over, *under) > 0
    means, parts = [], []
    for values in (over, under):
        data = [math.log(value) for value in values] if logs else list(values)
        away = [abs(value - median(data)) for value in data]
        # A sample's median is nearer to its values than the true one.
        means.append(fmean(away) * len(away) / (len(away) - 1))
        parts.append(variance(away) / fmean(away) ** 2 / len(away))
    half = _welch_of_parts(parts, [len(over), len(under)], error)
    centre = means[0] / means[1]
    return centre, (centre * math.exp(-half), centre * math.exp(half))


def gain_interval(
    samples: Sequence[Sequence[Sequence[float]]], error: float = 0.05
) -> tuple[float, Ends]:
    """Return the geometric mean of gains over gains, a / b / (c / d), with Welch's interval.

    Each of `samples` has the runs of the cells a, b, c and d.
    """
    logs = [[[math.log(value) for value in runs] for runs in cells] for cells in samples]
    centre = fmean(fmean(a) - fmean(b) - fmean(c) + fmean(d) for a, b, c, d in logs)
    every = [runs for cells in logs for runs in cells]
    parts = [variance(runs) / len(runs) / len(samples) ** 2 for runs in every]
    half = _welch_of_parts(parts, [len(runs) for runs in every], error)
    return math.exp(centre), (math.exp(centre - half), math.exp(centre + half))


def _welch(variances: Sequence[float], sizes: Sequence[int], error: float) -> float:
    parts = [spread / n for spread, n in zip(variances, sizes, strict=True)]
    return _welch_of_parts(parts, sizes, error)


def _welch_of_parts(parts: Sequence[float], sizes: Sequence[int], error: float) -> float:
    """Return the half-width of a sum whose parts have some variances, of samples of some sizes."""
    total = sum(parts)
    if total == 0:
        return 0.0
    weights = [part**2 / (n - 1) for part, n in zip(parts, sizes, strict=True)]
    return t_reach(error, total**2 / sum(weights)) * math.sqrt(total)
