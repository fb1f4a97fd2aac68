"""Recorded numbers of measured cells, without their raw files, to make a campaign's report from.

A folder such as docs/results/full has a file STUDY.jsonl.xz per study, with a line per cell, and
`cells.tsv`, which says what each cell was measured for. A campaign that names the folder
(`recorded`) measures only the cells that the folder lacks.
"""

from __future__ import annotations

import csv
import json
import lzma
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from losslab.backends.base import CONTAINERNET, VIRTUAL
from losslab.campaign import celldata, fingerprint, hosts, recordcheck
from losslab.campaign.celldata import CellData, Row, Series
from losslab.campaign.folder import CELL_FILE, MANIFEST_FILE, digest_of, read_json, whole_file
from losslab.errors import LosslabError
from losslab.reading import TABLE_BYTES, UsageError, parse_json, read_rows
from losslab.study.design import Cell, Study
from losslab.study.schemas import check_schema

SUFFIX, INDEX = ".jsonl.xz", "cells.tsv"
INDEX_COLUMNS = ("study", "cell", "measured_for")
SCHEMA = "recorded-cell"
# What the report shows of a replicate's host.json.
HOST_KEYS = ("losslab", "git", "host_cpu", "host_kernel", "started_utc", "wall_s")
HINT = "restore the record, for example with `git checkout`"

Name = tuple[str, str]  # study and cell


@dataclass(frozen=True)
class RecordedCell:
    """A recorded cell: its numbers, and the machines that measured its replicates."""

    data: CellData
    hosts: list[Row]


def available(folder: Path, cells: Iterable[Cell]) -> set[Name]:
    """Return the cells whose recorded numbers are those that a new measurement would give.

    Raises UsageError if the folder is not a record, or a cell contradicts the campaign.
    """
    index = _read_index(folder)
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        then = index.get((cell.study, cell.name))
        kinds = (VIRTUAL, CONTAINERNET) if cell.any_backend else (cell.backend,)
        if then and any(then == _measured_for(cell, _fingerprint(cell, kind)) for kind in kinds):
            found.setdefault(cell.study, []).append(cell)
    for study, its in found.items():
        known = read(folder, study, {cell.name for cell in its})
        for cell in its:
            where = recordcheck.place(folder, study, cell.name)
            recordcheck.require_planned(known[cell.name].data.content, where, cell)
    return {(cell.study, cell.name) for its in found.values() for cell in its}


def _fingerprint(cell: Cell, backend: str) -> str:
    return fingerprint.of(cell.condition, backend, cell.where).digest


def _measured_for(cell: Cell, now: str) -> str:
    """Return a digest of all that determines a cell's numbers."""
    rule = cell.stopping
    return digest_of([now, rule.minimum, rule.maximum, rule.half_width_percent, cell.seed_family])


def file_of(folder: Path, study: str) -> Path:
    """Return the file with the numbers of a study's cells."""
    return folder / f"{study}{SUFFIX}"


def read(
    folder: Path,
    study: str,
    names: Collection[str],
) -> dict[str, RecordedCell]:
    """Read cells of a study by name.

    Raises UsageError if one is missing or the file is damaged.
    """
    path = file_of(folder, study)
    found = {name: one for name, one in _read_study(path).items() if name in names}
    if missing := sorted({*names} - {*found}):
        raise UsageError(f"{path} must have the cell {missing[0]}, found none", hint=HINT)
    return {
        name: _parsed(each, recordcheck.place(folder, study, name)) for name, each in found.items()
    }


def of_overview(rows: Sequence[Mapping[str, str]], folder: Path | None) -> dict[str, RecordedCell]:
    """Read the cells that a study's table of cells says are recorded.

    Raises UsageError if there are any, and no folder is given.
    """
    names = {row["cell"] for row in rows if row.get("recorded") == "TRUE"}
    if not names:
        return {}
    if folder is None:
        raise UsageError(
            f"--recorded must name the folder that has {min(names)}, found no such option"
        )
    return read(folder, rows[0]["study"], names)


