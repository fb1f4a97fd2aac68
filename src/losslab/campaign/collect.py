"""Tidy tables of a study's replicates, for the statistics in R."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from losslab.backends.base import GUEST
from losslab.campaign import hosts, integrity, limiters
from losslab.emulation.goodput import read_rows
from losslab.study import features
from losslab.study.condition import AXES, Condition
from losslab.study.stopping import StoppingRule

SHARED = ("study", "block", "cell", *AXES, "replicate")
REPLICATE_COLUMNS = (*SHARED, "seed", "valid", "reasons", "attempt", "earlier_reasons",
                     "error_share")  # fmt: skip
INTERVAL_COLUMNS = (*SHARED, "t_s", "goodput_mbit")
# Names of connections that carry data, by source port.
FLOW_NAMES = {
    str(port): name for app in features.apps().values() for port, name in app.ports.items()
}
# More flows would make the figures unreadable.
MAX_BACKGROUND_FLOWS = 9
FLOW_COLUMNS = (
    *SHARED, "flow", "t_s", "cwnd_packets", "ssthresh_packets", "srtt_ms", "pacing_mbit",
    "delivery_mbit",
)  # fmt: skip
QUEUE_COLUMNS = (*SHARED, "t_s", "backlog_packets", "backlog_bytes", "drops")
CELL_COLUMNS = (
    "study", "block", "cell", *AXES, "n_replicates", "n_valid", "reasons", "unpinned", "hosts",
    "place", "n_left_out",
)  # fmt: skip

Row = dict[str, Any]


@dataclass
class Tables:
    """A study's tables: cells, replicates, goodputs per second, samples of flows and queue."""

    cells: list[Row] = field(default_factory=list)
    replicates: list[Row] = field(default_factory=list)
    intervals: list[Row] = field(default_factory=list)
    flows: list[Row] = field(default_factory=list)
    queue: list[Row] = field(default_factory=list)

    def metrics(self) -> list[str]:
        """Return the columns of replicates in addition to the fixed ones, in alphabetical order."""
        return sorted({name for row in self.replicates for name in row} - set(REPLICATE_COLUMNS))

    def write(
        self, cells: Path, replicates: Path, intervals: Path, flows: Path, queue: Path
    ) -> None:
        """Write each table as CSV; missing values are empty fields."""
        write_csv(cells, CELL_COLUMNS, self.cells)
        write_csv(replicates, (*REPLICATE_COLUMNS, *self.metrics()), self.replicates)
        write_csv(intervals, INTERVAL_COLUMNS, self.intervals)
        write_csv(flows, FLOW_COLUMNS, self.flows)
        write_csv(queue, QUEUE_COLUMNS, self.queue)


def gather(
    cells: Sequence[Path],
    series: Collection[str] = (),
    left_out: Mapping[str, int] = MappingProxyType({}),
    rules: Sequence[StoppingRule] = (),
) -> Tables:
    """Read cells (their cell.json) and their replicates into tables.

    The first valid replicate of each cell of `series` adds samples of flows and queue. `left_out`
    has the number of cells, by block, that the campaign does not measure. Without stopping `rules`,
    every number of replicates was fixed. Raises DamagedError if a cell is damaged.
    """
    tables = Tables()
    fixed = [StoppingRule(1, 1)] * len(cells)
    for path, rule in zip(cells, rules or fixed, strict=True):
        cell = integrity.read_cell(path)
        condition = Condition.from_json(cell["condition"])
        needs_series = cell["cell"] in series
        tables.cells.append(cell_row(cell, condition))
        for number, replicate in enumerate(cell["replicates"]):
            shared = {
                "study": cell["study"],
                "block": cell["block"],
                "cell": cell["cell"],
                **condition.to_json(),
                "replicate": number,
                "error_share": rule.error_share(len(cell["replicates"])),
            }
            tables.replicates.append(shared | _replicate_row(replicate))
            if not replicate["valid"]:
                continue
            folder = path.parent / str(number)
            samples = read_rows(folder / "tcp.csv") if (folder / "tcp.csv").is_file() else []
            app = features.apps()[condition.app]
            port = str(next(iter(app.ports), ""))
            tables.replicates[-1] |= limiters.of_samples(samples, port, condition)
            if app.per_second:
                rows = read_rows(folder / "intervals.csv")
                tables.replicates[-1] |= other_windows(
                    rows, condition.warmup_s, condition.duration_s
                )
                tables.intervals += [
                    {**shared, "t_s": t_s, "goodput_mbit": goodput_mbit}
                    for t_s, goodput_mbit in one_second_means(
                        rows, condition.warmup_s, condition.duration_s
                    )
                ]
            if needs_series:
                needs_series = False
                names = flow_names(folder)
                tables.flows += [
                    shared | row | {"flow": names[row["flow"]]}
                    for row in samples
                    if row["flow"] in names
                ]
                tables.queue += [shared | row for row in read_rows(folder / "queue.csv")]
    studies = {row["study"] for row in tables.cells}
    tables.cells += [row for study in studies for row in left_out_rows(study, left_out)]
    return tables


