"""The report to explain: its condition, its numbers, and the settings to try."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import cellspec
from losslab.campaign import inputs
from losslab.campaign.instrument import require_built
from losslab.errors import LosslabError, did_you_mean
from losslab.reading import UsageError, number, shown
from losslab.study import metrics, units
from losslab.study.axes import short
from losslab.study.condition import NO_TRACE, Condition
from losslab.study.schemas import load_checked
from losslab.tools.explain.candidates import RATE_UNIT, REPORTED, Setting, built_in

TOLERANCE_PERCENT = 5.0
# A goodput above the bottleneck's rate by this factor is in another unit.
RATE_EXCESS = 1.2
# Counts near zero have no meaningful ratio: this is added to both sides.
COUNT_UNIT, COUNT_SHIFT = "packets", 5.0
# End of the names of windows and queues, which are no counts of events.
LEVELS = "_packets"
HINT = "docs/how-to/explain.md explains every key"


@dataclass(frozen=True)
class Number:
    """A published number: the mean of a metric in a condition."""

    name: str
    condition: Condition
    metric: str
    mean: float  # in the metric's unit
    runs: int = 1
    cv: float | None = None  # standard deviation of a run / mean; None: not published
    held_out: bool = False

    @property
    def title(self) -> str:
        """Return the metric and the condition's name."""
        return f"{self.metric}, {self.name}"

    @property
    def scatter(self) -> float | None:
        """Return the published standard deviation of a run over the mean, as `scatter_of`."""
        return None if self.cv is None else self.cv * self.mean / (self.mean + self.shift)

    @property
    def count_scatter(self) -> float:
        """Return the scatter of a count in a Poisson process, or 0.

        Without random loss, all our runs may have the same losses. Those of another testbed, whose
        timing differs a little, would not.
        """
        unit = metrics.declared()[self.metric].unit
        if unit != COUNT_UNIT or self.metric.endswith(LEVELS):
            return 0.0
        return math.sqrt(max(self.mean, 1.0)) / (self.mean + self.shift)

    @property
    def shift(self) -> float:
        """Return what is added to both sides of a ratio: counts may be 0."""
        return COUNT_SHIFT if metrics.declared()[self.metric].unit == COUNT_UNIT else 0.0

    def log(self, value: float) -> float:
        """Return the logarithm of a value, for ratios."""
        return math.log(max(value, 0.0) + self.shift or math.ulp(0.0))

    def scatter_of(self, values: Sequence[float]) -> float:
        """Return the standard deviation of measured runs over their mean, both as in ratios."""
        mean = statistics.fmean(values) + self.shift
        return statistics.stdev(values) / mean if mean > 0 else 0.0


@dataclass(frozen=True)
class Case:
    """A report with the settings to try."""

    source: str
    numbers: tuple[Number, ...]
    settings: tuple[Setting, ...]
    tolerance: float  # of a ratio's logarithm
    not_tried: Mapping[str, str]  # reason by setting


def read(file: Path) -> Case:
    """Read a case; UsageError, before anything runs, if it cannot be explained by measuring."""
    data = load_checked(file, "explain")
    try:
        return _case(data)
    except LosslabError as error:
        raise UsageError(f"{file}: {error.message}", hint=error.hint or HINT) from error


def _case(data: Mapping[str, Any]) -> Case:
    numbers = [number for entry in data["published"] for number in _numbers(data, entry)]
    seen: dict[tuple[Condition, str], Number] = {}
    for each in numbers:
        other = seen.setdefault((each.condition, each.metric), each)
        if other is not each and other.held_out != each.held_out:
            raise UsageError(
                f"a held-out number must not be in the search, found {each.title} in both",
                hint="hold out a number of another condition or another metric",
            )
        if other is not each:
            raise UsageError(
                f"each metric must be published once in a condition, found {other.title} with "
                f"{short(other.mean)} and {short(each.mean)}",
                hint="single runs are a list: goodput_mbit: [9.1, 9.4]",
            )
    if all(each.held_out for each in numbers):
        raise UsageError("a number must not be held out, to search with, found none")
    inputs.require([each.condition for each in numbers])
    require_built([each.condition for each in numbers])
    settings, not_tried = _settings(data, numbers)
    tolerance = math.log1p(data.get("tolerance_percent", TOLERANCE_PERCENT) / 100)
    return Case(data.get("source", ""), tuple(numbers), tuple(settings), tolerance, not_tried)


