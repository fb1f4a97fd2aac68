"""Measured cells of a results folder, as their cell.json describes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.campaign.folder import CELL_FILE, read_json
from losslab.campaign.integrity import FIRST_FORMAT
from losslab.errors import LosslabError
from losslab.study.condition import Condition


@dataclass(frozen=True)
class Replicate:
    """A replicate's row of cell.json, and the folder of its files."""

    number: int
    folder: Path
    seed: int
    valid: bool
    summary: dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A cell.json."""

    file: Path
    has_digests: bool  # of every file, in its manifests
    condition: Condition
    replicates: list[Replicate]

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """List the summaries of its valid replicates."""
        return [each.summary for each in self.replicates if each.valid]

    @property
    def by_seed(self) -> dict[int, Replicate]:
        """Return its replicates by their seeds."""
        return {each.seed: each for each in self.replicates}


def load_cells(folder: Path) -> dict[str, Cell]:
    """Read the cell.json files below a folder, by STUDY/CELL.

    Raises LosslabError if there is none, one is damaged, or a cell is there twice.
    """
    files: dict[str, Path] = {}
    for file in sorted(folder.rglob(CELL_FILE)):
        name = f"{file.parent.parent.name}/{file.parent.name}"
        if name in files:
            raise LosslabError(
                f"{folder} must have each cell once, found {files[name]} and {file}",
                hint="name the folder of one campaign",
            )
        files[name] = file
    if not files:
        raise LosslabError(
            f"{folder} must hold measured cells, found no cell.json below it",
            hint="name a results folder of the workflow",
        )
    return {name: load_cell(file) for name, file in files.items()}


def load_cell(file: Path) -> Cell:
    """Read a cell.json. Raises LosslabError if it is none, or its format is another."""
    try:
        data = read_json(file)
        replicates = [
            Replicate(number, file.parent / str(number), *_typed(row))
            for number, row in enumerate(data["replicates"])
        ]
        if len({each.seed for each in replicates}) != len(replicates):
            raise ValueError("a seed of two replicates")
        has_digests = data.get("format", FIRST_FORMAT) != FIRST_FORMAT
        return Cell(file, has_digests, _condition(data["condition"]), replicates)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LosslabError(
            f"{file} must be the cell.json of a measured cell, found {_problem(error)}",
            hint="measure the cell again; `losslab cell` writes this file",
        ) from error


def _typed(row: Any) -> tuple[int, bool, dict[str, Any]]:
    """Return the seed, validity and summary of a row."""
    seed, valid, summary = row["seed"], row["valid"], row["summary"]
    for value, kind in ((seed, int), (valid, bool), (summary, dict)):
        if type(value) is not kind:
            raise ValueError(f"{value!r} in place of {kind.__name__}")
    return seed, valid, summary


def _condition(data: Any) -> Condition:
    try:
        return Condition.from_json(data)
    except LosslabError as error:
        raise ValueError(error.message) from error


def _problem(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else str(error)
