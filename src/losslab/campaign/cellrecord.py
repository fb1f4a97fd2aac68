"""Records of measured cells, such as docs/results/quick.tsv, with a row per cell.

A row has the number of runs, the primary metric with its confidence interval, and a digest of all
raw files. With it, anyone can check a campaign measured elsewhere without its gigabytes.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path

from losslab.campaign import integrity, recorded, recorded_numbers
from losslab.campaign.cellfiles import Cell, in_virtual_time, load_cells
from losslab.campaign.diff import CellDifference, Comparison, Verdict
from losslab.campaign.diff import cells as counted
from losslab.campaign.folder import digest_of, whole_file
from losslab.campaign.recordrows import COLUMNS, Row, numbers_of, read
from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.repository import ROOT

SUFFIX = ".tsv"


def row_of(name: str, cell: Cell) -> Row:
    """Summarise a cell named STUDY/CELL.

    Raises LosslabError if a file is missing or changed, a guest was lost, or the cell was measured
    in real time, where bytes do not repeat.
    """
    problems = integrity.cell_problems(cell.file.parent)
    manifests = [each.manifest or {} for each in cell.replicates]
    if any(manifest.get("lost", False) for manifest in manifests):
        problems.append("the guest of a replicate was lost")
    if not all(map(in_virtual_time, manifests)):
        problems.append("it was measured in real time")
    if problems:
        raise LosslabError(
            f"a recorded cell must be whole, found {cell.file.parent}: {problems[0]}",
            hint="measure it again, and name folders of campaigns in virtual time only",
        )
    study, _, short = name.partition("/")
    files = sorted([manifest["seed"], manifest[integrity.FILES]] for manifest in manifests)
    return Row(
        study=study,
        cell=short,
        sha256=digest_of(files),
        **numbers_of(cell.summaries, len(cell.replicates)),
    )


def write(rows: Iterable[Row], path: Path) -> None:
    """Write a record, sorted by cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as part, part.open("w", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(map(astuple, sorted(rows)))


def update(results: Path, path: Path) -> tuple[set[str], int]:
    """Record all cells of a results folder; keep the rows of other cells.

    Returns the names of the recorded cells, and how many of them have a new or another row.
    """
    before = read(path) if path.is_file() else {}
    now = {name: row_of(name, cell) for name, cell in load_cells(results).items()}
    write((before | now).values(), path)
    return set(now), sum(before.get(name) != row for name, row in now.items())


def compare(results: Path, path: Path, common: bool = False) -> Comparison:
    """Compare the cells of a results folder, A, with a record, B."""
    recorded, measured = read(path), load_cells(results)
    shared = sorted(measured.keys() & recorded.keys())
    return Comparison(
        [_difference(row_of(name, measured[name]), recorded[name]) for name in shared],
        sorted(measured.keys() - recorded.keys()),
        # A part of a campaign would list hundreds.
        [] if common else sorted(recorded.keys() - measured.keys()),
        common=common,
    )


def _difference(one: Row, other: Row) -> CellDifference:
    """Compare a measured cell with its recorded row."""
    means = [float(row.mean) if row.mean else None for row in (one, other)]
    same, problems = one.sha256 == other.sha256, []
    verdict = Verdict.SAME_BYTES if same else Verdict.OTHER_BYTES
    if same and one != other:
        # All other columns follow from the files.
        verdict = Verdict.OTHER_NUMBERS
        pairs = {each: (getattr(one, each), getattr(other, each)) for each in COLUMNS}
        problems = [
            f"{each} of A is {a or 'empty'}, and the record has {b or 'nothing'}"
            for each, (a, b) in pairs.items()
            if a != b
        ]
    if not same and one.mean and other.low:
        inside = float(other.low) <= float(one.mean) <= float(other.high)
        problems.append(
            f"the mean of A is {'inside' if inside else 'outside'} the recorded confidence "
            f"interval, {other.low} to {other.high}"
        )
    return CellDifference(
        cell=one.name,
        metric=one.metric,
        replicates=(one.replicates, other.replicates),
        n=(one.valid, other.valid),
        mean=(means[0], means[1]),
        paired=False,
        verdict=verdict,
        problems=problems,
    )


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `record`, which writes a campaign's record."""

    def run(options: argparse.Namespace) -> int:
        if options.record.suffix != SUFFIX:
            raise UsageError(f"the record must be a {SUFFIX} file, found {options.record}")
        # First: it refuses damaged cells, lost guests, and cells in real time.
        names, changed = update(options.results, options.record)
        print(f"recorded {counted(len(names))} in {options.record}, {changed} new or changed")
        if options.numbers:
            campaign = recorded.read(options.results, ROOT)
            count = recorded_numbers.update(
                options.results, campaign.studies, options.numbers, names
            )
            print(f"recorded the numbers of {counted(count)} in {options.numbers}")
        return 0

    command = commands.add_parser("record")
    command.add_argument("results", type=Path, help="results folder")
    command.add_argument("record", type=Path, help=f"{SUFFIX} file; other cells' rows are kept")
    command.add_argument(
        "--numbers", type=Path, metavar="FOLDER",
        help="also record the numbers that a report needs in this folder",
    )  # fmt: skip
    command.set_defaults(run=run)
