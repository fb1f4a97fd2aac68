"""Tidy tables of a study's replicates, for the statistics in R."""

from __future__ import annotations

import csv
import math
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from losslab.backends.base import GUEST
from losslab.campaign import limiters
from losslab.campaign.results import MeasuredCell, Replicate, Row
from losslab.emulation.app import apps
from losslab.emulation.flows.outcome import TABLE
from losslab.study.condition import AXES, Condition
from losslab.study.intervals import StoppingRule
from losslab.study.metrics import declared

if TYPE_CHECKING:
    from losslab.reading import Samples

WRITER = "Written by `python -m bench.readme --tables`."
# Names of connections that carry data, by source port.
FLOW_NAMES = {str(port): name for app in apps().values() for port, name in app.ports.items()}
# More flows would make the figures unreadable.
MAX_BACKGROUND_FLOWS = 9
FLOW_SAMPLES = (
    "flow", "t_s", "cwnd_packets", "ssthresh_packets", "srtt_ms", "pacing_mbit", "delivery_mbit",
)  # fmt: skip
QUEUE_SAMPLES = ("t_s", "backlog_packets", "backlog_bytes", "drops")
NAMES = ("study", "block", "cell")
# Of tables with many rows per replicate; the axes are in the table of cells.
SAMPLE_KEYS = (*NAMES, "replicate")
REPLICATE_COLUMNS = (
    *NAMES, *AXES, "replicate", "seed", "valid", "reasons", "attempt", "earlier_reasons",
    "error_share",
)  # fmt: skip
INTERVAL_COLUMNS = (*SAMPLE_KEYS, "t_s", "goodput_mbit")
CELL_COLUMNS = (
    *NAMES, *AXES, "n_replicates", "n_valid", "reasons", "unpinned", "hosts",
    "place", "n_left_out", "recorded",
)  # fmt: skip
CRITERIA_COLUMNS = (
    "algorithm", "criterion", "section", "title", "scenario", "metric", "value", "low", "high", "n",
    "unit", "limit", "at_least", "at_most", "limit_is", "limit_because", "against", "verdict",
    "absent", "cells",
)  # fmt: skip

# The end of a second in s, and the mean goodput in Mbit/s.
Second = tuple[int, float]


@dataclass(frozen=True)
class CellNumbers:
    """The numbers of a measured cell that tables need. The lists have an entry per replicate."""

    content: Row  # of its cell.json
    analysed: list[dict[str, float]]  # metrics of the analysis; empty if invalid
    intervals: list[list[Second]]  # empty if invalid, or if the app has no goodput over time
    # Samples of the first valid replicate, if wanted: its number (`replicate`), and rows of its
    # flows (FLOW_SAMPLES) and of the queue (QUEUE_SAMPLES).
    series: Row | None
    hosts: list[Row]  # the content of each host.json


def numbers_of(cell: MeasuredCell, series: bool = False) -> CellNumbers:
    """Return the numbers of a cell, with or without samples."""
    condition, app = cell.checked().condition, apps()[cell.condition.app]
    port = next(iter(app.ports), 0)
    times = condition.warmup_s, condition.duration_s
    analysed: list[dict[str, float]] = [{} for _ in cell.rows]
    intervals: list[list[Second]] = [[] for _ in cell.rows]
    samples: Row | None = None
    for number, (row, replicate) in enumerate(zip(cell.rows, cell.replicates, strict=True)):
        if not row["valid"]:
            continue
        analysed[number] |= limiters.of_samples(replicate.samples("tcp.csv"), port, condition)
        if app.per_second:
            goodputs = replicate.samples("intervals.csv")
            analysed[number] |= other_windows(goodputs, *times)
            intervals[number] = one_second_means(goodputs, *times)
        if series and samples is None:
            names, tcp = flow_names(replicate.folder), replicate.table("tcp.csv")
            named = (row | {"flow": names[row["flow"]]} for row in tcp if row["flow"] in names)
            queue = replicate.table("queue.csv")
            samples = {
                "replicate": number,
                "flows": [{key: row[key] for key in FLOW_SAMPLES} for row in named],
                "queue": [{key: row[key] for key in QUEUE_SAMPLES} for row in queue],
            }
    hosts = [each.host for each in cell.replicates]
    return CellNumbers(cell.content, analysed, intervals, samples, hosts)


