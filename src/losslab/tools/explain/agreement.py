"""Whether measured values agree with a published number: a ratio with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from losslab.study.intervals import LEVEL, MIN_RUNS, Interval, metric_interval
from losslab.tools.explain.case import Number

ALPHA = 1 - LEVEL
# Smallest p-value that is told apart, and steps of the search for it.
P_MIN, STEPS = 1e-9, 40


@dataclass(frozen=True)
class Agreement:
    """Measured mean / published number."""

    number: Number
    n: int
    mean: float
    ratio: float
    interval: Interval | None  # of the ratio; None for fewer than `MIN_RUNS` runs
    p_value: float | None  # that the two differ by no more than the tolerance


def log_interval(values: Sequence[float], number: Number, level: float) -> Interval | None:
    """Return the confidence interval of the logarithm of measured mean / published mean.

    Both means have their intervals of `intervals.metric_interval`, which this combines (MOVER: Zou
    and Donner, Statistics in Medicine 27, 2008). A published mean without scatter has that of the
    measured runs. None for fewer than `MIN_RUNS` runs.
    """
    own = metric_interval(values, number.metric, level)
    if own is None:
        return None
    mean, published = number.log(fmean(values)), number.log(number.mean)
    below, above = mean - number.log(own[0]), number.log(own[1]) - mean
    theirs = number.interval(level)
    if theirs is None:
        widening = math.sqrt(len(values) / number.runs)
        their_below, their_above = widening * below, widening * above
    else:
        their_below = published - number.log(theirs[0])
        their_above = number.log(theirs[1]) - published
    difference = mean - published
    return difference - math.hypot(below, their_above), difference + math.hypot(above, their_below)


def agreement(values: Sequence[float], number: Number, tolerance: float, count: int) -> Agreement:
    """Compare measured values with a published number; `count` numbers share the error of 5 %."""
    difference = number.log(fmean(values)) - number.log(number.mean)

    def differs(alpha: float) -> bool:
        ends = log_interval(values, number, 1 - alpha)
        return ends is not None and (ends[0] > tolerance or ends[1] < -tolerance)

    ends = log_interval(values, number, 1 - ALPHA / count)
    p_value = None
    if len(values) >= MIN_RUNS:
        p_value = P_MIN
        if not differs(P_MIN):
            low, high = math.log(P_MIN), 0.0
            for _ in range(STEPS):
                middle = (low + high) / 2
                low, high = (low, middle) if differs(math.exp(middle)) else (middle, high)
            p_value = math.exp(high)
    interval = None if ends is None else (_exp(ends[0]), _exp(ends[1]))
    return Agreement(number, len(values), fmean(values), _exp(difference), interval, p_value)


def _exp(power: float) -> float:
    return math.exp(min(power, 700.0))
