"""Cells that vary in some axes, as a table in a file and in a terminal, and as a figure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab.campaign import integrity
from losslab.campaign.collect import write_csv
from losslab.screen import plot
from losslab.study.condition import AXES, Condition
from losslab.study.stopping import NORMAL_QUANTILE, PRIMARY_METRICS, T_QUANTILES

# What the table has of every cell, beside the axes that vary and what is drawn.
MORE = (
    "goodput_mbit",
    "retransmits",
    "rtt_loaded_ms",
    "queue_mean_packets",
    "loss_measured_percent",
)
STATISTICS = ("n_runs", "n_valid", "mean", "low", "high", "least", "most")
# Of fewer, an interval says more of the number of runs than of the cell.
INTERVAL_RUNS = 5

# Names end in their units; and what is an abbreviation in them.
UNITS = {
    "mbit": "Mbit/s", "percent": "%", "ms": "ms", "s": "s", "packets": "packets", "kb": "kB",
}  # fmt: skip
CAPITALS = {"rtt": "RTT"}


def rows(
    measured: Sequence[tuple[Condition, Path]], varied: Sequence[str], metric: str | None
) -> list[dict[str, Any]]:
    """Sum cells up: the mean of the valid runs with its 95 % interval of Student's t.

    Args:
        measured: Each cell's condition, and the cell.json of its runs.
        varied: Which axes have several values.
        metric: What is looked at; by default what the runs are judged by.
    """
    found = []
    for condition, path in measured:
        runs = integrity.read_cell(path)["replicates"]
        valid = [run["summary"] for run in runs if run["valid"]]
        name = metric or next((m for m in PRIMARY_METRICS if valid and m in valid[0]), MORE[0])
        numbers = [v for run in valid if (v := run.get(name)) is not None]
        found.append(
            {axis: getattr(condition, axis) for axis in varied}
            | {"metric": name, "n_runs": len(runs), "n_valid": len(valid)}
            | interval(numbers)
            | {"least": min(numbers, default=None), "most": max(numbers, default=None)}
            | {more: _mean(valid, more) for more in MORE}
            | {"reasons": "; ".join(dict.fromkeys(why for run in runs for why in run["reasons"]))}
        )
    return found


def interval(numbers: Sequence[float]) -> dict[str, float | None]:
    """Return the mean and the ends of its 95 % interval; no ends of fewer than five."""
    if not numbers:
        return {"mean": None, "low": None, "high": None}
    mean, n = statistics.fmean(numbers), len(numbers)
    if n < INTERVAL_RUNS:
        return {"mean": mean, "low": None, "high": None}
    t = T_QUANTILES[n - 2] if n - 2 < len(T_QUANTILES) else NORMAL_QUANTILE
    half = t * statistics.stdev(numbers) / math.sqrt(n)
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _mean(valid: Sequence[Mapping[str, Any]], name: str) -> float | None:
    numbers = [value for run in valid if (value := run.get(name)) is not None]
    return statistics.fmean(numbers) if numbers else None


def write(found: Sequence[Mapping[str, Any]], varied: Sequence[str], folder: Path) -> list[Path]:
    """Write table and figure; return their files."""
    table = folder / "sweep.csv"
    columns = [*varied, "metric", *STATISTICS, *MORE, "reasons"]
    write_csv(table, columns, [dict(row) for row in found])
    if all(row["mean"] is None for row in found):
        return [table]
    figures = [folder / "sweep.svg", folder / "sweep.png"]
    numbers = [name for name in varied if AXES[name].kind != "str"]
    words = [name for name in varied if AXES[name].kind == "str"]
    across = max(numbers, key=lambda name: len({row[name] for row in found}), default=None)
    others = [*words, *(name for name in numbers if name != across)]
    drawn = [
        {
            "x": "" if across is None else row[across],
            "line": "all" if not others else str(row[others[0]]),
            "panel": ", ".join(f"{name} {row[name]}" for name in others[1:]),
            "x_label": "" if across is None else label(across), "y_label": label(row["metric"]),
            **{name: row[name] for name in ("mean", "low", "high", "n_valid")},
        }
        for row in found
    ]  # fmt: skip
    plot.draw("sweep.R", list(drawn[0]), drawn, figures)
    return [table, *figures]


def label(name: str) -> str:
    """Turn the name of an axis or a metric, whose last word is its unit, into an axis's words."""
    words, _, unit = name.rpartition("_")
    if not words or unit not in UNITS:
        return name.replace("_", " ")
    text = " ".join(CAPITALS.get(word, word) for word in words.split("_"))
    return f"{text[0].upper()}{text[1:]} ({UNITS[unit]})"


def text(found: Sequence[Mapping[str, Any]], varied: Sequence[str]) -> str:
    """Write the table for a terminal."""
    metric = found[0]["metric"]
    head = [*varied, metric, "95 % interval", "n"]
    lines = [head]
    for row in found:
        ends = [f"{row[end]:.4g}" for end in ("low", "high") if row[end] is not None]
        mean = "none" if row["mean"] is None else f"{row['mean']:.4g}"
        count = str(row["n_valid"])
        count += f" of {row['n_runs']}" if row["n_valid"] != row["n_runs"] else ""
        lines.append([*(word(row[name]) for name in varied), mean, " to ".join(ends), count])
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def word(value: object) -> str:
    """Write a value of an axis."""
    return f"{value:g}" if isinstance(value, float) else str(value)
