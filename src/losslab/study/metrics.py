"""The metrics that replicates may have, as `config/metrics.tsv` declares them."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.reading import UsageError, read_rows
from losslab.reading.files import LARGEST, repeats
from losslab.study import features
from losslab.study.schemas import check_schema

FILE = Path(__file__).resolve().parents[3] / "config" / "metrics.tsv"
Summary = Mapping[str, Any]
CLOSE_NAMES = 3


@dataclass(frozen=True)
class Metric:
    """The declaration of a metric; the schema `metrics` describes its fields."""

    name: str
    label: str
    unit: str
    better: str
    primary: int | None
    of: tuple[str, ...]
    description: str

    @property
    def title(self) -> str:
        """Return its label with its unit, as an axis of a figure has it."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


def read(path: Path, more: Iterable[Mapping[str, str]] = ()) -> dict[str, Metric]:
    """Read declarations of metrics.

    `more` are rows of features that declare metrics of their own.
    """
    rows = [*read_rows(path, "\t"), *({"primary": "", **row} for row in more)]
    check_schema(rows, "metrics", str(path))
    for column in ("name", "primary"):
        if twice := repeats(row[column] for row in rows if row[column]):
            raise UsageError(f"each {column} must be once in {path}, found twice: {twice}")
    fields: list[dict[str, Any]] = [
        {**row, "primary": int(row["primary"] or 0) or None, "of": tuple(row["of"].split())}
        for row in rows
    ]
    return {each["name"]: Metric(**each) for each in fields}


@functools.cache
def declared() -> dict[str, Metric]:
    """Return the metrics of the project and of its features by name."""
    return read(FILE, (row for feature in features.found() for row in feature.metrics))


@functools.cache
def primary_names() -> tuple[str, ...]:
    """List the metrics that cells are judged by, the first that counts first."""
    ranked = [(its.primary, name) for name, its in declared().items() if its.primary]
    return tuple(name for _, name in sorted(ranked))


def value(summary: Summary, metric: str) -> float | None:
    """Return a metric; None where a summary has none, or no finite number."""
    found = summary.get(metric)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    # Compares exactly with integers of any size; false for nan.
    return float(found) if -LARGEST < found < LARGEST else None


def primary_value(summary: Summary) -> float | None:
    """Return what a replicate is judged by; None where it has no such thing."""
    return next((v for m in primary_names() if (v := summary.get(m)) is not None), None)


def primary(summaries: Sequence[Summary]) -> str:
    """Return what replicates are judged by: the first primary metric that one of them has."""
    names = primary_names()
    there = (m for m in names if any(value(each, m) is not None for each in summaries))
    return next(there, names[0])


def require_known(metric: str, summaries: Sequence[Summary]) -> None:
    """Refuse a metric that no summary has, or without any summary one that is not declared."""
    there = sorted({name for summary in summaries for name in summary})
    where = "in the summary of a valid replicate" if there else "one of config/metrics.tsv"
    known = there or [*declared()]
    if metric not in known:
        raise UsageError(f"the metric must be {where}, found {metric}", hint=_named(metric, known))


def problems(metric: str) -> list[str]:
    """Say what is wrong with the name of a metric; nothing if it is declared."""
    known = [*declared()]
    text = f"metric must be one of config/metrics.tsv, found {metric}; {_named(metric, known)}"
    return [] if metric in known else [text]


def undeclared(summary: Summary) -> list[str]:
    """Say which metrics of a summary are not declared."""
    return [
        f"metrics must be declared in config/metrics.tsv, found {name}"
        for name in sorted(summary.keys() - declared().keys())
    ]


def _named(metric: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(metric, known, CLOSE_NAMES, cutoff=0.5)
    return f"name one of {', '.join(close)}" if close else f"there are {', '.join(known)}"
