"""Where two curves cross: the value of an axis at which two algorithms have a given ratio.

`losslab sweep --cross goodput_mbit=2` and `losslab.cross` bisect the axis between two values. At
each value, both algorithms are measured with the same seeds, so their runs are pairs. The ratio is
the geometric mean of the pairs' ratios with its 95 % confidence interval (`study/intervals.py`).
The result has an interval, too: the values at which that of the ratio contains the wanted one,
which is a confidence set by inversion of the test (Casella and Berger, Statistical Inference, 2002,
section 9.2.1). Bisection assumes that the ratio only rises or only falls between the two values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tabulate import tabulate

from losslab.reading import UsageError, number, shown
from losslab.study import metrics
from losslab.study.axes import short
from losslab.study.condition import AXES
from losslab.study.intervals import Interval, Ratio, ratio_interval

# A side of the result is known to this share of the value, or of the range if it begins at 0.
PRECISION = 0.03
DIGITS = 4  # of values that are measured
MEASUREMENTS_MAX = 40  # values of the axis


@dataclass(frozen=True)
class Point:
    """Both algorithms at a value of the axis."""

    value: float
    means: tuple[float, float]
    ratio: Ratio
    n: int  # pairs


@dataclass(frozen=True)
class Crossing:
    """Value of an axis at which the ratio of two algorithms' metrics is `factor`."""

    axis: str
    metric: str
    factor: float
    algorithms: tuple[str, str]  # the first over the second
    value: float
    # 95 % confidence interval. An end at an end of the range may be farther out.
    interval: Interval
    points: tuple[Point, ...]  # all measured values, ascending
    warnings: tuple[str, ...] = ()  # about the lengths of the runs

    def __str__(self) -> str:
        """Return the result as text."""
        unit = f" {AXES[self.axis].unit}" if AXES[self.axis].unit else ""
        low, high = self.interval
        first, last = self.points[0].value, self.points[-1].value
        beyond = [f"{word} {end:g}" for word, end, limit in
                  (("below", low, first), ("above", high, last)) if end == limit]  # fmt: skip
        note = f"; the interval may reach {' and '.join(beyond)}" if beyond else ""
        one, other = self.algorithms
        return (
            f"{self.metric} of {one} is {short(self.factor)} times that of {other} at {self.axis} "
            f"{self.value:.3g} (95 % CI {low:.3g} to {high:.3g}){unit}{note}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as data."""
        return asdict(self)


def wanted(text: str) -> tuple[str, float]:
    """Parse `METRIC=RATIO`, as an argparse `type`."""
    metric, equals, ratio = text.partition("=")
    if not equals:
        raise UsageError(f"--cross must be METRIC=RATIO, such as goodput_mbit=2, found {text!r}")
    return metrics.name_option(metric), factor_of(number(ratio))


def factor_of(ratio: object) -> float:
    """Return a ratio above 0; UsageError otherwise."""
    is_number = isinstance(ratio, int | float) and not isinstance(ratio, bool)
    if not is_number or not 0 < float(str(ratio)) < math.inf:
        raise UsageError(f"the ratio of a crossing must be a number above 0, found {shown(ratio)}")
    return float(str(ratio))


def axis_of(given: Mapping[str, Sequence[str | float]]) -> str:
    """Return the axis of a crossing: the one with two numbers; two algorithms besides it."""
    several = [name for name, axis_values in given.items() if len(axis_values) > 1]
    algorithms = given.get("algorithm", [])
    others = [name for name in several if name != "algorithm"]
    if len(algorithms) != 2 or len(others) != 1:
        raise UsageError(
            "a crossing must have two algorithms and one axis with two values, found "
            f"{len(algorithms)} algorithms and {', '.join(others) or 'no such axis'}",
            hint="for example --algorithm bbr,cubic --loss-percent 0.001,0.1",
        )
    axis, ends = others[0], given[others[0]]
    if AXES[axis].kind == "str" or AXES[axis].of_campaign or len(ends) != 2:
        raise UsageError(
            f"the axis of a crossing must have two numbers, LOW,HIGH, found {axis} "
            f"{', '.join(map(str, ends))}"
        )
    if not all(isinstance(end, int | float) for end in ends):
        raise UsageError(
            f"the axis of a crossing must have numbers in its unit, found {axis} "
            f"{', '.join(map(str, ends))}"
        )
    return axis


def spread(axis: str, low: float, high: float) -> list[float]:
    """Return values between two ends, for what must hold everywhere between them."""
    middle = _middle(axis, low, high, high - low)
    if middle is None:
        return []
    parts = (_middle(axis, low, middle, high - low), _middle(axis, middle, high, high - low))
    return [middle, *(part for part in parts if part is not None)]


def point(value: float, one: Mapping[int, float], other: Mapping[int, float]) -> Point:
    """Compare two algorithms at a value, by their metric's values of each seed."""
    seeds = sorted(one.keys() & other.keys())
    pairs = [[values[seed] for seed in seeds] for values in (one, other)]
    if not seeds:
        return Point(value, (math.nan, math.nan), Ratio(None), 0)
    means = fmean(pairs[0]), fmean(pairs[1])
    return Point(value, means, ratio_interval(pairs[0], pairs[1], paired=True), len(seeds))


def text(found: Crossing, file: Path) -> str:
    """Return the measured values as a table, the result and its file."""
    head = (found.axis, *found.algorithms, "ratio", "95 % CI", "n")
    rows = [
        (f"{each.value:g}", *(f"{mean:.4g}" for mean in each.means), f"{_ratio(each):.3f}",
         f"{_end(each, 0):.3f} to {_end(each, 1):.3f}", str(each.n))
        for each in found.points
    ]  # fmt: skip
    table = tabulate(rows, head, tablefmt="plain", disable_numparse=True)
    return "\n".join([table, "", str(found), str(file)])


def find(
    axis: str,
    ends: tuple[float, float],
    metric: str,
    factor: float,
    algorithms: tuple[str, str],
    at: Callable[[float], Point],
) -> Crossing:
    """Bisect an axis for the value at which the ratio is `factor`.

    `at` measures a value. Raises UsageError if the ratio is on the same side at both ends.
    """
    low, high = sorted(ends)
    points: dict[float, Point] = {}

    def measured(value: float) -> Point:
        if value not in points:
            if len(points) >= MEASUREMENTS_MAX:
                raise UsageError(f"a crossing must be found in {MEASUREMENTS_MAX} measurements")
            points[value] = at(value)
        return points[value]

    first, last = measured(low), measured(high)
    for each in (first, last):
        if each.ratio.value is None or each.ratio.interval is None:
            raise UsageError(
                f"the ratio of {metric} must have an interval at both ends, found none at {axis} "
                f"{each.value:g} with {each.n} pairs of valid runs",
                hint="give --replicates 5 or more, and other ends",
            )
    if (_ratio(first) < factor) == (_ratio(last) < factor):
        one, other = algorithms
        raise UsageError(
            f"the ratio of {metric}, {one} over {other}, must cross {short(factor)} between the "
            f"ends, found {_text(first)} at {axis} {low:g} and {_text(last)} at {axis} {high:g}",
            hint=f"give a wider range, or --algorithm {other},{one}",
        )
    rising = _ratio(first) < factor

    def bisected(above: Callable[[Point], bool]) -> tuple[float, float]:
        """Return neighbours between which a bound of the ratio crosses the factor."""
        begin, end = low, high
        if above(first) == above(last):
            return (low, low) if above(first) == rising else (high, high)
        while (middle := _middle(axis, begin, end, high - low)) is not None:
            begin, end = (
                (middle, end) if above(measured(middle)) == above(first) else (begin, middle)
            )
        return begin, end

    before, after = bisected(lambda each: _ratio(each) >= factor)
    by_upper, by_lower = (
        bisected(lambda each, end=end: _end(each, end) >= factor)  # type: ignore[misc]
        for end in (1, 0)
    )
    # The outer neighbours, at which the ratio differs significantly.
    left, right = (by_upper, by_lower) if rising else (by_lower, by_upper)
    value = _between(points[before], points[after], factor)
    interval = min(left[0], value), max(right[1], value)
    ordered = tuple(points[each] for each in sorted(points))
    return Crossing(axis, metric, factor, algorithms, value, interval, ordered)


def _ratio(point: Point) -> float:
    if point.ratio.value is None:
        raise UsageError(
            f"the ratio must exist at each measured value, found none at {point.value:g}",
            hint="see the violations of its runs with `losslab sweep` at this value",
        )
    return point.ratio.value


def _end(point: Point, end: int) -> float:
    """Return an end of the ratio's interval, or the ratio without one."""
    return _ratio(point) if point.ratio.interval is None else point.ratio.interval[end]


def _text(point: Point) -> str:
    low, high = point.ratio.interval or (math.nan, math.nan)
    return f"{_ratio(point):.3g} ({low:.3g} to {high:.3g})"


def _middle(axis: str, begin: float, end: float, span: float) -> float | None:
    """Return the next value between two; None if they are close enough."""
    if begin > 0:
        if end / begin <= 1 + PRECISION:
            return None
        middle = math.sqrt(begin * end)
    else:
        if end - begin <= PRECISION * span:
            return None
        middle = (begin + end) / 2
    middle = float(f"{middle:.{DIGITS}g}")
    if AXES[axis].kind == "int":
        middle = float(round(middle))
    return middle if begin < middle < end else None


def _between(before: Point, after: Point, factor: float) -> float:
    """Interpolate the logarithm of the ratio between two neighbours."""
    begin, end = (math.log(max(_ratio(each), 1e-12) / factor) for each in (before, after))
    share = begin / (begin - end) if begin != end else 0.5
    if before.value > 0:
        return float(before.value * (after.value / before.value) ** share)
    return before.value + share * (after.value - before.value)
