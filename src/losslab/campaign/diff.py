"""Comparison of two result sets by cell: files, means, and ratios with confidence intervals.

Each cell has one test. With hundreds of cells, some differ by chance at any level. The p-values are
therefore adjusted by the false discovery rate (`study.intervals.adjusted`). If nothing differs, and
cells are independent or positively dependent, the comparison fails with a probability of at most
5 %. docs/how-to/compare.md describes the methods and their sources.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Any

from losslab.campaign.cellfiles import Cell, Replicate, compare_files, load_cells
from losslab.study import metrics
from losslab.study.condition import AXES
from losslab.study.intervals import LEVEL, MIN_RUNS, Interval, adjusted, ratio_interval
from losslab.study.schemas import check_schema

# Version of the JSON output (workflow/schemas/diff.schema.yaml).
FORMAT = 1
# Limit of the quoted characters of a value that is no finite number.
MAX_SHOWN_LENGTH = 40
CORRECTION = "Benjamini-Hochberg"


class Verdict(StrEnum):
    """The verdict on a compared cell; docs/how-to/compare.md explains each."""

    SAME_BYTES = "same bytes"
    EQUAL = "deterministic, equal"
    NO_DIFFERENCE = "no significant difference"
    NOT_MEASURED = "metric not measured"
    UNEQUAL = "deterministic, different"
    DIFFERENT = "significantly different"
    TOO_FEW = "too few runs"
    INCONSISTENT = "inconsistent replicates"
    CONDITIONS = "different conditions"
    OTHER_BYTES = "different bytes"
    OTHER_NUMBERS = "different numbers"


AGREEING = (Verdict.SAME_BYTES, Verdict.EQUAL, Verdict.NO_DIFFERENCE)


@dataclass(frozen=True, kw_only=True)
class CellDifference:
    """The comparison of a cell in two result sets; pairs are values of A and B."""

    cell: str
    metric: str
    replicates: tuple[int, int]
    n: tuple[int, int]  # number of compared runs
    mean: tuple[float | None, float | None]  # arithmetic
    ratio: float | None = None  # geometric mean of B / A
    confidence_interval: Interval | None = None  # of the ratio, not adjusted for other cells
    p_value: float | None = None
    p_adjusted: float | None = None
    paired: bool
    verdict: Verdict = Verdict.TOO_FEW
    problems: list[str]


@dataclass(frozen=True)
class Comparison:
    """The comparison of two result sets."""

    cells: list[CellDifference]
    only_in_first: list[str]
    only_in_second: list[str]
    metric: str | None = None  # None: the primary metric of each cell
    common: bool = False  # whether only cells and files that both have are compared

    @property
    def reasons(self) -> list[str]:
        """Why the sets do not agree; empty if they agree."""
        counts = Counter(cell.verdict for cell in self.cells)
        # A chosen metric may be missing in cells of another app.
        passing = (*AGREEING, Verdict.NOT_MEASURED) if self.metric else AGREEING
        failing = [verdict for verdict in Verdict if verdict not in passing]
        found = [f"{v} in {cells(counts[v])}" for v in failing if counts[v]]
        if not self.common:
            for side, names in (("A", self.only_in_first), ("B", self.only_in_second)):
                found += [f"{cells(len(names))} in {side} only"] if names else []
        if not found and not any(counts[verdict] for verdict in AGREEING):
            found.append("no cell was compared")
        return found

    @property
    def agree(self) -> bool:
        """True if cells were compared and all agree."""
        return not self.reasons


def cells(count: int) -> str:
    """Format a number of cells."""
    return f"{count} cell" if count == 1 else f"{count} cells"


def compare_sets(
    first: Path, second: Path, metric: str | None = None, common: bool = False
) -> Comparison:
    """Compare the cells of two results folders by a metric; None: each cell's primary metric.

    With `common`, compare only cells and files that both have. Raises LosslabError if a folder has
    no cells or invalid ones, or no replicate has the metric.
    """
    a, b = load_cells(first), load_cells(second)
    if metric is not None:
        everything = [s for side in (a, b) for cell in side.values() for s in cell.summaries]
        metrics.require_declared(metric, everything)
    compared = [
        compare_cell(name, a[name], b[name], metric, common) for name in sorted(a.keys() & b.keys())
    ]
    only_in_first, only_in_second = sorted(a.keys() - b.keys()), sorted(b.keys() - a.keys())
    return Comparison(judged(compared), only_in_first, only_in_second, metric, common)


def judged(compared: Sequence[CellDifference]) -> list[CellDifference]:
    """Adjust the cells' p-values for multiple comparisons, and set the verdicts that follow."""
    tested = [cell for cell in compared if cell.p_value is not None]
    by_cell = dict(
        zip((c.cell for c in tested), adjusted([c.p_value or 0.0 for c in tested]), strict=True)
    )
    return [
        replace(cell, p_adjusted=p, verdict=Verdict.DIFFERENT if p < 1 - LEVEL else cell.verdict)
        if (p := by_cell.get(cell.cell)) is not None
        else cell
        for cell in compared
    ]


