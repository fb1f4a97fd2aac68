"""Records of measured cells, with which others check or report a campaign without its raw files.

A record such as recorded/quick/record.tsv has a row per cell: the number of runs, the primary
metric with its confidence interval, and a digest of all raw files.

A folder such as recorded/full has the numbers from which a report is made: a file
STUDY.jsonl.xz per study, with a line per cell, and `cells.tsv`, which says what each cell was
measured for. A campaign that names the folder (`recorded`) measures only the cells that it lacks.

The provenance of a campaign says with which instrument and where cells were measured, or recorded.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from losslab.backends.base import CONTAINERNET, VIRTUAL
from losslab.campaign import fingerprint, plan, results, tables
from losslab.campaign.bounds import above_links
from losslab.campaign.compare import (
    CellDifference,
    CellVerdict,
    Comparison,
    counted,
    of_conditions,
    other_versions,
)
from losslab.campaign.plan import CampaignPlan
from losslab.campaign.results import DamagedError, MeasuredCell, Row, digest_of, whole_file
from losslab.campaign.tables import CellNumbers, write_csv
from losslab.errors import LosslabError
from losslab.moved import now_at
from losslab.reading import TABLE_BYTES, UsageError, number, parse_json, read_rows, whole
from losslab.repository import ROOT
from losslab.study import metrics
from losslab.study.condition import Condition
from losslab.study.design import Cell, Study
from losslab.study.intervals import mean_interval
from losslab.study.schemas import check_schema

RECORD_SUFFIX, RECORD = ".tsv", "record.tsv"
# Significant digits of the recorded numbers.
DIGITS = 6
SUFFIX, INDEX = ".jsonl.xz", "cells.tsv"
INDEX_COLUMNS = ("study", "cell", "measured_for")
SCHEMA = "recorded-cell"
# What the report shows of a replicate's host.json.
HOST_KEYS = ("losslab", "git", "host_cpu", "host_kernel", "started_utc", "wall_s")
COLUMNS_OF_ORIGIN = ("part", "what", "cells")
DIGEST_COLUMNS = ("study", "cell", "digest")
# Leading digits of a digest: two of 10^4 cells agree by chance once in 10^7 campaigns.
SHOWN_DIGITS = 12
# Programs of the image that generate or shape traffic.
PROGRAMS = ("iperf3", "ffmpeg", "curl", "iproute2", "mininet")
FIRST = ("not measured here", "measured on", "time", "losslab", "machine", "kernel", "BBR")
NOT_RECORDED = "its numbers are not recorded"
HINT = "restore the record, for example with `git checkout`"

Name = tuple[str, str]  # study and cell
Part = tuple[str, str]  # of an instrument: its name and version


@dataclass(frozen=True, order=True)
class RecordRow:
    """A recorded cell. `mean`, `low` and `high` are "" if the cell has no value or no interval."""

    study: str
    cell: str
    replicates: int
    valid: int
    metric: str
    mean: str
    low: str  # 95 % confidence interval of the mean
    high: str
    sha256: str  # of all raw files of all replicates

    @property
    def name(self) -> str:
        """STUDY/CELL."""
        return f"{self.study}/{self.cell}"


COLUMNS = tuple(field.name for field in fields(RecordRow))


def row_of(name: str, cell: MeasuredCell) -> RecordRow:
    """Summarise a cell named STUDY/CELL; LosslabError if it is damaged, or its bytes may vary."""
    replicates = cell.checked().replicates
    problem = ""
    if any(row.get("lost") for row in cell.rows):
        problem = "the guest of a replicate was lost"
    elif not all(each.in_virtual_time for each in replicates):
        problem = "it was measured in real time"
    if problem:
        raise LosslabError(
            f"a recorded cell must be whole, found {cell.file.parent}: {problem}",
            hint="measure it again, and name folders of campaigns in virtual time only",
        )
    raw = sorted((each.manifest["seed"], each.manifest[results.FILES]) for each in replicates)
    study, _, short = name.partition("/")
    return RecordRow(study, short, *_numbers(cell.rows), digest_of(raw))


def _numbers(rows: Sequence[Row]) -> tuple[int, int, str, str, str, str]:
    """Return the columns of a recorded cell that follow from its rows, in their order."""
    summaries = [row["summary"] for row in rows if row["valid"]]
    metric = metrics.primary(summaries)
    found = (metrics.value(summary, metric) for summary in summaries)
    values = [value for value in found if value is not None]
    numbers = [fmean(values) if values else None, *(mean_interval(values) or (None, None))]
    mean, low, high = ("" if value is None else f"{value:.{DIGITS}g}" for value in numbers)
    return len(rows), len(summaries), metric, mean, low, high


def read_record(path: Path) -> dict[str, RecordRow]:
    """Read a record; return its rows by STUDY/CELL; UsageError if a row is invalid or repeated."""
    rows: dict[str, RecordRow] = {}
    for line, row in enumerate(read_rows(path, "\t", COLUMNS), start=2):
        where = f"{path}, line {line}"
        counts = {key: whole(row[key], f"{key} of {where},") for key in ("replicates", "valid")}
        for key in ("mean", "low", "high"):
            if row[key]:
                number(row[key], f"{key} of {where},")
        values: dict[str, Any] = {key: row[key] for key in COLUMNS} | counts
        record = RecordRow(**values)
        if record.name in rows or len(record.sha256) != 64:
            raise UsageError(
                f"{where} must have the digest of a cell without another line, found {record.name}"
            )
        rows[record.name] = record
    return rows


def update_record(folder: Path, path: Path) -> tuple[set[str], int]:
    """Record all cells of a results folder; keep the rows of other cells.

    Returns the names of the recorded cells, and how many of them have a new or another row.
    """
    before = read_record(path) if path.is_file() else {}
    now = {name: row_of(name, cell) for name, cell in results.read_cells(folder).items()}
    _write_table(path, COLUMNS, map(astuple, sorted((before | now).values())))
    return set(now), sum(before.get(name) != row for name, row in now.items())


def _write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as part, part.open("w", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(columns)
        table.writerows(rows)


def compare(folder: Path, path: Path, common: bool = False) -> Comparison:
    """Compare the cells of a results folder, A, with a record, B."""
    known, measured = read_record(path), results.read_cells(folder)
    rows = {name: row_of(name, measured[name]) for name in sorted(measured.keys() & known.keys())}
    others = {name for name, row in rows.items() if row.sha256 != known[name].sha256}
    numbers = _numbers_beside(path, {name: known[name] for name in others})
    return Comparison(
        [
            _other_bytes(measured[name], row, known[name], numbers.get(name))
            if name in others
            else _difference(row, known[name])
            for name, row in rows.items()
        ],
        sorted(measured.keys() - known.keys()),
        # A part of a campaign would list hundreds.
        [] if common else sorted(known.keys() - measured.keys()),
        common=common,
    )


def _numbers_beside(path: Path, rows: Mapping[str, RecordRow]) -> dict[str, CellNumbers]:
    """Return the recorded numbers of cells, by STUDY/CELL, that lie beside their record."""
    beside: dict[str, CellNumbers] = {}
    for study in sorted({row.study for row in rows.values()}):
        if file_of(path.parent, study).is_file():
            present = _read_study(file_of(path.parent, study)).keys()
            wanted = {row.cell for row in rows.values() if row.study == study} & present
            for cell, numbers in read(path.parent, study, wanted).items():
                name = f"{study}/{cell}"
                if _numbers(numbers.content["replicates"]) == astuple(rows[name])[2:-1]:
                    beside[name] = numbers
    return beside


def _other_bytes(
    cell: MeasuredCell, one: RecordRow, other: RecordRow, numbers: CellNumbers | None
) -> CellDifference:
    """Say why a cell's digest is not the recorded one: its condition, runs, versions, or bytes.

    A record has one digest of all runs. Of a cell with more runs than recorded, as many of its
    first runs as the record has are compared; of one with fewer, the recorded numbers of the runs
    with the same seeds, if they lie beside the record.
    """
    difference = _difference(one, other)
    rows = numbers.content["replicates"] if numbers else ()
    if numbers:
        condition = Condition.from_json(numbers.content["condition"])
        if verdict := of_conditions(cell.condition, condition):
            problems = results.other_values(cell.condition, condition)
            return replace(difference, verdict=verdict, problems=problems)
        difference = replace(difference, versions=other_versions(cell.rows, rows))
    else:
        unknown = "the record has no durations: runs of another one have other bytes, too"
        difference = replace(difference, problems=[*difference.problems, unknown])
    if one.replicates == other.replicates:
        return difference
    problems = [f"A has {one.replicates} runs, and the record {other.replicates}"]
    verdict = CellVerdict.RUNS
    if one.replicates > other.replicates:
        first = cell.content | {"replicates": cell.rows[: other.replicates]}
        part = row_of(one.name, replace(cell, content=first))
        verdict = CellVerdict.OTHER_BYTES
        if part.sha256 == other.sha256:
            return replace(_difference(part, other), verdict=CellVerdict.SAME_RUNS)
        problems.append(f"the first {other.replicates} runs of A have other bytes")
    elif rows:
        recorded = {row["seed"]: row["summary"] for row in rows}
        if all(row["summary"] == recorded.get(row["seed"]) for row in cell.rows):
            return replace(difference, verdict=CellVerdict.SAME_VALUES, problems=[])
        verdict = CellVerdict.OTHER_BYTES
        problems.append("its runs have other numbers than the recorded runs of their seeds")
    else:
        problems.append("the record has one digest of all runs, so these cannot be compared")
    return replace(difference, verdict=verdict, problems=[*problems, *difference.problems])


def _difference(one: RecordRow, other: RecordRow) -> CellDifference:
    verdict, problems = CellVerdict.SAME_BYTES, []
    if one.sha256 != other.sha256:
        verdict = CellVerdict.OTHER_BYTES
        if one.mean and other.low:
            inside = float(other.low) <= float(one.mean) <= float(other.high)
            problems.append(
                f"the mean of A is {'inside' if inside else 'outside'} the recorded confidence "
                f"interval, {other.low} to {other.high}"
            )
    elif one != other:  # all other columns follow from the files
        verdict = CellVerdict.OTHER_NUMBERS
        problems = [
            f"{column} of A is {a or 'empty'}, and the record has {b or 'nothing'}"
            for column, a, b in zip(COLUMNS, astuple(one), astuple(other), strict=True)
            if a != b
        ]
    return CellDifference(
        cell=one.name, metric=one.metric, replicates=(one.replicates, other.replicates),
        n=(one.valid, other.valid), mean=(_float(one.mean), _float(other.mean)), paired=False,
        verdict=verdict, problems=problems,
    )  # fmt: skip


def _float(text: str) -> float | None:
    return float(text) if text else None


# Numbers from which a report is made


def available(folder: Path, cells: Iterable[Cell]) -> set[Name]:
    """Return the cells whose recorded numbers are those that a new measurement would give.

    Raises UsageError for numbers that no run can have, and for others than in the record beside the
    folder, `record.tsv`, if it is there. Whoever forges numbers must forge that, too, and its
    digests of raw files are those that a new measurement has.
    """
    index = _read_index(folder)
    recorded: dict[str, list[Cell]] = {}
    beside = folder / RECORD
    rows = read_record(beside) if beside.is_file() else {}
    for cell in cells:
        then = index.get((cell.study, cell.name))
        kinds = (VIRTUAL, CONTAINERNET) if cell.any_backend else (cell.backend,)
        prints = (fingerprint.of(cell.condition, kind, cell.where) for kind in kinds)
        if then and any(then == _measured_for(cell, p.digest) for p in prints):
            recorded.setdefault(cell.study, []).append(cell)
    for study, of_study in recorded.items():
        numbers = read(folder, study, {cell.name for cell in of_study})
        for cell in of_study:
            content = numbers[cell.name].content
            others = plan.contradictions(content, cell) or [*impossible(content, cell)]
            row = rows.get(f"{cell.study}/{cell.name}")
            if row and _numbers(content["replicates"]) != astuple(row)[2:-1]:
                others.append(f"other numbers than in {beside}")
            if others:
                raise UsageError(
                    f"{file_of(folder, study)} must have the cells of this campaign, found in "
                    f"{cell.name}: {others[0]}",
                    hint=f"{HINT}, or measure the cell again",
                )
    return {(cell.study, cell.name) for of_study in recorded.values() for cell in of_study}


def impossible(content: Row, cell: Cell) -> Iterable[str]:
    """Yield what no run of a cell can have: a violation in a valid run, or an impossible number."""
    for replicate, row in enumerate(content["replicates"]):
        where, summary = f"replicate {replicate}", row["summary"]
        if row["valid"] != (not row["reasons"]):
            yield f"{where} is {'valid with' if row['valid'] else 'invalid without'} a violation"
        if not row["valid"]:
            continue
        problems = [*metrics.out_of_range(summary), *above_links(summary, cell.condition)]
        yield from (f"{where}: {problem}" for problem in problems)


def _measured_for(cell: Cell, now: str) -> str:
    """Return a digest of all that determines a cell's numbers."""
    rule = cell.stopping
    return digest_of([now, rule.minimum, rule.maximum, rule.half_width_percent, cell.seed_family])