def update(results: Path, studies: Iterable[Study], folder: Path, names: Container[str]) -> int:
    """Record the cells with these names, STUDY/CELL; keep the recorded numbers of other cells.

    Returns the number of recorded cells. Raises LosslabError if a cell is damaged.
    """
    index = _read_index(folder) if (folder / INDEX).is_file() else {}
    lines: dict[str, dict[str, Row]] = {}
    for cell, wanted in ((cell, study.series) for study in studies for cell in study.cells):
        path = results / "cells" / cell.study / cell.name / CELL_FILE
        if f"{cell.study}/{cell.name}" not in names:
            continue
        data = celldata.read(path, cell.name in wanted)
        if not data.content["replicates"]:
            continue
        lines.setdefault(cell.study, {})[cell.name] = _line(data, celldata.read_hosts(path))
        measured = hosts.measured(cell, data.content["replicates"])
        index[cell.study, cell.name] = _measured_for(measured, _measured_with(path.parent))
    folder.mkdir(parents=True, exist_ok=True)
    for name, new in lines.items():
        path = file_of(folder, name)
        _write_study((_read_study(path) if path.is_file() else {}) | new, path)
    _write_index(index, folder)
    return sum(map(len, lines.values()))


def _measured_with(folder: Path) -> str:
    """Return the fingerprint of a cell's replicates."""
    found = {
        str(read_json(each)["fingerprint"]["digest"]) for each in folder.glob(f"*/{MANIFEST_FILE}")
    }
    if len(found) != 1:
        raise LosslabError(
            f"a recorded cell must have runs of one instrument, found {len(found)} in {folder}",
            hint="measure it again: the next start of `snakemake` does",
        )
    return found.pop()


def _line(data: CellData, measured_on: Iterable[Row]) -> Row:
    kept = [{key: host[key] for key in HOST_KEYS if key in host} for host in measured_on]
    return asdict(data) | {"hosts": kept}


def _parsed(line: Row, where: str) -> RecordedCell:
    check_schema(line, SCHEMA, where, HINT)
    check_schema(line["content"], "cell", where, HINT)
    count = len(line["content"]["replicates"])
    if {len(line["analysed"]), len(line["intervals"])} != {count}:
        raise UsageError(
            f"{where} must have numbers of {count} replicates, found others", hint=HINT
        )
    series = line["series"] and Series(**line["series"])
    data = CellData(line["content"], line["analysed"], line["intervals"], series)
    return RecordedCell(data, line["hosts"])


def _read_study(path: Path) -> dict[str, Row]:
    """Return a study's lines by cell; the schema of a line is checked when it is used."""
    try:
        with lzma.open(path) as file:
            content = file.read(TABLE_BYTES + 1)
        if len(content) > TABLE_BYTES:
            raise UsageError(f"{path} must have at most {TABLE_BYTES} bytes, found more")
        text = content.decode()
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} must be a readable .xz file, found: {error}", hint=HINT
        ) from error
    found: dict[str, Row] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path}, line {number}"
        one = parse_json(line, where)
        try:
            name = str(one["content"]["cell"])
        except (LookupError, TypeError) as error:
            raise UsageError(f"{where} must be a recorded cell, found none", hint=HINT) from error
        if name in found:
            raise UsageError(
                f"{where} must be a cell without another line, found {name}", hint=HINT
            )
        found[name] = one
    return found


def _write_study(lines: Mapping[str, Any], path: Path) -> None:
    text = "".join(
        json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n"
        for _, line in sorted(lines.items())
    )
    with whole_file(path) as part:
        part.write_bytes(lzma.compress(text.encode(), preset=9))


def _read_index(folder: Path) -> dict[Name, str]:
    if not (folder / INDEX).is_file():
        raise UsageError(
            f"a folder of recorded numbers must have {INDEX}, found none in {folder}",
            hint="`losslab record RESULTS RECORD --numbers FOLDER` writes such a folder",
        )
    rows = read_rows(folder / INDEX, "\t", INDEX_COLUMNS)
    return {(row["study"], row["cell"]): row["measured_for"] for row in rows}


def _write_index(index: Mapping[Name, str], folder: Path) -> None:
    with whole_file(folder / INDEX) as part, part.open("w", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(INDEX_COLUMNS)
        table.writerows([*name, digest] for name, digest in sorted(index.items()))
