"""Terminal table of a comparison of two result sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tabulate import tabulate

from losslab.campaign.compare import (
    AGREEING,
    CORRECTION,
    CellDifference,
    CellVerdict,
    Comparison,
    counted,
)
from losslab.study.intervals import MIN_RUNS

HEAD = ("cell", "metric", "n", "A", "B", "B/A", "95 % CI", "p (adjusted)", "verdict")
# Problems shown per cell; the JSON has all.
MAX_PROBLEMS = 3


def text(comparison: Comparison) -> str:
    """Return a comparison as text: a row per cell, the problems and a conclusion."""
    rows = map(_row, comparison.cells)
    lines = [tabulate(rows, HEAD, tablefmt="plain", disable_numparse=True)]
    for side, names in (("A", comparison.only_in_first), ("B", comparison.only_in_second)):
        lines += [f"only in {side}: {name}" for name in names]
    for cell in comparison.cells:
        lines += [f"{cell.cell}: {problem}" for problem in cell.problems[:MAX_PROBLEMS]]
        if (more := len(cell.problems) - MAX_PROBLEMS) > 0:
            lines.append(f"{cell.cell}: and {more} more problems (all are in --json)")
    return "\n".join([*lines, "", *_conclusion(comparison)])


def _row(cell: CellDifference) -> tuple[str, ...]:
    interval = cell.confidence_interval
    return (
        cell.cell,
        cell.metric,
        _runs(cell),
        *(_number(mean, ".4g") for mean in cell.mean),
        _number(cell.ratio, ".4f"),
        f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else "",
        _number(cell.p_adjusted, ".2g"),
        cell.verdict,
    )


def _runs(cell: CellDifference) -> str:
    counts = [
        str(n) if n == replicates else f"{n} of {replicates}"
        for n, replicates in zip(cell.n, cell.replicates, strict=True)
    ]
    return " + ".join(counts) + (" paired" if cell.paired else "")


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _conclusion(comparison: Comparison) -> Iterator[str]:
    """Yield the findings, their confidence, and whether the sets agree."""
    counts = Counter(cell.verdict for cell in comparison.cells)
    if counts[CellVerdict.TOO_FEW]:
        yield (
            f"Fewer than {MIN_RUNS} runs on a side have no confidence interval, and no difference "
            "between them is called significant."
        )
    if counts[CellVerdict.NOT_MEASURED]:
        yield f"{counted(counts[CellVerdict.NOT_MEASURED])} without the metric: not compared."
    if any(cell.p_adjusted is not None for cell in comparison.cells):
        yield (
            f"Significant: p < 0.05, adjusted for the number of cells ({CORRECTION}). The "
            "confidence interval (CI) is a cell's own."
        )
    undetected = [
        (ends[1] / ends[0], cell.cell, ends)
        for cell in comparison.cells
        if (ends := cell.confidence_interval)
        and ends[0] > 0
        and cell.verdict is CellVerdict.NO_DIFFERENCE
    ]
    if undetected:
        _, name, (low, high) = max(undetected)
        yield (
            "The widest confidence interval without a significant difference is that of "
            f"{name}: {low:.3f} to {high:.3f}."
        )
    found = ", ".join(f"{v} in {counted(counts[v])}" for v in AGREEING if counts[v])
    reasons = "; ".join(comparison.reasons)
    yield f"A and B agree: {found}." if comparison.agree else f"A and B do not agree: {reasons}."