def file_of(folder: Path, study: str) -> Path:
    """Return the file with the numbers of a study's cells."""
    return folder / f"{study}{SUFFIX}"


def of_plan(planned: CampaignPlan, study: str, folder: Path) -> tuple[list[CellNumbers], set[str]]:
    """Return the numbers of a study's planned cells, and the names of those from a record."""
    cells = {part.cell.name: part for part in planned.of_study(study)}
    names = {name for name, part in cells.items() if part.recorded}
    numbers = read(planned.record, study, names) if planned.record and names else {}
    for part in planned.not_recorded():
        if part.cell.study == study:
            block, condition, place = part.cell.block, part.cell.condition, part.file(folder).parent
            content = results.cell_content(study, block, condition, place, 0)
            absent = content | {"absent": NOT_RECORDED}
            numbers[part.cell.name] = CellNumbers(absent, [], [], None, [])
    for name in cells.keys() - numbers.keys():
        cell = results.read_cell(cells[name].file(folder))
        numbers[name] = tables.numbers_of(cell, name in planned.series[study])
        if others := plan.contradictions(cell.content, cells[name].cell):
            raise DamagedError(
                f"{cell.file.parent} must have the cell of this campaign, found another: "
                f"{others[0]}",
                hint=results.HINT,
            )
    return [numbers[name] for name in cells], names


