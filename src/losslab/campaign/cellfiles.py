"""Compare the files of a cell's replicates in two result sets, A and B."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST
from losslab.backends.known import BACKENDS
from losslab.campaign import integrity, rerun
from losslab.campaign.folder import MANIFEST_FILE
from losslab.campaign.measured import Cell, Replicate
from losslab.instrument.archive import digest

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
class FileComparison:
    """Result of comparing a cell's files."""

    problems: list[str]
    same_bytes: bool  # of every file of every replicate, and none was lost


@dataclass(frozen=True)
class _Files:
    """The files of one replicate."""

    of: Replicate
    names: set[str]
    empty_tables: set[str]
    without_rows: set[str]
    manifest: dict[str, Any] | None  # None: missing, unreadable or not that of cell.json


class _Notes:
    """Problems, each with the numbers of the replicates that have it."""

    def __init__(self) -> None:
        self._found: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, problem: str, number: int) -> None:
        self._found[problem].append(number)

    def lines(self) -> list[str]:
        return [
            f"{problem} (replicate{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))})"
            for problem, numbers in self._found.items()
        ]


def compare_files(first: Cell, second: Cell, common: bool = False) -> FileComparison:
    """Compare the files of all replicates.

    Files must be as they were measured by their digests (results of format 1.0 have none), and
    tables must have rows on both sides. Where instrument and seed are the same and time is virtual,
    files must have the same bytes. `common`: do not compare files that no replicate of one side
    has.
    """
    notes = _Notes()
    sides = {"A": _read(first), "B": _read(second)}
    every = {
        name: set().union(*(each.names for each in files if each.of.valid))
        for name, files in sides.items()
    }
    for name, cell in (("A", first), ("B", second)):
        if cell.has_digests and not common:
            _note_damage(name, sides[name], notes)
        else:
            _note_gaps(name, sides[name], every[name], common, notes)
    lone = [] if common or not all(every.values()) else _lone_names(every["A"], every["B"])
    _note_missing_rows(sides, notes)
    pairs = [
        (one, other) for one in sides["A"] for other in sides["B"] if one.of.seed == other.of.seed
    ]
    same = [_same_pair(one, other, notes) for one, other in pairs]
    whole = len(pairs) == len(first.replicates) == len(second.replicates)
    return FileComparison(lone + notes.lines(), bool(pairs) and whole and all(same))


def _read(cell: Cell) -> list[_Files]:
    return [_read_one(each) for each in cell.replicates]


def _read_one(replicate: Replicate) -> _Files:
    names = rerun.names(replicate.folder)
    sizes = {name: (replicate.folder / name).lstat().st_size for name in names}
    tables = {name: size for name, size in sizes.items() if name.endswith(TABLE)}
    return _Files(
        replicate,
        names,
        {name for name, size in tables.items() if size == 0},
        {name for name, size in tables.items() if _has_no_rows(replicate.folder / name, size)},
        _manifest(replicate) if MANIFEST_FILE in names else None,
    )


def _has_no_rows(table: Path, size: int) -> bool:
    """Tell whether a table is its head alone."""
    if size > MAX_HEAD_BYTES:
        return False
    return not b"".join(table.read_bytes().split(b"\n")[1:]).strip()


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


def _note_damage(side: str, files: list[_Files], notes: _Notes) -> None:
    """Note what is not as it was measured, by the digests of every file."""
    for each in files:
        problems = integrity.replicate_problems(each.of.folder)
        if each.manifest is None and not problems:
            problems = [OTHER_VALUES]
        for problem in problems:
            notes.add(f"{side} has {problem}", each.of.number)


def _note_gaps(
    side: str, files: list[_Files], every: set[str], common: bool, notes: _Notes
) -> None:
    """Note what is missing or empty, where not every file has a digest or is there."""
    for each in files:
        number = each.of.number
        if not each.names:
            if every or not common:
                notes.add(f"{side} has no files", number)
            continue
        if each.manifest is None:
            notes.add(f"{side} has {OTHER_VALUES}", number)
        listed = (each.manifest or {}).get(integrity.FILES, {})
        for name in sorted(listed.keys() & each.names):
            if digest(each.of.folder / name) != listed[name]:
                notes.add(f"{side} has another {name} than was measured", number)
        for name in sorted(each.empty_tables):
            notes.add(f"{side} has an empty {name}", number)
        for name in sorted(every - each.names if each.of.valid else ()):
            notes.add(f"{side} has no {name}", number)


def _lone_names(first: set[str], second: set[str]) -> list[str]:
    """Name the files that only one side has."""
    return [f"{name} is in A only" for name in sorted(first - second)] + [
        f"{name} is in B only" for name in sorted(second - first)
    ]


def _note_missing_rows(sides: dict[str, list[_Files]], notes: _Notes) -> None:
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
                notes.add(f"{side} has no rows in {name}", each.of.number)


def _same_pair(one: _Files, other: _Files, notes: _Notes) -> bool:
    """Tell whether two replicates of one seed have the same bytes; note where they must have."""
    if one.manifest is None or other.manifest is None:
        return False
    if not _must_agree(one.manifest, other.manifest):
        return False
    agreement = rerun.compare(one.of.folder, other.of.folder)
    for name, how in agreement.different.items():
        if name in one.names & other.names:
            notes.add(f"{name} must have the same bytes, found {how}", one.of.number)
        elif not (one.of.valid and other.of.valid):
            side = "A" if name in one.names else "B"
            notes.add(f"{name} is in {side} only", one.of.number)
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
