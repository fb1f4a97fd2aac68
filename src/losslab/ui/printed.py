"""Tables of cells that vary in some axes, with their figure, and of a comparison."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from losslab.campaign.compare import (
    AGREEING,
    CORRECTION,
    CellDifference,
    CellVerdict,
    Comparison,
    counted,
)
from losslab.campaign.results import MeasuredCell
from losslab.campaign.tables import write_csv
from losslab.study import metrics
from losslab.study.axes import short
from losslab.study.condition import AXES, Condition
from losslab.study.intervals import MIN_RUNS, mean_interval
from losslab.ui import plot

# Columns of every table, in addition to the varied axes and the drawn metric.
MORE = (
    "goodput_mbit",
    "retransmits",
    "rtt_loaded_ms",
    "queue_mean_packets",
    "loss_measured_percent",
)
DIFF_HEAD = ("cell", "metric", "n", "A", "B", "B/A", "95 % CI", "p (adjusted)", "verdict")
# Problems shown per cell; the JSON has all.
MAX_PROBLEMS = 3
STATISTICS = ("n_runs", "n_valid", "n_values", "mean", "low", "high", "least", "most")


def rows(
    measured: Sequence[MeasuredCell], varied: Sequence[str], metric: str | None
) -> list[dict[str, Any]]:
    """Return a row per cell: the mean of its valid runs with a 95 % confidence interval.

    `varied` has the axes with several values. The metric is by default the app's main one.
    """
    if metric is not None:
        metrics.require_declared(metric, [])
    table = []
    for cell in measured:
        runs, valid = cell.rows, cell.summaries
        name = metric or metrics.primary(valid)
        values = [*cell.values(name).values()]
        low, high = mean_interval(values) or (None, None)
        table.append(
            {axis: getattr(cell.condition, axis) for axis in varied}
            | {"metric": name, "n_runs": len(runs), "n_valid": len(valid), "n_values": len(values)}
            | {"mean": _mean(values), "low": low, "high": high}
            | {"least": min(values, default=None), "most": max(values, default=None)}
            | {more: _mean(cell.values(more).values()) for more in MORE}
            | {"reasons": "; ".join(dict.fromkeys(each for run in runs for each in run["reasons"]))}
        )
    return table


def cell_name(condition: Condition, varied: Sequence[str]) -> str:
    """Return the name of a cell in messages: its values of the varied axes."""
    return ", ".join(f"{name} {short(getattr(condition, name))}" for name in varied)


def _mean(values: Collection[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _metrics(found: Sequence[Mapping[str, Any]]) -> list[str]:
    measured = [row["metric"] for row in found if row["mean"] is not None]
    return list(dict.fromkeys(measured)) or [found[0]["metric"]]


def write(
    found: Sequence[Mapping[str, Any]], varied: Sequence[str], folder: Path, figure: bool = True
) -> list[Path]:
    """Write the table and, if `figure`, the figures; return their paths."""
    table = folder / "sweep.csv"
    columns = [*varied, "metric", *STATISTICS, *MORE, "reasons"]
    write_csv(table, columns, [dict(row) for row in found])
    if not figure or all(row["mean"] is None for row in found):
        return [table]
    figures = [folder / "sweep.svg", folder / "sweep.png"]
    draw(found, varied, figures)
    return [table, *figures]


def draw(
    table: Sequence[Mapping[str, Any]], varied: Sequence[str], figures: Sequence[Path]
) -> None:
    """Draw the means to files: the numeric axis with most values is the x axis."""
    numbers = [name for name in varied if AXES[name].kind != "str"]
    texts = [name for name in varied if AXES[name].kind == "str"]
    across = max(numbers, key=lambda name: len({row[name] for row in table}), default=None)
    others = [*texts, *(name for name in numbers if name != across)]
    several = len(_metrics(table)) > 1
    drawn = [
        {
            "x": "" if across is None else row[across],
            "line": "all" if not others else str(row[others[0]]),
            "panel": ", ".join([*([_title(row["metric"])] if several else []),
                                *(f"{name} {row[name]}" for name in others[1:])]),
            "x_label": "" if across is None else label(across), "y_label": _title(row["metric"]),
            **{name: row[name] for name in ("mean", "low", "high", "n_values")},
        }
        for row in table
    ]  # fmt: skip
    plot.draw("sweep.R", list(drawn[0]), drawn, figures)


def label(name: str) -> str:
    """Return the label of an axis in a figure, with its unit."""
    unit = AXES[name].unit
    text = name.rpartition("_")[0] if unit and "_" in name else name
    text = text.replace("_", " ").replace("rtt", "RTT")
    return f"{text[0].upper()}{text[1:]}" + (f" ({unit})" if unit else "")


def _title(metric: str) -> str:
    declared = metrics.get(metric)
    return declared.title if declared else metric


def text(found: Sequence[Mapping[str, Any]], varied: Sequence[str]) -> str:
    """Return the table for a terminal."""
    metric, *several = _metrics(found)
    lines = [[*varied, *(["metric", "mean"] if several else [metric]), "95 % CI", "n"]]
    for row in found:
        ends = [f"{row[end]:.4g}" for end in ("low", "high") if row[end] is not None]
        numbers = [_number(row["mean"], ".4g") or "none", " to ".join(ends)]
        count, runs = row["n_values"], row["n_runs"]
        numbers.append(str(count) if count == runs else f"{count} of {runs}")
        named = [row["metric"]] if several else []
        lines.append([*(short(row[name]) for name in varied), *named, *numbers])
    few = any(row["n_values"] < MIN_RUNS for row in found)
    note = [f"Cells with fewer than {MIN_RUNS} valid runs have no confidence interval (CI)."]
    table = tabulate(lines, headers="firstrow", tablefmt="plain", disable_numparse=True)
    return "\n".join([table, *(note if few else [])])


def diff_text(comparison: Comparison) -> str:
    """Return a comparison as text: a row per cell, the problems and a conclusion."""
    rows = map(_row, comparison.cells)
    lines = [tabulate(rows, DIFF_HEAD, tablefmt="plain", disable_numparse=True)]
    for side, names in (("A", comparison.only_in_first), ("B", comparison.only_in_second)):
        lines += [f"only in {side}: {name}" for name in names]
    for cell in comparison.cells:
        lines += [f"{cell.cell}: {problem}" for problem in cell.problems[:MAX_PROBLEMS]]
        if (more := len(cell.problems) - MAX_PROBLEMS) > 0:
            lines.append(f"{cell.cell}: and {more} more problems (all are in --json)")
    return "\n".join([*lines, "", *_conclusion(comparison)])


def _row(cell: CellDifference) -> tuple[str, ...]:
    interval = cell.confidence_interval
    counts = [
        str(n) if n == replicates else f"{n} of {replicates}"
        for n, replicates in zip(cell.n, cell.replicates, strict=True)
    ]
    return (
        cell.cell, cell.metric, " + ".join(counts) + (" paired" if cell.paired else ""),
        *(_number(mean, ".4g") for mean in cell.mean), _number(cell.ratio, ".4f"),
        f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else "",
        _number(cell.p_adjusted, ".2g"), cell.verdict,
    )  # fmt: skip


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
    versions = Counter(part for cell in comparison.cells for part in cell.versions)
    for part, count in versions.items():
        yield f"A and B have another {part} in {counted(count)}."
    if counts[CellVerdict.DURATION]:
        yield (
            f"{counted(counts[CellVerdict.DURATION])} measured for another time: losslab compares "
            "no bytes of such runs. Measure with the duration_s and warmup_s of the other side."
        )
    same = [c for c in comparison.cells if c.verdict is CellVerdict.NO_DIFFERENCE]
    intervals = [(*ends, c.cell) for c in same if (ends := c.confidence_interval) and ends[0] > 0]
    if intervals:
        low, high, name = max(intervals, key=lambda each: each[1] / each[0])
        yield (
            "The widest confidence interval without a significant difference is that of "
            f"{name}: {low:.3f} to {high:.3f}."
        )
    verdicts = ", ".join(f"{v} in {counted(counts[v])}" for v in AGREEING if counts[v])
    reasons = "; ".join(comparison.reasons)
    yield f"A and B agree: {verdicts}." if comparison.agree else f"A and B do not agree: {reasons}."