def read(folder: Path, study: str, names: Collection[str]) -> dict[str, CellNumbers]:
    """Read cells of a study by name; UsageError if one is missing or the file is damaged."""
    path = file_of(folder, study)
    lines = {name: line for name, line in _read_study(path).items() if name in names}
    if missing := sorted({*names} - {*lines}):
        raise UsageError(f"{path} must have the cell {missing[0]}, found none", hint=HINT)
    for name, line in lines.items():
        where = f"{path}, cell {name}"
        check_schema(line, SCHEMA, where, HINT)
        check_schema(line["content"], "cell", where, HINT)
        count = len(line["content"]["replicates"])
        if {len(line["analysed"]), len(line["intervals"])} != {count}:
            raise UsageError(
                f"{where} must have numbers of {count} replicates, found others", hint=HINT
            )
    return {name: CellNumbers(**line) for name, line in lines.items()}


def has_numbers(folder: Path) -> bool:
    """Return whether a folder has recorded numbers."""
    return (folder / INDEX).is_file() and any(folder.glob(f"*{SUFFIX}"))


def read_all(folder: Path) -> list[CellNumbers]:
    """Read all cells of a folder of recorded numbers; those that its index lacks are left out."""
    names: dict[str, list[str]] = {}
    for study, cell in _read_index(folder):
        names.setdefault(study, []).append(cell)
    return [each for study, cells in names.items() for each in read(folder, study, cells).values()]