def compare_cell(
    name: str, first: Cell, second: Cell, metric: str | None = None, common: bool = False
) -> CellDifference:
    """Compare one cell, in pairs if at least five seeds are on both sides.

    Pairs of the same seed remove the variation between seeds. The verdict assumes that no
    difference is significant; see `judged`.
    """
    chosen = metric or metrics.primary([*first.summaries, *second.summaries])
    values = _values(first, chosen), _values(second, chosen)
    shared = sorted(values[0].keys() & values[1].keys())
    paired = len(shared) >= MIN_RUNS
    a, b = ([v[seed] for seed in (shared if paired else sorted(v))] for v in values)
    found = CellDifference(
        cell=name,
        metric=chosen,
        replicates=(len(first.replicates), len(second.replicates)),
        n=(len(a), len(b)),
        mean=(fmean(a) if a else None, fmean(b) if b else None),
        paired=paired,
        problems=_condition_problems(first, second),
    )
    if found.problems:
        return replace(found, verdict=Verdict.CONDITIONS)
    file_problems, same_bytes = compare_files(first, second, common)
    measured = any(values) or not (first.summaries and second.summaries)
    problems = _value_problems(first, second, chosen if measured else None) + file_problems
    ratio = ratio_interval(b, a, paired) if a and b else None
    found = replace(found, problems=problems, ratio=_finite(ratio.value if ratio else None))
    if same_bytes and not problems:
        return replace(found, verdict=Verdict.SAME_BYTES)
    agreeing = Verdict.NO_DIFFERENCE
    if not measured:
        agreeing = Verdict.NOT_MEASURED
    elif ratio is None or min(found.n) < MIN_RUNS:
        return found
    elif len({*a}) == len({*b}) == 1:
        agreeing = Verdict.EQUAL
        if a[0] != b[0]:
            return replace(found, verdict=Verdict.UNEQUAL)
    else:
        found = replace(found, confidence_interval=ratio.interval, p_value=ratio.p_value)
    return replace(found, verdict=Verdict.INCONSISTENT if problems else agreeing)


def _values(cell: Cell, metric: str) -> dict[int, float]:
    return {
        each.seed: value
        for each in cell.replicates
        if each.valid and (value := metrics.value(each.summary, metric)) is not None
    }


def _condition_problems(first: Cell, second: Cell) -> list[str]:
    values = (
        (axis, getattr(first.condition, axis), getattr(second.condition, axis)) for axis in AXES
    )
    return [f"{axis} is {one} in A and {other} in B" for axis, one, other in values if one != other]


def _value_problems(first: Cell, second: Cell, metric: str | None) -> list[str]:
    """List the replicates that lack a value although the other side has one for their seed.

    Without this check, a cell could agree of which only some runs are valid. Without a metric,
    replicates only must be valid.
    """

    def problem(each: Replicate) -> str:
        if not each.valid:
            return "invalid"
        if metric is None or metrics.value(each.summary, metric) is not None:
            return ""
        return f"valid, but {metric} is {str(each.summary.get(metric))[:MAX_SHOWN_LENGTH]}"

    found = []
    for side, cell, other in (("A", first, second.by_seed), ("B", second, first.by_seed)):
        for each in cell.replicates:
            text = problem(each)
            if text and (each.seed not in other or not problem(other[each.seed])):
                found.append(f"replicate {each.number} (seed {each.seed}) of {side} is {text}")
    return found


def _finite(value: float | None) -> float | None:
    """Return a finite number unchanged; None for others, which JSON cannot represent."""
    return value if value is not None and math.isfinite(value) else None


def as_json(comparison: Comparison) -> str:
    """Return a comparison as JSON, by workflow/schemas/diff.schema.yaml."""

    def row(cell: CellDifference) -> dict[str, Any]:
        interval = cell.confidence_interval
        ends = [_finite(end) for end in interval] if interval else None
        return asdict(cell) | {"confidence_interval": ends, "verdict": str(cell.verdict)}

    data = {
        "format": FORMAT,
        "agree": comparison.agree,
        "reasons": comparison.reasons,
        "confidence_level": LEVEL,
        "correction": CORRECTION,
        "metric": comparison.metric,
        "common": comparison.common,
        "cells": [row(cell) for cell in comparison.cells],
        "only_in_first": comparison.only_in_first,
        "only_in_second": comparison.only_in_second,
    }
    document = json.loads(json.dumps(data, allow_nan=False))
    check_schema(document, "diff", "the comparison")
    return json.dumps(document, indent=1)