def flow_names(folder: Path) -> dict[str, str]:
    """Return the names of a replicate's sampled flows, by source port.

    Background flows with a limited size are left out, and so are all after the first nine.
    """
    table = folder / features.background().table
    rows = [row for row in read_rows(table) if not row["size_bytes"]] if table.is_file() else []
    rows.sort(key=lambda row: [int(part) for part in row["name"].split("-")])
    return FLOW_NAMES | {
        row["source_port"]: f"{row['algorithm']} {row['name']}"
        for row in rows[:MAX_BACKGROUND_FLOWS]
    }


def left_out_rows(study: str, left_out: Mapping[str, int]) -> list[Row]:
    """Return a row for each block with cells that the campaign does not measure."""
    return [
        {"study": study, "block": block, "n_left_out": count} for block, count in left_out.items()
    ]


def cell_row(cell: Row, condition: Condition) -> Row:
    """Return a cell's row: numbers of replicates, violations, and unpinned parts.

    A cell whose instrument was not available has no replicates; `reasons` then says so.
    """
    replicates = cell["replicates"]
    violations = [violation for replicate in replicates for violation in replicate["reasons"]]
    violations += [cell["absent"]] if "absent" in cell else []
    parts = [part for replicate in replicates for part in replicate["instrument"].items()]
    place = {}
    if replicates:
        instrument = replicates[0]["instrument"]
        kind = "containers" if hosts.is_container(instrument) else "processes"
        place = {"hosts": kind, "place": instrument.get("where", GUEST)}
    # Parts that differ from the project's locks.
    unpinned = {
        name for name, part in parts if isinstance(part, dict) and not part.get("pinned", True)
    }
    return {
        **{key: cell[key] for key in ("study", "block", "cell")},
        **condition.to_json(),
        "n_replicates": len(replicates),
        "n_valid": sum(replicate["valid"] for replicate in replicates),
        "reasons": "; ".join(dict.fromkeys(violations)),
        "unpinned": " ".join(sorted(unpinned)),
        **place,
    }


def _replicate_row(replicate: Row) -> Row:
    summary = dict(replicate["summary"])
    # The column `rtt_ms` is the configured one.
    summary["rtt_measured_ms"] = summary.pop("rtt_ms", None)
    return {
        **summary,
        "seed": replicate["seed"],
        "valid": "TRUE" if replicate["valid"] else "FALSE",
        "reasons": "; ".join(replicate["reasons"]),
        "attempt": replicate["attempt"],
        "earlier_reasons": "; ".join(replicate["earlier_reasons"]),
    }


def other_windows(
    rows: Sequence[Mapping[str, str]], warmup_s: float, duration_s: float
) -> dict[str, float]:
    """Return the mean goodput in Mbit/s over other windows than the measurement window.

    The windows show the influence of the warm-up and of the run's length: the first and second half
    of the measurement window (`early`, `late`), and the run including the warm-up (`whole`).
    """
    middle_s = (warmup_s + duration_s) / 2
    windows = {
        "early": (warmup_s, middle_s), "late": (middle_s, duration_s), "whole": (0.0, duration_s),
    }  # fmt: skip
    found = {}
    for name, (start_s, end_s) in windows.items():
        megabits = seconds = before_s = 0.0
        for row in rows:
            until_s = float(row["t_s"])
            inside_s = max(0.0, min(until_s, end_s) - max(before_s, start_s))
            megabits += inside_s * float(row["goodput_mbit"])
            seconds += inside_s
            before_s = until_s
        if seconds > 0:
            found[f"{name}_goodput_mbit"] = megabits / seconds
    return found


def one_second_means(
    rows: Sequence[dict[str, str]], warmup_s: float, duration_s: float
) -> list[tuple[int, float]]:
    """Average goodputs of intervals of up to 1 s over whole seconds, from the warm-up to the end.

    Returns pairs of the second's end and the mean in Mbit/s; the last second may lack its last 0.1
    s.
    """
    seconds: dict[int, list[float]] = defaultdict(list)
    before_s = 0.0
    for row in rows:
        end_s = float(row["t_s"])
        middle_s = (before_s + end_s) / 2
        before_s = end_s
        if warmup_s <= middle_s < duration_s:
            seconds[math.ceil(middle_s)].append(float(row["goodput_mbit"]))
    return [(end, sum(values) / len(values)) for end, values in sorted(seconds.items())]


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Write rows as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
