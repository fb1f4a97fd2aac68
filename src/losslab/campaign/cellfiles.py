"""Measured cells of result sets, and a comparison of the files of one in two sets, A and B."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST
from losslab.backends.known import BACKENDS
from losslab.campaign import integrity, rerun
from losslab.campaign.folder import CELL_FILE, MANIFEST_FILE, read_json
from losslab.campaign.integrity import FIRST_FORMAT
from losslab.errors import LosslabError
from losslab.instrument.archive import digest
from losslab.study.condition import Condition

# Of a manifest: what decides the bytes of a replicate in virtual time.
INPUTS = (
    "backend", "cell", "seed", "instrument", "trace_sha256", "video_sha256", "brought_sha256",
    "captures",
)  # fmt: skip
TABLE = ".csv"
# A table that is larger has more than its head.
MAX_HEAD_BYTES = 4096
OTHER_VALUES = f"a {MANIFEST_FILE} that cell.json contradicts"


@dataclass(frozen=True)
class _Files:
    """The files of one replicate."""

    of: Replicate
    names: set[str]
    empty_tables: set[str]
    without_rows: set[str]
    manifest: dict[str, Any] | None  # None: missing, unreadable or not that of cell.json


Notes = defaultdict[
    str, list[int]
]  # problems, each with the numbers of the replicates that have it


def compare_files(first: Cell, second: Cell, common: bool = False) -> tuple[list[str], bool]:
    """Compare the files of all replicates; with `common`, only those that both sides have.

    Files must be as they were measured by their digests (results of format 1.0 have none), and
    tables must have rows on both sides. Where instrument and seed are the same and time is virtual,
    files must have the same bytes. Returns the problems, and whether every file of every replicate
    has the same bytes on both sides and none was lost.
    """
    notes: Notes = defaultdict(list)
    sides = {
        name: [_read(each) for each in cell.replicates]
        for name, cell in (("A", first), ("B", second))
    }
    every = {
        name: set().union(*(each.names for each in files if each.of.valid))
        for name, files in sides.items()
    }
    for name, cell in (("A", first), ("B", second)):
        for each in sides[name]:
            if cell.has_digests and not common:
                # What is not as it was measured, by the digests of every file.
                problems = integrity.replicate_problems(each.of.folder)
                if each.manifest is None and not problems:
                    problems = [OTHER_VALUES]
            else:
                problems = list(_gaps(each, every[name], common))
            for problem in problems:
                notes[f"{name} has {problem}"].append(each.of.number)
    lone = []
    if not common and all(every.values()):
        lone = [f"{name} is in A only" for name in sorted(every["A"] - every["B"])]
        lone += [f"{name} is in B only" for name in sorted(every["B"] - every["A"])]
    _note_missing_rows(sides, notes)
    pairs = [
        (one, other) for one in sides["A"] for other in sides["B"] if one.of.seed == other.of.seed
    ]
    same = [_same_pair(one, other, notes) for one, other in pairs]
    whole = len(pairs) == len(first.replicates) == len(second.replicates)
    lines = [
        f"{problem} (replicate{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))})"
        for problem, numbers in notes.items()
    ]
    return lone + lines, bool(pairs) and whole and all(same)


def _read(replicate: Replicate) -> _Files:
    names = rerun.names(replicate.folder)
    tables = {n: (replicate.folder / n).lstat().st_size for n in names if n.endswith(TABLE)}
    return _Files(
        replicate,
        names,
        {name for name, size in tables.items() if size == 0},
        {name for name, size in tables.items() if _has_no_rows(replicate.folder / name, size)},
        _manifest(replicate) if MANIFEST_FILE in names else None,
    )


def _has_no_rows(table: Path, size: int) -> bool:
    """Tell whether a table is its head alone."""
    return size <= MAX_HEAD_BYTES and not b"".join(table.read_bytes().split(b"\n")[1:]).strip()


def _manifest(replicate: Replicate) -> dict[str, Any] | None:
    """Read a manifest that says what cell.json says of the replicate."""
    try:
        found = json.loads((replicate.folder / MANIFEST_FILE).read_text())
        here = [found[key] for key in ("seed", "valid", "summary")]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    # As text, in which nan is equal to itself and true is not 1.
    there = [replicate.seed, replicate.valid, replicate.summary]
    same = json.dumps(here, sort_keys=True) == json.dumps(there, sort_keys=True)
    return dict(found) if same else None


def _gaps(each: _Files, every: set[str], common: bool) -> Iterator[str]:
    """Say what is missing or empty, where not every file has a digest or is there."""
    if not each.names:
        if every or not common:
            yield "no files"
        return
    if each.manifest is None:
        yield OTHER_VALUES
    listed = (each.manifest or {}).get(integrity.FILES, {})
    for name in sorted(listed.keys() & each.names):
        if digest(each.of.folder / name) != listed[name]:
            yield f"another {name} than was measured"
    yield from (f"an empty {name}" for name in sorted(each.empty_tables))
    yield from (f"no {name}" for name in sorted(every - each.names if each.of.valid else ()))


def _note_missing_rows(sides: dict[str, list[_Files]], notes: Notes) -> None:
    """Note tables without rows, unless the other side has none for the same seed either."""
    found = {
        side: {(each.of.seed, name) for each in files for name in each.without_rows}
        for side, files in sides.items()
    }
    filled = {
        name for files in sides.values() for each in files if each.of.valid
        for name in each.names - each.without_rows
    }  # fmt: skip
    for side, other in (("A", "B"), ("B", "A")):
        for each in sides[side]:
            alone = {name for name in each.without_rows if (each.of.seed, name) not in found[other]}
            for name in sorted(alone & filled - each.empty_tables if each.of.valid else ()):
                notes[f"{side} has no rows in {name}"].append(each.of.number)


def _same_pair(one: _Files, other: _Files, notes: Notes) -> bool:
    """Tell whether two replicates of one seed have the same bytes; note where they must have."""
    if one.manifest is None or other.manifest is None:
        return False
    if not _must_agree(one.manifest, other.manifest):
        return False
    agreement = rerun.compare(one.of.folder, other.of.folder)
    for name, how in agreement.different.items():
        if name in one.names & other.names:
            notes[f"{name} must have the same bytes, found {how}"].append(one.of.number)
        elif not (one.of.valid and other.of.valid):
            side = "A" if name in one.names else "B"
            notes[f"{name} is in {side} only"].append(one.of.number)
    return agreement.whole and not one.manifest.get("lost", False)


def _must_agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two replicates must have the same bytes by what their manifests say."""
    if one == other:
        return True
    if any(one.get(key) != other.get(key) for key in INPUTS):
        return False
    instrument = one.get("instrument")
    where = instrument.get("where", GUEST) if isinstance(instrument, dict) else None
    backend = BACKENDS.get((str(one.get("backend")), str(where)))
    # On a machine's own kernel, time is real.
    return backend is not None and backend.needs.kernel is not None


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