def _numbers(data: Mapping[str, Any], entry: Mapping[str, Any]) -> Iterator[Number]:
    """Yield the numbers of an entry of `published`."""
    condition = cellspec.condition(dict(data["reported"]) | dict(entry["condition"]))
    default = ", ".join(f"{axis} {short(value)}" for axis, value in entry["condition"].items())
    name = entry.get("name") or default or "as reported"
    for metric, given in entry["numbers"].items():
        metrics.require_measured(metric, [condition])
        values = [_value(metric, each) for each in (given if isinstance(given, list) else [given])]
        runs, cv = entry.get("runs", 1), entry.get("cv_percent")
        mean = statistics.fmean(values)
        if mean == 0 and metrics.declared()[metric].unit != COUNT_UNIT:
            raise UsageError(
                f"{metric} must be above 0, to compare it by a ratio, found 0 ({name})"
            )
        if len(values) > 1:
            if "runs" in entry or cv is not None:
                raise UsageError(
                    f"runs and cv_percent must not be given with single runs, found {metric} with "
                    f"{len(values)} runs ({name})"
                )
            runs, cv = len(values), 100 * statistics.stdev(values) / mean if mean else None
        if cv is not None and runs < 2:
            raise UsageError(f"cv_percent must have runs of at least 2, found {runs} ({name})",
                             hint="give the number of runs of the mean: runs: 5")  # fmt: skip
        _require_possible(condition, metric, max(values), name)
        cv = None if cv is None else cv / 100
        yield Number(name, condition, metric, mean, runs, cv, entry.get("held_out", False))


def _value(metric: str, given: Any) -> float:
    """Read a published number, with or without the unit that ends the metric's name."""
    value = units.value(metric, given)
    value = number(value, metric) if isinstance(value, str) else float(value)
    if problems := metrics.out_of_range({metric: value}):
        raise UsageError(problems[0])
    return value


def _require_possible(condition: Condition, metric: str, value: float, name: str) -> None:
    """Refuse a rate that the reported path cannot carry: units contradict each other."""
    if metrics.declared()[metric].unit != RATE_UNIT or condition.trace != NO_TRACE:
        return
    if value > RATE_EXCESS * condition.rate_mbit:
        raise UsageError(
            f"{metric} must be at most the rate of the path, {condition.rate_mbit:g} Mbit/s, found "
            f"{value:g} ({name})",
            hint="check the units of both: 1 MB/s is 8 Mbit/s; the default of rate_mbit is 1000",
        )


def _settings(
    data: Mapping[str, Any], numbers: Sequence[Number]
) -> tuple[list[Setting], dict[str, str]]:
    """Return the settings to try, and the reasons for others.

    Settings that change no condition of a number are not tried, and of those with the same
    conditions only the first.
    """
    own = [Setting(label, changes) for label, changes in data.get("candidates", {}).items()]
    known = {each.label: each for each in built_in()}
    if taken := sorted({each.label for each in own} & known.keys()):
        raise UsageError(f"a candidate must have a new name, found {shown(taken[0])}")
    known |= {each.label: each for each in own}
    for key in ("only", "without"):
        if unknown := [label for label in data.get(key, ()) if label not in known]:
            raise UsageError(
                f"{key} must name settings, found {shown(unknown[0])}"
                + did_you_mean(unknown[0], known), hint="`losslab explain --list` lists them",
            )  # fmt: skip
    settings, not_tried = {effect(REPORTED, numbers): REPORTED}, dict[str, str]()
    for label, setting in known.items():
        if label not in data.get("only", known) or label in data.get("without", ()):
            continue
        try:
            same = effect(setting, numbers)
            require_built([setting.condition(each.condition) for each in numbers])
        except LosslabError as error:
            if setting in own:
                raise UsageError(f"candidate {label}: {error.message}", error.hint) from error
            not_tried[label] = str(error)
            continue
        if settings.setdefault(same, setting) is not setting:
            not_tried[label] = f"the same as: {settings[same].label}"
    if len(settings) == 1:
        raise UsageError("a setting must change a condition, found none that does")
    return [*settings.values()][1:], not_tried


def effect(setting: Setting, numbers: Iterable[Number]) -> tuple[object, ...]:
    """Return what determines the values of some numbers: their conditions and factors."""
    return tuple((setting.condition(n.condition), setting.factor(n.metric)) for n in numbers)
