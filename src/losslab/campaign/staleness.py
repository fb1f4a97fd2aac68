"""Say why cells will be measured: what of their fingerprints differs from what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from losslab.campaign import fingerprint, integrity
from losslab.campaign.documents import read_manifest
from losslab.campaign.fingerprint import CODE, Fingerprint
from losslab.campaign.folder import CELL_FILE, MANIFEST_FILE, write_json
from losslab.errors import LosslabError
from losslab.instrument.records import FOLDER
from losslab.reading import UsageError, read_json
from losslab.study.design import Cell

# Modules that are named; of more, their number.
MOST_NAMED = 3


def record_code(cells: Iterable[Cell]) -> None:
    """Write down which modules cells are measured with, so that a change can be named later.

    Raises OSError if there is no room, or no right to write there.
    """
    for cell in cells:
        its = fingerprint.of(cell.condition, cell.backend, cell.where)
        path = _code_file(FOLDER, its.parts[CODE])
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(dict(its.code), path)


def reasons(cell: Cell, results: Path) -> list[str]:
    """Say why a cell will be measured at the next start; nothing if it will not."""
    folder = results / "cells" / cell.study / cell.name
    if not (folder / CELL_FILE).is_file():
        return ["not measured yet"]
    if problems := integrity.cell_problems(folder):
        return [f"damaged: {problems[0]}"]
    now = fingerprint.of(cell.condition, cell.backend, cell.where)
    found: dict[str, None] = {}
    for path in sorted(folder.glob(f"*/{MANIFEST_FILE}")):
        manifest = read_manifest(path)
        then = manifest.get("fingerprint", {}).get("parts", {})
        found |= dict.fromkeys(_changes(then, now, results / FOLDER.name))
        if manifest.get("lost"):
            found["a guest was lost"] = None
    return list(found)


def _changes(then: Mapping[str, str], now: Fingerprint, records: Path) -> list[str]:
    if not then:
        return ["measured by a version of losslab without fingerprints"]
    parts = fingerprint.differences(then, now.parts)
    return [
        _code_changes(then.get(CODE, ""), now, records) if part == CODE else f"the {part} changed"
        for part in parts
    ]


def _code_changes(digest: str, now: Fingerprint, records: Path) -> str:
    """Name the modules that changed, where it was recorded which there were."""
    try:
        then = read_json(_code_file(records, digest))
    except UsageError:
        return "the code changed"
    names = fingerprint.differences(then, now.code)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"the code changed: {', '.join(names[:MOST_NAMED])}{more}"


def _code_file(records: Path, digest: str) -> Path:
    return records / f"code-{digest}.json"


def lines(cells: Iterable[Cell], results: Path) -> list[str]:
    """List cells that will be measured, with the reasons.

    Raises UsageError if a result cannot be read.
    """
    found = []
    for cell in cells:
        try:
            why = reasons(cell, results)
        except LosslabError as error:
            raise UsageError(error.message, error.hint) from error
        found += [f"{cell.study}\t{cell.name}\t{'; '.join(why)}"] if why else []
    return found
