"""Measured cells of result sets, and a comparison of a cell's files in two sets, A and B."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST
from losslab.backends.registry import BACKENDS
from losslab.campaign import integrity, rerun
from losslab.campaign.folder import CELL_FILE, MANIFEST_FILE, digest_of, read_json
from losslab.errors import LosslabError
from losslab.instrument.archive import digest
from losslab.study.condition import Condition

# The keys of a manifest that determine the bytes of a replicate in virtual time.
INPUTS = (
    "backend", "cell", "seed", "instrument", "trace_sha256", "video_sha256", "brought_sha256",
    "captures",
)  # fmt: skip
TABLE = ".csv"
# Larger tables have rows.
MAX_HEAD_BYTES = 4096
FINGERPRINT = "fingerprint"
OTHER_VALUES = f"{MANIFEST_FILE} contradicts cell.json"


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
        """The names of the files that are compared."""
        return rerun.names(self.folder)

    @cached_property
    def empty_tables(self) -> set[str]:
        """The names of the empty tables, which lack even a head."""
        tables = (name for name in self.names if name.endswith(TABLE))
        return {name for name in tables if (self.folder / name).lstat().st_size == 0}

    @cached_property
    def without_rows(self) -> set[str]:
        """The names of the tables without rows, including empty ones."""
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
        # Digests compare text, in which nan equals itself and true differs from 1.
        there = [self.seed, self.valid, self.summary]
        return dict(found) if digest_of(here) == digest_of(there) else None


@dataclass(frozen=True)
class Cell:
    """The content of a cell.json."""

    file: Path
    condition: Condition
    replicates: list[Replicate]

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """The summaries of the valid replicates."""
        return [replicate.summary for replicate in self.replicates if replicate.valid]

    @property
    def by_seed(self) -> dict[int, Replicate]:
        """The replicates by seed."""
        return {replicate.seed: replicate for replicate in self.replicates}


# Problems with the numbers of their replicates.
Notes = defaultdict[str, list[int]]


def compare_files(first: Cell, second: Cell, common: bool = False) -> tuple[list[str], bool]:
    """Compare the files of a cell's replicates in two result sets, or only those that both have.

    Files must agree with their digests, and tables must have rows on both sides. In virtual time,
    the same instrument and seed must give the same bytes. Returns the problems; and whether no
    replicate was lost and all files of all replicates have the same bytes on both sides.
    """
    notes: Notes = defaultdict(list)
    sides = {"A": first.replicates, "B": second.replicates}
    all_names = {
        side: set().union(*(each.names for each in replicates if each.valid))
        for side, replicates in sides.items()
    }
    for side, replicates in sides.items():
        for each in replicates:
            if not common:
                problems = integrity.replicate_problems(each.folder)
                if each.manifest is None and not problems:
                    problems = [OTHER_VALUES]
            else:
                problems = list(_gaps(each, all_names[side]))
            for problem in problems:
                notes[f"{side}: {problem}"].append(each.number)
    one_sided = []
    if not common and all(all_names.values()):
        one_sided = [f"{name} is in A only" for name in sorted(all_names["A"] - all_names["B"])]
        one_sided += [f"{name} is in B only" for name in sorted(all_names["B"] - all_names["A"])]
    _note_missing_rows(sides, notes)
    pairs = [(one, other) for one in sides["A"] for other in sides["B"] if one.seed == other.seed]
    same = [_same_pair(one, other, notes) for one, other in pairs]
    complete = len(pairs) == len(first.replicates) == len(second.replicates)
    lines = [
        f"{problem} (replicate{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))})"
        for problem, numbers in notes.items()
    ]
    return one_sided + lines, bool(pairs) and complete and all(same)


def _gaps(each: Replicate, expected: set[str]) -> Iterator[str]:
    """Yield the problems of a replicate's files without a complete list of digests."""
    if not each.names:
        if expected:
            yield "no files"
        return
    if each.manifest is None:
        yield OTHER_VALUES
    digests = (each.manifest or {}).get(integrity.FILES, {})
    for name in sorted(digests.keys() & each.names):
        if digest(each.folder / name) != digests[name]:
            yield integrity.MESSAGES[integrity.CHANGED].format(name)
    yield from (f"{name} is empty" for name in sorted(each.empty_tables))
    for name in sorted(expected - each.names if each.valid else ()):
        yield integrity.MESSAGES[integrity.MISSING].format(name)


