"""Cells that the next start of the workflow measures, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from losslab.campaign import fingerprint, integrity
from losslab.campaign.documents import read_manifest
from losslab.campaign.folder import CELL_FILE, MANIFEST_FILE, replicate_folders
from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.study.condition import seed_of
from losslab.study.design import Cell


def reasons(cell: Cell, results: Path) -> list[str]:
    """List why the next start will measure a cell; empty if it will not."""
    path = results / "cells" / cell.study / cell.name / CELL_FILE
    if not path.is_file():
        return ["not measured yet"]
    content = integrity.read_cell(path)
    if others := foreign(content, cell):
        return others
    now = fingerprint.of(cell.condition, cell.backend, cell.where).parts
    found: dict[str, None] = {}
    for each in replicate_folders(path):
        manifest = read_manifest(each / MANIFEST_FILE)
        then = manifest.get("fingerprint", {}).get("parts", {})
        found |= {f"{part} changed": None for part in fingerprint.differences(then, now)}
        if manifest.get("lost"):
            found["a guest was lost"] = None
    return list(found)


def foreign(content: dict[str, Any], cell: Cell) -> list[str]:
    """List the values of a cell.json that are not the planned cell's.

    Such a folder was copied from another campaign: the name has no durations and no seeds.
    """
    pairs: list[tuple[str, Any, Any]] = [
        ("study", content["study"], cell.study), ("block", content["block"], cell.block)
    ]  # fmt: skip
    for number, row in enumerate(content["replicates"]):
        seed = seed_of(cell.condition, number, cell.seed_family)
        pairs.append((f"seed of replicate {number}", row["seed"], seed))
    others = [f"{name} {then} instead of {now}" for name, then, now in pairs if then != now]
    return [*integrity.other_values(content["condition"], cell.condition), *others]


def require_planned(content: dict[str, Any], cell: Cell, folder: Path) -> None:
    """Raise DamagedError if a folder's cell.json is not of the planned cell."""
    if others := foreign(content, cell):
        raise integrity.DamagedError(
            f"{folder} must have the cell of this campaign, found another: {others[0]}",
            hint=integrity.HINT,
        )


def lines(cells: Iterable[Cell], results: Path) -> list[str]:
    """Return a line for each cell that will be measured: study, cell and reasons."""
    found = []
    for cell in cells:
        try:
            why = reasons(cell, results)
        except LosslabError as error:
            raise UsageError(error.message, error.hint) from error
        found += [f"{cell.study}\t{cell.name}\t{'; '.join(why)}"] if why else []
    return found