def of_overview(rows: Sequence[Mapping[str, str]], folder: Path | None) -> dict[str, CellNumbers]:
    """Read the cells that a study's table of cells says are recorded."""
    names = {row["cell"] for row in rows if row.get("recorded") == "TRUE"}
    if not names:
        return {}
    if folder is None:
        raise UsageError(
            f"--recorded must name the folder that has {min(names)}, found no such option"
        )
    return read(folder, rows[0]["study"], names)


def update(folder: Path, studies: Iterable[Study], record: Path, names: Container[str]) -> int:
    """Record the numbers of cells named STUDY/CELL; keep other cells' and return their number."""
    index = _read_index(record) if (record / INDEX).is_file() else {}
    lines: dict[str, dict[str, Row]] = {}
    for study, cell in ((its, cell) for its in studies for cell in its.cells):
        if f"{cell.study}/{cell.name}" not in names:
            continue
        measured = results.read_cell(results.cell_file(folder, cell.study, cell.name))
        if not measured.rows:
            continue
        line = asdict(tables.numbers_of(measured, cell.name in study.series))
        line["hosts"] = [{k: host[k] for k in HOST_KEYS if k in host} for host in line["hosts"]]
        lines.setdefault(cell.study, {})[cell.name] = line
        index[cell.study, cell.name] = _measured_for(cell, _measured_with(measured))
    record.mkdir(parents=True, exist_ok=True)
    for name, new in lines.items():
        path = file_of(record, name)
        content = (_read_study(path) if path.is_file() else {}) | new
        text = "".join(
            json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n"
            for _, line in sorted(content.items())
        )
        with whole_file(path) as part:
            part.write_bytes(lzma.compress(text.encode(), preset=9))
    rows = ([*name, digest] for name, digest in sorted(index.items()))
    _write_table(record / INDEX, INDEX_COLUMNS, rows)
    return sum(map(len, lines.values()))