def flow_names(folder: Path) -> dict[str, str]:
    """Return the names of a replicate's sampled flows, by source port.

    Background flows with a limited size and uploads are left out, and so are all after the first
    nine.
    """
    flows = Replicate(folder).table(TABLE)
    rows = [row for row in flows if not row["size_bytes"] and row["direction"] == "data"]
    rows.sort(key=lambda row: [int(part) for part in row["name"].split("-")])
    return FLOW_NAMES | {
        row["source_port"]: f"{row['algorithm']} {row['name']}"
        for row in rows[:MAX_BACKGROUND_FLOWS]
    }


def other_windows(goodputs: Samples, warmup_s: float, duration_s: float) -> dict[str, float]:
    """Return the mean goodput in Mbit/s over other windows than the measurement window.

    The windows show the influence of the warm-up and of the run's length: the first and second half
    of the measurement window (`early`, `late`), and the run including the warm-up (`whole`).
    """
    middle_s = (warmup_s + duration_s) / 2
    windows = {
        "early": (warmup_s, middle_s), "late": (middle_s, duration_s), "whole": (0.0, duration_s),
    }  # fmt: skip
    means = {}
    for name, (start_s, end_s) in windows.items():
        megabits = seconds = before_s = 0.0
        for until_s, goodput_mbit in limiters.column(goodputs, "goodput_mbit"):
            inside_s = max(0.0, min(until_s, end_s) - max(before_s, start_s))
            megabits += inside_s * goodput_mbit
            seconds += inside_s
            before_s = until_s
        if seconds > 0:
            means[f"{name}_goodput_mbit"] = megabits / seconds
    return means


def one_second_means(goodputs: Samples, warmup_s: float, duration_s: float) -> list[Second]:
    """Average goodputs of intervals of up to 1 s over whole seconds, from the warm-up to the end.

    The last second may lack its last 0.1 s.
    """
    seconds: dict[int, list[float]] = defaultdict(list)
    before_s = 0.0
    for end_s, goodput_mbit in limiters.column(goodputs, "goodput_mbit"):
        middle_s = (before_s + end_s) / 2
        before_s = end_s
        if warmup_s <= middle_s < duration_s:
            seconds[math.ceil(middle_s)].append(goodput_mbit)
    return [(end, sum(values) / len(values)) for end, values in sorted(seconds.items())]


@dataclass
class Tables:
    """A study's tables: cells, replicates, goodputs per second, samples of flows and queue."""

    cells: list[Row] = field(default_factory=list)
    replicates: list[Row] = field(default_factory=list)
    intervals: list[Row] = field(default_factory=list)
    flows: list[Row] = field(default_factory=list)
    queue: list[Row] = field(default_factory=list)
    criteria: list[Row] = field(default_factory=list)  # of a study with a suite

    def metrics(self) -> list[str]:
        """Return the columns of replicates in addition to the fixed ones, in alphabetical order."""
        return sorted({name for row in self.replicates for name in row} - set(REPLICATE_COLUMNS))

    def write(self, folder: Path, study: str) -> None:
        """Write each table as STUDY/TABLE.csv to a folder; missing values are empty fields."""
        columns = {
            "cells": CELL_COLUMNS,
            "replicates": (*REPLICATE_COLUMNS, *self.metrics()),
            "intervals": INTERVAL_COLUMNS,
            "flows": (*SAMPLE_KEYS, *FLOW_SAMPLES),
            "queue": (*SAMPLE_KEYS, *QUEUE_SAMPLES),
            "criteria": CRITERIA_COLUMNS,
        }
        for table, names in columns.items():
            write_csv(folder / study / f"{table}.csv", names, getattr(self, table))


