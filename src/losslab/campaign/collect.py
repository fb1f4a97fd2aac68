"""Tidy tables of a study's replicates, for the statistics in R."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from losslab.backends.base import GUEST
from losslab.campaign import celldata, hosts, recorded_numbers, staleness
from losslab.campaign.celldata import CellData
from losslab.campaign.folder import CELL_FILE
from losslab.campaign.plan import Plan, Planned
from losslab.campaign.recorded_numbers import RecordedCell
from losslab.study.condition import AXES, Condition
from losslab.study.intervals import StoppingRule

SHARED = ("study", "block", "cell", *AXES, "replicate")
REPLICATE_COLUMNS = (*SHARED, "seed", "valid", "reasons", "attempt", "earlier_reasons",
                     "error_share")  # fmt: skip
INTERVAL_COLUMNS = (*SHARED, "t_s", "goodput_mbit")
FLOW_COLUMNS = (*SHARED, *celldata.FLOW_COLUMNS)
QUEUE_COLUMNS = (*SHARED, *celldata.QUEUE_COLUMNS)
CELL_COLUMNS = (
    "study", "block", "cell", *AXES, "n_replicates", "n_valid", "reasons", "unpinned", "hosts",
    "place", "n_left_out", "recorded",
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

    def write(self, folder: Path, study: str) -> None:
        """Write each table as STUDY_TABLE.csv to a folder; missing values are empty fields."""
        columns = {
            "cells": CELL_COLUMNS,
            "replicates": (*REPLICATE_COLUMNS, *self.metrics()),
            "intervals": INTERVAL_COLUMNS,
            "flows": FLOW_COLUMNS,
            "queue": QUEUE_COLUMNS,
        }
        for table, names in columns.items():
            write_csv(folder / f"{study}_{table}.csv", names, getattr(self, table))


def of_plan(plan: Plan, study: str, results: Path) -> Tables:
    """Collect the planned cells of a study, measured or recorded.

    Raises LosslabError if one is not measured yet, damaged, or of another campaign.
    """
    cells = {each.cell.name: each for each in plan.of_study(study)}
    names = [name for name, each in cells.items() if each.recorded]
    rules = {name: each.cell.stopping for name, each in cells.items()}
    known: Mapping[str, RecordedCell] = {}
    if plan.record is not None and names:
        known = recorded_numbers.read(plan.record, study, names)

    def read(planned: Planned) -> CellData:
        name, folder = planned.cell.name, results / planned.folder
        if name in known:
            return known[name].data
        data = celldata.read(folder / CELL_FILE, name in plan.series[study])
        staleness.require_planned(data.content, planned.cell, folder)
        return data

    return gather(map(read, cells.values()), plan.left_out[study], [*rules.values()], known)


def gather(
    cells: Iterable[CellData],
    left_out: Mapping[str, int] = MappingProxyType({}),
    rules: Sequence[StoppingRule] = (),
    recorded: Collection[str] = (),
) -> Tables:
    """Put cells into tables.

    `left_out` has the number of cells, by block, that the campaign does not measure. Without
    stopping `rules`, every number of replicates was fixed. `recorded` has the names of the cells
    that are from a record.
    """
    tables, measured = Tables(), list(cells)
    fixed = [StoppingRule(1, 1)] * len(measured)
    for data, rule in zip(measured, rules or fixed, strict=True):
        cell = data.content
        condition = Condition.from_json(cell["condition"])
        source = {"recorded": "TRUE" if cell["cell"] in recorded else "FALSE"}
        tables.cells.append(cell_row(cell, condition) | source)
        shared = {
            "study": cell["study"],
            "block": cell["block"],
            "cell": cell["cell"],
            **condition.to_json(),
            "error_share": rule.error_share(len(cell["replicates"])),
        }
        for number, replicate in enumerate(cell["replicates"]):
            own = shared | {"replicate": number}
            tables.replicates.append(own | _replicate_row(replicate) | data.analysed[number])
            tables.intervals += [
                {**own, "t_s": t_s, "goodput_mbit": goodput_mbit}
                for t_s, goodput_mbit in data.intervals[number]
            ]
        if data.series is not None:
            own = shared | {"replicate": data.series.replicate}
            tables.flows += [own | row for row in data.series.flows]
            tables.queue += [own | row for row in data.series.queue]
    studies = {row["study"] for row in tables.cells}
    tables.cells += [row for study in studies for row in left_out_rows(study, left_out)]
    return tables


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


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Write rows as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
