"""Effects of a change on cells: changed bytes, and metrics that differ significantly.

Both sides have the same seeds, so runs are compared in pairs. A cell whose runs all have the same
bytes cannot differ. The tests of all other cells are one family, judged by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from losslab.campaign.results import Replicate, digest_of
from losslab.campaign.tables import write_csv
from losslab.reading import UsageError, read_rows
from losslab.study import metrics
from losslab.study.intervals import (
    LEVEL,
    Interval,
    difference_interval,
    holm,
    mean_interval,
    ratio_interval,
    t_quantile,
)

FORMAT = 1
# Parts of a manifest that follow from the measurement; `files` has the digests of all raw files.
DIGESTED = ("files", "summary", "observed", "reasons")
BETTER, WORSE, MOVED = "better", "worse", "different"
# Differences below this share of the value before are ignored.
MIN_CHANGE = 0.01
POWER = 0.8
# Columns of the trend of a branch.
TREND = ("commit", "date", "cell", "metric", "n", "mean", "low", "high")


@dataclass(frozen=True)
class Run:
    """A run of a cell: its digest and the metrics that are compared."""

    seed: int
    digest: str
    reasons: list[str]  # of its invalidity
    metrics: dict[str, float]


@dataclass(frozen=True)
class Difference:
    """A metric of a changed cell before and after a change; runs are paired by seed."""

    cell: str
    metric: str
    n: int
    before: float
    after: float
    ratio: float | None  # geometric mean of after / before
    # Confidence intervals of this comparison alone, not adjusted for the family.
    ratio_interval: Interval | None
    difference_interval: Interval | None
    p_value: float | None
    p_adjusted: float | None = None
    # Smallest change that the runs find with a probability of POWER; see `_smallest`.
    smallest: float | None = None

    @property
    def verdict(self) -> str:
        """Return better, worse or different for a significant difference, or else ""."""
        significant = self.p_adjusted is not None and self.p_adjusted < 1 - LEVEL
        change = self.after - self.before
        if not significant or abs(change) < MIN_CHANGE * abs(self.before):
            return ""
        sign = {"more": 1, "less": -1}.get(metrics.declared()[self.metric].better, 0)
        return MOVED if not sign else BETTER if sign * change > 0 else WORSE


@dataclass(frozen=True)
class CellChange:
    """A cell of which at least one run changed."""

    cell: str
    changed: list[int]  # numbers of the replicates that changed
    runs: int
    reasons: list[str]  # why runs are invalid after the change that were valid before
    differences: list[Difference]


def read_run(folder: Path, compared: Sequence[str]) -> Run:
    """Read a run after a check of its files; DamagedError if one is missing or was changed."""
    manifest = Replicate(folder).checked().manifest
    found = {name: metrics.value(manifest["summary"], name) for name in compared}
    values = {name: value for name, value in found.items() if value is not None}
    return Run(manifest["seed"], digest(manifest), manifest["reasons"], values)


def digest(manifest: Mapping[str, Any]) -> str:
    """Return the digest of a run's results, which does not depend on its instrument's name."""
    return digest_of({part: manifest.get(part) for part in DIGESTED})


Runs = Mapping[str, Sequence[Run]]


def compare(before: Runs, after: Runs, compared: Sequence[str]) -> list[CellChange]:
    """Compare the runs of cells, by name; return the cells that changed.

    `compared` are metrics. A cell that is absent in `after` did not change.
    """
    found = []
    for cell, now in after.items():
        # A cell ends with a replicate whose guest was lost.
        pairs = list(zip(before[cell], now, strict=False))
        changed = [at for at, (one, other) in enumerate(pairs) if one.digest != other.digest]
        if changed:
            new = dict.fromkeys(r for one, other in pairs if not one.reasons for r in other.reasons)
            rows = [row for name in compared if (row := _difference(cell, name, pairs))]
            found.append(CellChange(cell, changed, len(pairs), [*new], rows))
    return _judged(found)


def _difference(cell: str, metric: str, pairs: Sequence[tuple[Run, Run]]) -> Difference | None:
    """Compare a metric of the valid runs; None if a side has none."""
    values = [
        (one.metrics[metric], other.metrics[metric])
        for one, other in pairs
        if not (one.reasons or other.reasons) and metric in one.metrics and metric in other.metrics
    ]
    if not values:
        return None
    before, after = [one for one, _ in values], [other for _, other in values]
    ratio = ratio_interval(after, before, paired=True)
    differences = [other - one for one, other in values]
    return Difference(
        cell, metric, len(values), fmean(before), fmean(after), ratio.value, ratio.interval,
        difference_interval(differences), ratio.p_value,
    )  # fmt: skip


def _judged(changes: Sequence[CellChange]) -> list[CellChange]:
    """Adjust the p-values of all cells for their number."""
    tested = [d for cell in changes for d in cell.differences if d.p_value is not None]
    values = iter(holm([d.p_value for d in tested if d.p_value is not None]))
    return [
        replace(
            cell,
            differences=[
                d
                if d.p_value is None
                else replace(d, p_adjusted=next(values), smallest=_smallest(d, len(tested)))
                for d in cell.differences
            ],
        )
        for cell in changes
    ]


def _smallest(difference: Difference, tests: int) -> float | None:
    """Return the smallest change that a family of tests of this size finds with POWER.

    It is a share of the value before if the ratio has an interval, and else in the metric's unit.
    The scatter is that of the measured pairs. The level is that of Holm's first step, which is its
    strictest. None if the pairs do not scatter, so any change is found.
    """
    interval = difference.ratio_interval or difference.difference_interval
    if interval is None or difference.n < 2 or not all(map(math.isfinite, interval)):
        return None
    relative = difference.ratio_interval is not None
    low, high = map(math.log, interval) if relative else interval
    error = (high - low) / 2 / t_quantile(LEVEL, difference.n - 1)
    # The one-sided quantile of POWER.
    quantiles = t_quantile(1 - (1 - LEVEL) / tests, difference.n - 1) + t_quantile(
        2 * POWER - 1, difference.n - 1
    )
    if not error:
        return MIN_CHANGE if relative else None
    return max(math.expm1(quantiles * error), MIN_CHANGE) if relative else quantiles * error


def as_json(changes: Sequence[CellChange]) -> list[dict[str, Any]]:
    """Return changed cells as JSON-ready data, with null instead of numbers that are not finite."""

    def finite(value: Any) -> Any:
        if isinstance(value, tuple):
            return [finite(each) for each in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return [
        vars(cell)
        | {
            "differences": [
                {name: finite(value) for name, value in vars(each).items()}
                | {"verdict": each.verdict}
                for each in cell.differences
            ]
        }
        for cell in changes
    ]


def read_trend(path: Path) -> list[dict[str, str]]:
    """Read the table of `trend`, if there is one."""
    rows = read_rows(path, columns=TREND) if path.is_file() else []
    if more := [name for name in (rows[0] if rows else ()) if name not in TREND]:
        raise UsageError(f"{path} must only have the columns {', '.join(TREND)}, found {more[0]}")
    return rows


def trend(path: Path, commit: str, date: str, runs: Mapping[str, Sequence[Run]]) -> None:
    """Add the means of a commit's valid runs to a table; replace earlier rows of the commit."""
    rows = [row for row in read_trend(path) if row["commit"] != commit]
    for cell, its in runs.items():
        valid = [run.metrics for run in its if not run.reasons]
        for metric in dict.fromkeys(name for each in valid for name in each):
            values = [each[metric] for each in valid if metric in each]
            numbers = (len(values), fmean(values), *(mean_interval(values) or ("", "")))
            shown = [f"{each:.6g}" if each != "" else "" for each in numbers]
            rows.append(dict(zip(TREND, (commit, date, cell, metric, *shown), strict=True)))
    write_csv(path, TREND, rows)
