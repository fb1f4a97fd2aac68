"""Rows of a record of measured cells, such as docs/results/quick.tsv."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any

from losslab.reading import UsageError, number, read_rows, whole
from losslab.study import metrics
from losslab.study.intervals import mean_interval

# Significant digits of the recorded numbers.
DIGITS = 6


@dataclass(frozen=True, order=True)
class Row:
    """A recorded cell. `mean`, `low` and `high` are "" if the cell has no value or no interval."""

    study: str
    cell: str
    replicates: int
    valid: int
    metric: str
    mean: str
    low: str  # 95 % confidence interval of the mean
    high: str
    sha256: str  # of all raw files of all replicates

    @property
    def name(self) -> str:
        """STUDY/CELL."""
        return f"{self.study}/{self.cell}"


COLUMNS = tuple(field.name for field in fields(Row))


def numbers_of(summaries: Sequence[metrics.Summary], replicates: int) -> dict[str, Any]:
    """Return the numbers of a row, by column, given the valid replicates' summaries."""
    metric = metrics.primary(summaries)
    found = [metrics.value(summary, metric) for summary in summaries]
    values = [value for value in found if value is not None]
    low, high = mean_interval(values) or (None, None)
    return {
        "replicates": replicates,
        "valid": len(summaries),
        "metric": metric,
        "mean": _shown(fmean(values) if values else None),
        "low": _shown(low),
        "high": _shown(high),
    }


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.{DIGITS}g}"


def read(path: Path) -> dict[str, Row]:
    """Read a record; return its rows by STUDY/CELL; UsageError if a row is invalid or repeated."""
    found: dict[str, Row] = {}
    for line, row in enumerate(read_rows(path, "\t", COLUMNS), start=2):
        where = f"{path}, line {line}"
        replicates, valid = (whole(row[k], f"{k} of {where},") for k in ("replicates", "valid"))
        for key in ("mean", "low", "high"):
            if row[key]:
                number(row[key], f"{key} of {where},")
        one = Row(
            row["study"], row["cell"], replicates, valid,
            row["metric"], row["mean"], row["low"], row["high"], row["sha256"],
        )  # fmt: skip
        if one.name in found or len(one.sha256) != 64:
            raise UsageError(
                f"{where} must have the digest of a cell without another line, found {one.name}"
            )
        found[one.name] = one
    return found
