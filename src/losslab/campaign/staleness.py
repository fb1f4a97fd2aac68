"""Stale results: cells and tables that the next start of the workflow makes again, with reasons.

A cell is stale if its fingerprint changed. Results are also stale if they changed after the
workflow wrote them: Snakemake detects outputs that are missing or older than their inputs, but not
edited or damaged ones.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from losslab.campaign import fingerprint, integrity
from losslab.campaign.documents import read_cell, read_manifest
from losslab.campaign.fingerprint import CODE, Fingerprint
from losslab.campaign.folder import (
    CELL_FILE,
    MANIFEST_FILE,
    digest_of,
    replace_json,
    replicate_folders,
    write_json,
)
from losslab.errors import LosslabError
from losslab.instrument.archive import digest
from losslab.instrument.records import FOLDER
from losslab.reading import UsageError, read_json
from losslab.study.design import Cell
from losslab.study.seed_family import seed_of

# Maximum number of changed modules that a reason names.
MAX_NAMED = 3


def record_code(cells: Iterable[Cell]) -> None:
    """Record the digests of the cells' modules, so that later starts can name changed ones."""
    for cell in cells:
        now = fingerprint.of(cell.condition, cell.backend, cell.where)
        path = _code_file(FOLDER, now.parts[CODE])
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(dict(now.code), path)


def reasons(cell: Cell, results: Path) -> list[str]:
    """List why the next start will measure a cell; empty if it will not."""
    folder = results / "cells" / cell.study / cell.name
    if not (folder / CELL_FILE).is_file():
        return ["not measured yet"]
    if problems := integrity.cell_problems(folder):
        return [f"damaged: {problems[0]}"]
    now = fingerprint.of(cell.condition, cell.backend, cell.where)
    found: dict[str, None] = {}
    for each in replicate_folders(folder / CELL_FILE):
        manifest = read_manifest(each / MANIFEST_FILE)
        then = manifest.get("fingerprint", {}).get("parts", {})
        found |= dict.fromkeys(_changes(then, now, results / FOLDER.name))
        if manifest.get("lost"):
            found["a guest was lost"] = None
    return list(found) or foreign(cell, folder)


def foreign(cell: Cell, folder: Path) -> list[str]:
    """List the values of a folder's cell.json that are not the campaign's cell's.

    Such a folder was copied from another campaign: the name has no durations and no seeds.
    """
    try:
        found = read_cell(folder / CELL_FILE)
    except LosslabError as error:
        return [error.message]
    pairs: list[tuple[str, Any, Any]] = [
        ("study", found["study"], cell.study), ("block", found["block"], cell.block)
    ]  # fmt: skip
    for number, row in enumerate(found["replicates"]):
        seed = seed_of(cell.condition, number, cell.seed_family)
        pairs.append((f"seed of replicate {number}", row["seed"], seed))
    others = [f"{name} {then} instead of {now}" for name, then, now in pairs if then != now]
    return [*integrity.other_values(found["condition"], cell.condition), *others]


def _changes(then: Mapping[str, str], now: Fingerprint, records: Path) -> list[str]:
    if not then:
        return ["measured by a version of losslab without fingerprints"]
    parts = fingerprint.differences(then, now.parts)
    return [
        _code_changes(then.get(CODE, ""), now, records) if part == CODE else f"the {part} changed"
        for part in parts
    ]


def _code_changes(digest: str, now: Fingerprint, records: Path) -> str:
    """Return a reason that names the changed modules, if their digests were recorded."""
    try:
        then = read_json(_code_file(records, digest))
    except UsageError:
        return "the code changed"
    names = fingerprint.differences(then, now.code)
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"the code changed: {', '.join(names[:MAX_NAMED])}{more}"


def _code_file(records: Path, digest: str) -> Path:
    return records / f"code-{digest}.json"


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


class Ledger:
    """A record of the results' state after the last run, to detect later changes.

    It examines each result at most once per start.

    Attributes:
        found: The first problem of each changed cell or file.
    """

    def __init__(self, path: Path) -> None:
        """Read the ledger's file; with an unreadable one, examine all results."""
        self._path = path
        self._entries: dict[str, dict[str, Any]] = {}
        self.found: dict[str, str] = {}
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._entries = dict(json.loads(path.read_text()).items())
        self._examined: set[str] = set()
        self._written = self._text()

    def cell(self, folder: Path, cell: Cell) -> str:
        """Return when a cell was last found damaged, or to be another one; "" if never.

        The cell's files are read only if the cell, or their times, sizes or inodes changed since
        the last examination.
        """
        name = str(folder)
        if name not in self._examined and (folder / CELL_FILE).is_file():
            asked = [cell.block, cell.condition.to_json(), cell.seed_family]
            state = digest_of([integrity.state_of(folder), asked])
            if self._entry(name).get("state") != state:
                self._note(name, integrity.cell_problems(folder) or foreign(cell, folder))
                if name not in self.found:
                    self._entry(name)["state"] = state
        self._examined.add(name)
        return str(self._entry(name).get("changed", ""))

    def files(self, paths: Iterable[str | Path]) -> str:
        """Return when any of these files was last found changed; "" if never or not known."""
        return max((self._file(Path(path)) for path in paths), default="")

    def _file(self, path: Path) -> str:
        name = str(path)
        entry = self._entry(name)
        if name not in self._examined and "sha256" in entry and path.is_file():
            changed = digest(path) != entry["sha256"]
            self._note(name, ["changed since the workflow wrote it"] if changed else [])
        self._examined.add(name)
        return str(entry.get("changed", ""))

    def record(self, paths: Iterable[str | Path]) -> None:
        """Record the digests of existing files; HostError if the ledger cannot be written."""
        for path in map(Path, paths):
            if path.is_file():
                self._entry(str(path))["sha256"] = digest(path)
        self.write()

    def write(self) -> None:
        """Write the ledger if it has changed; HostError if the ledger cannot be written."""
        if self._text() != self._written:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_json(self._content(), self._path)
            self._written = self._text()

    def _content(self) -> dict[str, dict[str, Any]]:
        return {name: entry for name, entry in self._entries.items() if entry}

    def _text(self) -> str:
        return json.dumps(self._content(), sort_keys=True)

    def _entry(self, name: str) -> dict[str, Any]:
        return self._entries.setdefault(name, {})

    def _note(self, name: str, problems: list[str]) -> None:
        if problems:
            self.found[name] = problems[0]
            self._entry(name)["changed"] = datetime.now(UTC).isoformat(timespec="milliseconds")