def gather(
    cells: Iterable[CellNumbers],
    left_out: Mapping[tuple[str, str], int] = MappingProxyType({}),
    rules: Sequence[StoppingRule] = (),
    recorded: Collection[str] = (),
) -> Tables:
    """Put cells into tables.

    `left_out` has the number of cells, by study and block, that the campaign does not measure.
    Without stopping `rules`, every number of replicates was fixed. `recorded` has the names of the
    cells that are from a record.
    """
    tables, measured = Tables(), list(cells)
    fixed = [StoppingRule(1, 1)] * len(measured)
    for data, rule in zip(measured, rules or fixed, strict=True):
        cell = data.content
        condition = Condition.from_json(cell["condition"])
        source = {"recorded": "TRUE" if cell["cell"] in recorded else "FALSE"}
        tables.cells.append(cell_row(cell, condition) | source)
        names = {key: cell[key] for key in NAMES}
        shared = names | condition.to_json()
        shared["error_share"] = rule.error_share(len(cell["replicates"]))
        for number, replicate in enumerate(cell["replicates"]):
            summary = dict(replicate["summary"])
            # The column `rtt_ms` is the configured one.
            summary["rtt_measured_ms"] = summary.pop("rtt_ms", None)
            row = {key: replicate[key] for key in ("seed", "attempt")} | {
                "replicate": number,
                "valid": "TRUE" if replicate["valid"] else "FALSE",
                **{key: "; ".join(replicate[key]) for key in ("reasons", "earlier_reasons")},
            }
            tables.replicates.append(shared | summary | row | data.analysed[number])
            tables.intervals += [
                {**names, "replicate": number, "t_s": t_s, "goodput_mbit": goodput_mbit}
                for t_s, goodput_mbit in data.intervals[number]
            ]
        if data.series is not None:
            sampled = names | {"replicate": data.series["replicate"]}
            tables.flows += [sampled | row for row in data.series["flows"]]
            tables.queue += [sampled | row for row in data.series["queue"]]
    tables.cells += [
        {"study": study, "block": block, "n_left_out": count}
        for (study, block), count in left_out.items()
    ]
    return tables


def cell_row(cell: Row, condition: Condition) -> Row:
    """Return a cell's row: numbers of replicates, violations, and unpinned parts.

    A cell whose instrument was not available has no replicates; `reasons` then says so.
    """
    replicates = cell["replicates"]
    violations = [violation for replicate in replicates for violation in replicate["reasons"]]
    violations += [cell["absent"]] if "absent" in cell else []
    instruments = [replicate["instrument"] for replicate in replicates]
    # Parts that differ from the project's locks.
    unpinned = {
        name
        for instrument in instruments
        for name, part in instrument.items()
        if isinstance(part, dict) and not part.get("pinned", True)
    }
    row = {key: cell[key] for key in NAMES} | condition.to_json() | {
        "n_replicates": len(replicates),
        "n_valid": sum(replicate["valid"] for replicate in replicates),
        "reasons": "; ".join(dict.fromkeys(violations)),
        "unpinned": " ".join(sorted(unpinned)),
    }  # fmt: skip
    if instruments:
        row["hosts"] = "containers" if "engine" in instruments[0] else "processes"
        row["place"] = instruments[0].get("where", GUEST)
    return row


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def r_columns() -> str:
    """Return the R file with the names of the axes' columns."""
    return f"""\
# The columns of a cell's axes, from their declarations in src/losslab/study/condition.py.
# {WRITER}

# Together with the block, these columns identify a cell.
condition_columns <- {_r_vector(AXES)}

# Text columns; the others are numeric.
condition_words <- {_r_vector(name for name, axis in AXES.items() if axis.kind == "str")}
"""


def r_metrics() -> str:
    """Return the R file with the metrics' units and titles."""
    units, titles = (
        ",\n".join(f'  {name} = "{getattr(m, field)}"' for name, m in declared().items())
        for field in ("unit", "title")
    )
    return f"""\
# Units of metrics and their titles on a figure's axis, from config/metrics.tsv.
# {WRITER}

metric_units <- c(
{units}
)

metric_titles <- c(
{titles}
)
"""


def _r_vector(names: Iterable[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    lines = textwrap.fill(quoted, 98, initial_indent="  ", subsequent_indent="  ")
    return f"c(\n{lines}\n)"


# Files of analysis/R with lists of what is declared. A user's modules declare more.
R_LISTS = {"axes.R": r_columns, "units.R": r_metrics}