def _measured_with(cell: MeasuredCell) -> str:
    """Return the fingerprint of a cell's replicates."""
    digests = {str(run.manifest["fingerprint"]["digest"]) for run in cell.replicates}
    if len(digests) != 1:
        raise LosslabError(
            "a recorded cell must have runs of one instrument, found "
            f"{len(digests)} in {cell.file.parent}",
            hint="measure it again: the next start of `snakemake` does",
        )
    return digests.pop()


def _read_study(path: Path) -> dict[str, Row]:
    """Return a study's lines by cell; the schema of a line is checked when it is used."""
    try:
        with lzma.open(path) as file:
            content = file.read(TABLE_BYTES + 1)
        if len(content) > TABLE_BYTES:
            raise UsageError(f"{path} must have at most {TABLE_BYTES} bytes, found more")
        lines = content.decode().splitlines()
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} must be a readable .xz file, found: {error}", hint=HINT
        ) from error
    cells: dict[str, Row] = {}
    for count, line in enumerate(lines, start=1):
        cell = parse_json(line, f"{path}, line {count}")
        try:
            name = str(cell["content"]["cell"])
        except (LookupError, TypeError):
            name = ""
        if name in cells or not name:
            raise UsageError(
                f"{path}, line {count} must be a recorded cell without another line, found "
                f"{name or 'none'}",
                hint=HINT,
            )
        cells[name] = cell
    return cells


def _read_index(folder: Path) -> dict[Name, str]:
    if not (folder / INDEX).is_file():
        raise UsageError(
            f"a folder of recorded numbers must have {INDEX}, found none in {folder}"
            f"{now_at(folder)}",
            hint="`losslab record RESULTS RECORD --numbers FOLDER` writes such a folder",
        )
    rows = read_rows(folder / INDEX, "\t", INDEX_COLUMNS)
    return {(row["study"], row["cell"]): row["measured_for"] for row in rows}


# Provenance of a campaign: its instrument, machines and dates, and digests of its cells


@dataclass(frozen=True)
class Origin:
    """The content of a cell.json, and the host.json of each of its replicates."""

    content: Row
    hosts: list[Row]
    recorded: Path | None = None  # the folder of recorded numbers that the cell is from


def parts_of(instrument: Row) -> Iterable[Part]:
    """Yield the parts of a replicate's instrument with their versions."""
    kernel, image = instrument.get("kernel") or {}, instrument.get("image") or {}
    if "version" in kernel:
        linux, patches = f"Linux {kernel['version']}", kernel.get("patches", [])
        yield "kernel", f"{linux} with {len(patches)} patches of ours"
        bbr_patches = [patch for patch in patches if "bbr" in patch.lower()]
        yield "BBR", ", with ".join([f"tcp_bbr.c of {linux}", *bbr_patches])
    if "config_sha256" in kernel:
        yield "kernel's configuration", str(kernel["config_sha256"])[:SHOWN_DIGITS]
    packages = image.get("packages", {})
    yield from ((name, packages[name]) for name in PROGRAMS if name in packages)
    if "packages_sha256" in image:
        yield "image's packages", str(image["packages_sha256"])[:SHOWN_DIGITS]


def host_parts(host: Row) -> Iterable[Part]:
    """Yield the machine of a replicate and its version of losslab, from host.json."""
    git = host.get("git") or {}
    state = " with changes" if git.get("dirty") else ""
    commit = f", commit {git['commit'][:12]}{state}" if git.get("commit") else ""
    yield "losslab", f"{host['losslab']}{commit}"
    yield "machine", f"{host['host_cpu']}, Linux {host['host_kernel']}"


def origins(
    overviews: Sequence[Path], folder: Path, recorded: Path | None = None
) -> Iterable[Origin]:
    """Yield the cells in tables of cells that were measured here, or have recorded numbers.

    `losslab collect` has compared the raw files with their digests when it made the tables.
    """
    for overview in overviews:
        rows = [row for row in read_rows(overview, columns=("study", "cell")) if row["cell"]]
        known = of_overview(rows, recorded)
        for row in rows:
            path = results.cell_file(folder, row["study"], row["cell"])
            if one := known.get(row["cell"]):
                yield Origin(one.content, one.hosts, recorded)
            # A campaign that does not measure ignores what is in its folder.
            elif row.get("n_replicates") != "0" and path.is_file():
                cell = results.read_cell(path)
                yield Origin(cell.content, [each.host for each in cell.replicates])


