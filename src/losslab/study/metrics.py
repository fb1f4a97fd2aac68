"""The metrics of replicates, declared in `config/metrics.tsv` and by features."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from losslab.errors import did_you_mean
from losslab.reading import LARGEST, UsageError, read_rows, repeats
from losslab.repository import ROOT
from losslab.study import features
from losslab.study.background import ALGORITHM
from losslab.study.condition import AXES, Condition
from losslab.study.schemas import check_schema

FILE = ROOT / "config" / "metrics.tsv"
Summary = Mapping[str, Any]
# Largest values of metrics without a unit that have one.
BOUNDED = {"jain_index": 1.0}
REAL_TIME = "machine_"
# Stands for a label of background flows, in a declaration that is of a metric for each label.
LABEL = "LABEL"
# Rounding of shares that are sums of floats.
ROUNDING = 1e-9
# Providers of metrics that do not depend on the condition, or not only.
ANY_CONDITION = ("every", "TCP", "real-time")


@dataclass(frozen=True)
class Metric:
    """The declaration of a metric; the schema `metrics` describes the fields."""

    name: str
    label: str
    unit: str
    better: str
    primary: int | None
    of: tuple[str, ...]
    description: str

    @property
    def title(self) -> str:
        """The title of a figure's axis: the label with the unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


class Declarations(dict[str, Metric]):
    """Declarations by name; one with LABEL in its name declares a metric for each label."""

    def __missing__(self, name: str) -> Metric:
        for form, metric in self.items():
            before, found, after = form.partition(LABEL)
            label = name.removeprefix(before).removesuffix(after)
            if found and name == f"{before}{label}{after}" and re.fullmatch(ALGORITHM, label):
                texts = (metric.label, metric.description)
                words = [text.replace(LABEL, label) for text in texts]
                return replace(metric, name=name, label=words[0], description=words[1])
        raise KeyError(name)


def read(path: Path, more: Iterable[Mapping[str, str]] = ()) -> Declarations:
    """Read declarations of metrics from a file; `more` has the rows that features declare."""
    rows = [*read_rows(path, "\t"), *({"primary": "", **row} for row in more)]
    check_schema(rows, "metrics", str(path))
    for column in ("name", "primary"):
        if twice := repeats(row[column] for row in rows if row[column]):
            raise UsageError(f"each {column} must be unique in {path}, found twice: {twice}")
    fields: list[dict[str, Any]] = [
        {**row, "primary": int(row["primary"] or 0) or None, "of": tuple(row["of"].split())}
        for row in rows
    ]
    return Declarations({each["name"]: Metric(**each) for each in fields})


@functools.cache
def declared() -> Declarations:
    """Return all metrics by name: those of the file and those of features."""
    for feature in features.added():
        if rows := [{"primary": "", **row} for row in feature.metrics]:
            where = sys.modules[type(feature).__module__].__file__
            check_schema(rows, "metrics", f"metrics of {where}")
    return read(FILE, (row for feature in features.all_features() for row in feature.metrics))


@functools.cache
def primary_names() -> tuple[str, ...]:
    """List the primary metrics in descending priority."""
    ranked = [(metric.primary, name) for name, metric in declared().items() if metric.primary]
    return tuple(name for _, name in sorted(ranked))


def get(name: str) -> Metric | None:
    """Return the declaration of a metric; None without one."""
    try:
        return declared()[name]
    except KeyError:
        return None


def value(summary: Summary, metric: str) -> float | None:
    """Return a metric's value; None if the summary has no finite number for it."""
    number = summary.get(metric)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    # The comparison is exact for integers of any size, and false for nan.
    return float(number) if -LARGEST < number < LARGEST else None


def primary_value(summary: Summary) -> float | None:
    """Return the value of a replicate's primary metric; None if it has none."""
    return next((v for m in primary_names() if (v := summary.get(m)) is not None), None)


def primary(summaries: Sequence[Summary]) -> str:
    """Return the primary metric of replicates: the first in priority that one of them has."""
    names = primary_names()
    present = (m for m in names if any(value(summary, m) is not None for summary in summaries))
    return next(present, names[0])


def require_declared(metric: str, summaries: Sequence[Summary]) -> None:
    """Raise UsageError for a metric that no summary has or, without summaries, is undeclared."""
    present = sorted({name for summary in summaries for name in summary})
    where = "in the summary of a valid replicate" if present else "one of config/metrics.tsv"
    names = present or [*declared()]
    if metric not in names and (present or get(metric) is None):
        hint = _suggestion(metric, names)
        raise UsageError(f"the metric must be {where}, found {metric}", hint=hint)


def name_option(metric: str) -> str:
    """Return the name of a metric, as an argparse `type`; UsageError if it is not declared."""
    require_declared(metric, [])
    return metric


def require_measured(metric: str, conditions: Iterable[Condition]) -> None:
    """Raise UsageError for a metric that no replicate of these conditions can have."""
    require_declared(metric, [])
    providers = set(declared()[metric].of)
    for condition in conditions:
        changed = {name for name, a in AXES.items() if getattr(condition, name) != a.default}
        if providers & {*ANY_CONDITION, condition.app, *changed}:
            return
    raise UsageError(
        f"the metric must be one that these cells have, found {metric}, a metric of "
        f"{', '.join(sorted(providers))}",
        hint="`losslab metrics` lists them; metrics of analysis are in replicates.csv",
    )


def problems(metric: str) -> list[str]:
    """List what is wrong with a metric's name; empty if it is declared."""
    if get(metric) is not None:
        return []
    suggestion = _suggestion(metric, [*declared()])
    return [f"metric must be one of config/metrics.tsv, found {metric}; {suggestion}"]


def undeclared(summary: Summary) -> list[str]:
    """Return an error message for each metric of a summary that is not declared."""
    return [
        f"metrics must be declared, in config/metrics.tsv or by their module, found {name}"
        for name in sorted(summary)
        if get(name) is None
    ]


def out_of_range(summary: Summary) -> list[str]:
    """Return an error message for each metric of a summary that has an impossible value.

    No metric is negative, no share is above 100 %, and Jain's index is at most 1.
    """
    # Differences of times that are measured in real time may be negative.
    numbers = {n: v for n, v in summary.items() if not n.startswith(REAL_TIME)}
    return [
        f"{name} must be a number from 0 to {_most(name):g}, found {number}"
        for name, number in sorted(numbers.items())
        if isinstance(number, int | float)
        if not 0 <= number <= _most(name) * (1 + ROUNDING)
    ]


def _most(name: str) -> float:
    if name in BOUNDED:
        return BOUNDED[name]
    metric = get(name)
    return 100.0 if metric is not None and metric.unit == "%" else LARGEST


def _suggestion(metric: str, names: Sequence[str]) -> str:
    return did_you_mean(metric, names).removeprefix("; ") or f"choose from {', '.join(names)}"
