"""Compare two result sets cell by cell, with intervals."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from losslab.campaign.folder import read_json
from losslab.campaign.rerun import compare
from losslab.errors import LosslabError
from losslab.study.stopping import PRIMARY_METRICS

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class CellDifference:
    """A cell in two result sets; means of `metric` over valid replicates, ratio of B to A."""

    cell: str
    metric: str
    n: tuple[int, int]
    mean: tuple[float, float]
    ratio: float
    interval: tuple[float, float]
    paired: bool
    verdict: str  # "same bytes", "no difference", "differs" or "too few"


@dataclass(frozen=True)
class Comparison:
    """Two result sets."""

    cells: list[CellDifference]
    only_in_first: list[str]
    only_in_second: list[str]

    @property
    def agree(self) -> bool:
        """Tell whether both have the same cells and none differs."""
        lonely = self.only_in_first or self.only_in_second
        return not lonely and all(cell.verdict != "differs" for cell in self.cells)


def load_cells(folder: Path) -> dict[str, Path]:
    """Find the cell.json files below a folder, by STUDY/CELL.

    Raises:
        LosslabError: there is none.
    """
    found = {f"{p.parent.parent.name}/{p.parent.name}": p for p in folder.rglob("cell.json")}
    if not found:
        raise LosslabError(
            f"{folder} must hold measured cells, found no cell.json below it",
            hint="name a results folder of the workflow",
        )
    return found


def compare_sets(first: Path, second: Path, metric: str | None = None) -> Comparison:
    """Compare all cells that both folders have.

    Args:
        first: A results folder.
        second: Another.
        metric: What to compare; None takes what the cell's app is judged by.
    """
    a, b = load_cells(first), load_cells(second)
    return Comparison(
        cells=[
            compare_cell(name, a[name], b[name], metric) for name in sorted(a.keys() & b.keys())
        ],
        only_in_first=sorted(a.keys() - b.keys()),
        only_in_second=sorted(b.keys() - a.keys()),
    )


def compare_cell(name: str, first: Path, second: Path, metric: str | None) -> CellDifference:
    """Compare one cell, by pairs where both sets used the same seeds."""
    cells = [read_json(path) for path in (first, second)]
    chosen = metric or _primary_metric(cells[0])
    values = [_values(cell, chosen) for cell in cells]
    shared = sorted(values[0].keys() & values[1].keys())
    # Pairs with the same seed leave out the scatter that the seeds make in both sets alike.
    paired = bool(shared) and all(len(v) == len(shared) for v in values)
    samples = [[v[s] for s in (shared if paired else sorted(v))] for v in values]
    n = (len(samples[0]), len(samples[1]))
    if min(n) == 0:
        empty = (float("nan"), float("nan"))
        return CellDifference(name, chosen, n, empty, float("nan"), empty, paired, "too few")
    means = (fmean(samples[0]), fmean(samples[1]))
    ratio = means[1] / means[0] if means[0] else float("nan")
    interval = ratio_interval(samples[0], samples[1], paired)
    if _same_bytes(first, second, cells):
        verdict = "same bytes"
    elif min(n) < 2:
        verdict = "too few"
    else:
        verdict = "no difference" if interval[0] <= 1 <= interval[1] else "differs"
    return CellDifference(name, chosen, n, means, ratio, interval, paired, verdict)


def _primary_metric(cell: dict[str, Any]) -> str:
    summaries = [r["summary"] for r in cell["replicates"] if r["valid"]]
    for metric in PRIMARY_METRICS:
        if any(metric in summary for summary in summaries):
            return metric
    return PRIMARY_METRICS[0]


def _values(cell: dict[str, Any], metric: str) -> dict[int, float]:
    """Return the metric of each valid replicate by its seed."""
    return {
        replicate["seed"]: float(replicate["summary"][metric])
        for replicate in cell["replicates"]
        if replicate["valid"] and replicate["summary"].get(metric) is not None
    }


def _same_bytes(first: Path, second: Path, cells: list[dict[str, Any]]) -> bool:
    numbers = [len(cell["replicates"]) for cell in cells]
    if numbers[0] != numbers[1]:
        return False
    return all(
        compare(first.parent / str(number), second.parent / str(number)).whole
        for number in range(numbers[0])
    )


def ratio_interval(
    first: list[float], second: list[float], paired: bool, seed: int = 1
) -> tuple[float, float]:
    """Bootstrap (percentile, Efron 1979) the 95 % interval of mean(second) / mean(first)."""
    generator = random.Random(seed)
    ratios = []
    for _ in range(RESAMPLES):
        if paired:
            picks = generator.choices(range(len(first)), k=len(first))
            a, b = [first[i] for i in picks], [second[i] for i in picks]
        else:
            a = generator.choices(first, k=len(first))
            b = generator.choices(second, k=len(second))
        ratios.append(sum(b) / len(b) / (sum(a) / len(a)) if sum(a) else float("nan"))
    ratios.sort()
    edge = (1 - LEVEL) / 2
    return ratios[int(edge * RESAMPLES)], ratios[int((1 - edge) * RESAMPLES) - 1]


def as_json(comparison: Comparison) -> str:
    """Write a comparison for a machine; a number that is none is null."""

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    rows = [
        asdict(cell)
        | {
            "mean": [number(mean) for mean in cell.mean],
            "ratio": number(cell.ratio),
            "interval": [number(edge) for edge in cell.interval],
        }
        for cell in comparison.cells
    ]
    whole = asdict(comparison) | {"cells": rows, "agree": comparison.agree}
    return json.dumps(whole, indent=1)


def table(comparison: Comparison) -> str:
    """Format a comparison for a terminal."""
    rows = [("cell", "metric", "n", "A", "B", "B/A", "95 %", "verdict")]
    rows += [
        (
            cell.cell,
            cell.metric,
            f"{cell.n[0]}+{cell.n[1]}" + (" paired" if cell.paired else ""),
            f"{cell.mean[0]:.4g}",
            f"{cell.mean[1]:.4g}",
            f"{cell.ratio:.4f}",
            f"{cell.interval[0]:.3f} to {cell.interval[1]:.3f}",
            cell.verdict,
        )
        for cell in comparison.cells
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    for which, names in (("A", comparison.only_in_first), ("B", comparison.only_in_second)):
        lines += [f"only in {which}: {name}" for name in names]
    counts: dict[str, int] = {}
    for cell in comparison.cells:
        counts[cell.verdict] = counts.get(cell.verdict, 0) + 1
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return "\n".join(lines)
