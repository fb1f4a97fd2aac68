"""Measured cells of result sets, and a comparison of the files of one in two sets, A and B."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST
from losslab.backends.known import BACKENDS
from losslab.campaign import integrity, rerun
from losslab.campaign.folder import CELL_FILE, MANIFEST_FILE, digest_of, read_json
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
FINGERPRINT = "fingerprint"
OTHER_VALUES = f"a {MANIFEST_FILE} that cell.json contradicts"


@dataclass(frozen=True)
class Replicate:
    """A replicate's row of cell.json, and the folder of its files."""

    number: int
    folder: Path
    seed: int
    valid: bool
    summary: dict[str, Any]

    @cached_property
    def names(self) -> set[str]:
        """Name the files that are compared."""
        return rerun.names(self.folder)

    @cached_property
    def empty_tables(self) -> set[str]:
        """Name the tables that have not even a head."""
        tables = (name for name in self.names if name.endswith(TABLE))
        return {name for name in tables if (self.folder / name).lstat().st_size == 0}

    @cached_property
    def without_rows(self) -> set[str]:
        """Name the tables that are a head alone, or empty."""
        found = set()
        for name in (name for name in self.names if name.endswith(TABLE)):
            path = self.folder / name
            if path.lstat().st_size <= MAX_HEAD_BYTES:
                _, _, rows = path.read_bytes().partition(b"\n")
                found |= set() if rows.strip() else {name}
        return found

    @cached_property
    def manifest(self) -> dict[str, Any] | None:
        """The manifest; None if it is missing, unreadable, or cell.json contradicts it."""
        if MANIFEST_FILE not in self.names:
            return None
        try:
            found = json.loads((self.folder / MANIFEST_FILE).read_text())
            here = [found[key] for key in ("seed", "valid", "summary")]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        # As digests of text, in which nan is equal to itself and true is not 1.
        there = [self.seed, self.valid, self.summary]
        return dict(found) if digest_of(here) == digest_of(there) else None


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


# Problems, each with the numbers of the replicates that have it.
Notes = defaultdict[str, list[int]]


def compare_files(first: Cell, second: Cell, common: bool = False) -> tuple[list[str], bool]:
    """Compare the files of all replicates; with `common`, only those that both sides have.

    Files must be as they were measured by their digests (results of format 1.0 have none), and
    tables must have rows on both sides. Where instrument and seed are the same and time is virtual,
    files must have the same bytes. Returns the problems, and whether every file of every replicate
    has the same bytes on both sides and none was lost.
    """
    notes: Notes = defaultdict(list)
    sides = {"A": first.replicates, "B": second.replicates}
    every = {
        name: set().union(*(each.names for each in files if each.valid))
        for name, files in sides.items()
    }
    for name, cell in (("A", first), ("B", second)):
        for each in sides[name]:
            if cell.has_digests and not common:
                # What is not as it was measured, by the digests of every file.
                problems = integrity.replicate_problems(each.folder)
                if each.manifest is None and not problems:
                    problems = [OTHER_VALUES]
            else:
                problems = list(_gaps(each, every[name], common))
            for problem in problems:
                notes[f"{name} has {problem}"].append(each.number)
    lone = []
    if not common and all(every.values()):
        lone = [f"{name} is in A only" for name in sorted(every["A"] - every["B"])]
        lone += [f"{name} is in B only" for name in sorted(every["B"] - every["A"])]
    _note_missing_rows(sides, notes)
    pairs = [(one, other) for one in sides["A"] for other in sides["B"] if one.seed == other.seed]
    same = [_same_pair(one, other, notes) for one, other in pairs]
    whole = len(pairs) == len(first.replicates) == len(second.replicates)
    lines = [
        f"{problem} (replicate{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))})"
        for problem, numbers in notes.items()
    ]
    return lone + lines, bool(pairs) and whole and all(same)


def _gaps(each: Replicate, every: set[str], common: bool) -> Iterator[str]:
    """Say what is missing or empty, where not every file has a digest or is there."""
    if not each.names:
        if every or not common:
            yield "no files"
        return
    if each.manifest is None:
        yield OTHER_VALUES
    listed = (each.manifest or {}).get(integrity.FILES, {})
    for name in sorted(listed.keys() & each.names):
        if digest(each.folder / name) != listed[name]:
            yield f"another {name} than was measured"
    yield from (f"an empty {name}" for name in sorted(each.empty_tables))
    yield from (f"no {name}" for name in sorted(every - each.names if each.valid else ()))


def _note_missing_rows(sides: dict[str, list[Replicate]], notes: Notes) -> None:
    """Note tables without rows, unless the other side has none for the same seed either."""
    found = {
        side: {(each.seed, name) for each in files for name in each.without_rows}
        for side, files in sides.items()
    }
    filled = {
        name for files in sides.values() for each in files if each.valid
        for name in each.names - each.without_rows
    }  # fmt: skip
    for side, other in (("A", "B"), ("B", "A")):
        for each in sides[side]:
            alone = {name for name in each.without_rows if (each.seed, name) not in found[other]}
            for name in sorted(alone & filled - each.empty_tables if each.valid else ()):
                notes[f"{side} has no rows in {name}"].append(each.number)


def _same_pair(one: Replicate, other: Replicate, notes: Notes) -> bool:
    """Tell whether two replicates of one seed have the same bytes; note where they must have.

    Another version of the code may change bytes: then nothing is noted, and the fingerprints of
    otherwise equal manifests do not count.
    """
    if one.manifest is None or other.manifest is None:
        return False
    if not _must_agree(one.manifest, other.manifest):
        return False
    agreement = rerun.compare(one.folder, other.folder)
    different = dict(agreement.different)
    if one.manifest | {FINGERPRINT: None} == other.manifest | {FINGERPRINT: None}:
        different.pop(MANIFEST_FILE, None)
    same_code = one.manifest.get(FINGERPRINT) == other.manifest.get(FINGERPRINT)
    for name, how in different.items():
        if name in one.names & other.names:
            if same_code:
                notes[f"{name} must have the same bytes, found {how}"].append(one.number)
        elif not (one.valid and other.valid):
            side = "A" if name in one.names else "B"
            notes[f"{name} is in {side} only"].append(one.number)
    return bool(agreement.same) and not different and not one.manifest.get("lost", False)


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
        problem = f"no {error}" if isinstance(error, KeyError) else error
        raise LosslabError(
            f"{file} must be the cell.json of a measured cell, found {problem}",
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