def origin_table(cells: Iterable[Origin]) -> list[Row]:
    """Count the cells measured with each part of the instrument, on each machine and day."""
    counts: Counter[Part] = Counter()
    cells = list(cells)
    for cell in cells:
        instruments = [parts_of(row["instrument"]) for row in cell.content["replicates"]]
        parts = dict.fromkeys(chain(*instruments, *map(host_parts, cell.hosts)))
        if cell.recorded is not None:
            parts[
                "not measured here",
                f"numbers recorded in {cell.recorded}, by the same measuring code",
            ] = None
        counts.update(parts.keys())
    hosts = [host for cell in cells for host in cell.hosts]
    measured = sum(bool(cell.hosts) for cell in cells)
    if hosts:
        days = sorted({host["started_utc"][:10] for host in hosts})
        counts["measured on", " to ".join(dict.fromkeys((days[0], days[-1])))] = measured
        wall_s = sum(host.get("wall_s") or 0.0 for host in hosts)
        hours, minutes = divmod(max(1, round(wall_s / 60)), 60)
        duration = f"{hours} h {minutes} min" if hours else f"{minutes} min"
        counts["time", f"{duration}, the runs one after the other"] = measured
    # The parts in FIRST come first, the others in the order of their occurrence.
    order = {part: place for place, (part, _) in enumerate(counts)}
    order |= {part: place - len(FIRST) for place, part in enumerate(FIRST)}
    ranked = sorted(counts.items(), key=lambda item: (order[item[0][0]], -item[1]))
    return [{"part": part, "what": what, "cells": count} for (part, what), count in ranked]


def digests(cells: Iterable[Origin]) -> list[Row]:
    """Return a digest of each cell's results; equal results have equal digests on all machines."""
    rows = []
    for cell in (origin.content for origin in cells):
        # Without the number of attempts, which depends on the machine.
        measured = [[run["seed"], run["valid"], run["summary"]] for run in cell["replicates"]]
        digest = digest_of([cell["condition"], measured])[:SHOWN_DIGITS]
        rows.append({"study": cell["study"], "cell": cell["cell"], "digest": digest})
    return rows


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `record`, which writes a campaign's record, and `origin`, which writes its provenance."""

    def origin(options: argparse.Namespace) -> int:
        cells = list(origins(options.overviews, options.results, options.recorded))
        write_csv(options.out, COLUMNS_OF_ORIGIN, origin_table(cells))
        if options.digests is not None:
            write_csv(options.digests, DIGEST_COLUMNS, digests(cells))
        return 0

    def record(options: argparse.Namespace) -> int:
        if options.record.suffix != RECORD_SUFFIX:
            raise UsageError(f"the record must be a {RECORD_SUFFIX} file, found {options.record}")
        # First: it refuses damaged cells, lost guests, and cells in real time.
        names, changed = update_record(options.results, options.record)
        print(f"recorded {counted(len(names))} in {options.record}, {changed} new or changed")
        if options.numbers:
            studies = plan.read_campaign(options.results, ROOT).studies
            count = update(options.results, studies, options.numbers, names)
            print(f"recorded the numbers of {counted(count)} in {options.numbers}")
        return 0

    command = commands.add_parser("record")
    command.add_argument("results", type=Path, help="results folder")
    kept = f"{RECORD_SUFFIX} file; other cells' rows are kept"
    command.add_argument("record", type=Path, help=kept)
    numbers = "also record the numbers that a report needs in this folder"
    command.add_argument("--numbers", type=Path, metavar="FOLDER", help=numbers)
    command.set_defaults(run=record)

    command = commands.add_parser("origin")
    command.add_argument("overviews", nargs="+", type=Path, help="tables of studies' cells")
    command.add_argument("--results", type=Path, default=results.RESULTS)
    command.add_argument("--recorded", type=Path, help="folder of recorded numbers")
    columns = "table to write: part, what, cells"
    command.add_argument("--out", type=Path, required=True, help=columns)
    command.add_argument("--digests", type=Path, help="table to write: study, cell, digest")
    command.set_defaults(run=origin)