def _note_missing_rows(sides: dict[str, list[Replicate]], notes: Notes) -> None:
    """Note tables without rows, except tables that have none on both sides for the same seed."""
    without = {
        side: {(each.seed, name) for each in replicates for name in each.without_rows}
        for side, replicates in sides.items()
    }
    filled = {
        name for replicates in sides.values() for each in replicates if each.valid
        for name in each.names - each.without_rows
    }  # fmt: skip
    for side, other in (("A", "B"), ("B", "A")):
        for each in sides[side]:
            alone = {name for name in each.without_rows if (each.seed, name) not in without[other]}
            for name in sorted(alone & filled - each.empty_tables if each.valid else ()):
                notes[f"{side}: {name} has no rows"].append(each.number)


def _same_pair(one: Replicate, other: Replicate, notes: Notes) -> bool:
    """Return whether two replicates of one seed have the same bytes; note unexpected differences.

    With different code, no difference is unexpected, and the comparison of otherwise equal
    manifests ignores their fingerprints.
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
    """Return whether two replicates must have the same bytes according to their manifests."""
    if one == other:
        return True
    if any(one.get(key) != other.get(key) for key in INPUTS):
        return False
    return in_virtual_time(one)


def in_virtual_time(manifest: dict[str, Any]) -> bool:
    """Return whether a replicate was measured in virtual time, where the same seed repeats."""
    instrument = manifest.get("instrument")
    where = instrument.get("where", GUEST) if isinstance(instrument, dict) else None
    backend = BACKENDS.get((str(manifest.get("backend")), str(where)))
    # A machine's own kernel runs in real time.
    return backend is not None and backend.needs.guest


def load_cells(folder: Path) -> dict[str, Cell]:
    """Read the cell.json files below a folder; return the cells by STUDY/CELL.

    Raises LosslabError if there is no cell.json, one is invalid, or a cell occurs twice.
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
            f"{folder} must contain measured cells, found no cell.json below it",
            hint="name a results folder of the workflow",
        )
    return {name: load_cell(file) for name, file in files.items()}


def load_cell(file: Path) -> Cell:
    """Read a cell.json.

    Raises LosslabError if the file is not a cell.json, or has a format that this version cannot
    read.
    """
    try:
        data = read_json(file)
        replicates = [
            Replicate(number, file.parent / str(number), *_typed(row))
            for number, row in enumerate(data["replicates"])
        ]
        if len({each.seed for each in replicates}) != len(replicates):
            raise ValueError("two replicates with the same seed")
        return Cell(file, Condition.from_json(data["condition"]), replicates)
    except (
        AttributeError, KeyError, LosslabError, OSError, RecursionError, TypeError, ValueError
    ) as error:  # fmt: skip
        problem = f"no {error}" if isinstance(error, KeyError) else error
        raise LosslabError(
            f"{file} must be the cell.json of a measured cell, found {problem}",
            hint="measure the cell again with `losslab cell`, which writes this file",
        ) from error


def _typed(row: Any) -> tuple[int, bool, dict[str, Any]]:
    """Return the seed, validity and summary of a row after a check of their types."""
    seed, valid, summary = row["seed"], row["valid"], row["summary"]
    for value, kind in ((seed, int), (valid, bool), (summary, dict)):
        if type(value) is not kind:
            raise ValueError(f"{value!r} instead of {kind.__name__}")
    return seed, valid, summary
