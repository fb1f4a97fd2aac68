"""Files of a results folder: their names, how they are written, and the readers of all of them.

A manifest lists the digests of its replicate's raw files. host.json lists that of the manifest and
its own. cell.json repeats the content of both. Every reader thus detects files that are missing,
damaged, edited or added.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.backends.base import CONSOLE_FILE, GUEST
from losslab.backends.registry import BACKENDS
from losslab.errors import HostError, LosslabError
from losslab.instrument.fetch import digest
from losslab.lock import own_folder
from losslab.reading import UsageError, read_json, read_rows, read_samples, shown
from losslab.repository import FORMAT, __version__
from losslab.study import metrics
from losslab.study.condition import AXES, Condition
from losslab.study.schemas import check_schema

if TYPE_CHECKING:
    from losslab.reading import Samples

# In host.json: what wrote the replicate.
WRITTEN_BY = {"losslab": __version__, "format": FORMAT}
RESULTS, CELLS = Path("results"), "cells"
MANIFEST_FILE = "manifest.json"
# Differs between two runs with the same seed.
HOST_FILE = "host.json"
# Key of host.json: what the source of the path has and the condition lacks.
LEFT_OUT = "left_out"
# Summary of a cell's replicates, in the cell's folder.
CELL_FILE = "cell.json"
# Record of the last lost guest in a cell's folder. The workflow retries a cell that has one.
LOST_FILE = "lost.json"
# Keys that show, even in a truncated file, that losslab wrote a replicate's folder.
RECOGNISED = {MANIFEST_FILE: ("backend", "cell"), HOST_FILE: ("host_cpu", "host_kernel")}
# The keys of a record's digests: by file below the folder, and of the record itself.
FILES, SELF = "files", "sha256"
# Sources of the algorithms that were compiled into a run's kernel, whose hash has their digests.
ALGORITHMS_FILE = "algorithms.json"
# Files that a manifest does not list: itself, and those that do not follow from condition and seed.
UNLISTED = (MANIFEST_FILE, HOST_FILE, CONSOLE_FILE, ALGORITHMS_FILE)
# Keys of the manifest and of host.json that cell.json repeats.
MANIFEST_KEYS = ("seed", "valid", "reasons", "summary", "instrument")
HOST_KEYS = ("attempt", "earlier_reasons")
# Problems of a file, and the messages on a replicate's file.
MISSING, IRREGULAR, ADDED, CHANGED = "missing", "not a regular file", "not listed", "changed"
MESSAGES = {
    MISSING: "is missing", IRREGULAR: "is not a regular file",
    ADDED: f"is not listed in {MANIFEST_FILE} or {HOST_FILE}",
    CHANGED: "has changed since it was measured",
}  # fmt: skip
# Prefix of incomplete folders and files.
PARTIAL = ".losslab-"
# With less free space, a failure counts as caused by a full disk.
MIN_FREE_BYTES = 4 * 2**20
FREE_SPACE = "free disk space there and start again; finished replicates are kept"
HINT = "restore its files and move added ones away, or delete this folder and measure it again"
FOREIGN_HINT = "name a file that losslab wrote, restore it, or measure again with this version"

Row = dict[str, Any]


class DamagedError(LosslabError):
    """A result whose files differ from their digests."""


def cell_file(results: Path, study: str, cell: str) -> Path:
    """Return the cell.json of a cell in a results folder."""
    return results / CELLS / study / cell / CELL_FILE


@dataclass(frozen=True)
class Replicate:
    """A replicate in its folder. Its records are read when they are needed."""

    folder: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest; UsageError if it is none."""
        return read_manifest(self.folder / MANIFEST_FILE)

    @cached_property
    def host(self) -> dict[str, Any]:
        """The content of host.json; UsageError if it is none."""
        return _read(self.folder / HOST_FILE, "host")

    def problems(self, present_only: bool = False) -> list[str]:
        """List what is wrong with the replicate's files; empty if it is undamaged.

        With `present_only`, files may be absent or unlisted.
        """
        digests: dict[str, str] = {}
        problems = []
        for name in (HOST_FILE, MANIFEST_FILE):
            if present_only and not (self.folder / name).exists():
                continue
            try:
                record = self.manifest if name == MANIFEST_FILE else self.host
            except UsageError as error:
                return [f"{name} is unreadable: {error.message}"]
            if not isinstance(record.get(FILES), dict):
                return [f"{name} has no digests"]
            digests |= record[FILES]
            content = {key: value for key, value in record.items() if key != SELF}
            if name == HOST_FILE and record.get(SELF) != digest_of(content):
                problems.append(f"{HOST_FILE} has changed since it was written")
        present = files(self.folder)
        if not (self.folder / HOST_FILE).is_symlink():
            present.discard(HOST_FILE)  # not listed, as it contains its own digest
        passed = (MISSING, ADDED) if present_only else ()
        for name, difference in differences(self.folder, digests, present).items():
            if difference not in passed:
                problems.append(f"{name} {MESSAGES[difference]}")
        return problems

    def checked(self) -> Replicate:
        """Return the replicate; DamagedError if a file is not as measured."""
        if problems := self.problems():
            raise DamagedError(f"{self.folder} is damaged: {problems[0]}", hint=HINT)
        return self

    @property
    def left_out(self) -> list[str]:
        """What the source of its path has and its condition lacks, a sentence each."""
        return [f"the measured path lacks: {each}" for each in self.host.get(LEFT_OUT, ())]

    @property
    def row(self) -> Row:
        """The replicate's row of cell.json."""
        return (
            {key: self.manifest[key] for key in MANIFEST_KEYS}
            | {"lost": self.manifest.get("lost", False)}
            | {key: self.host[key] for key in HOST_KEYS}
            | {"manifest_sha256": self.host[FILES][MANIFEST_FILE]}
        )

    @property
    def in_virtual_time(self) -> bool:
        """Return whether it was measured in virtual time: then its seed gives the same bytes."""
        where = self.manifest["instrument"].get("where", GUEST)
        backend = BACKENDS.get((self.manifest["backend"], where))
        return backend is not None and backend.needs.guest

    def table(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a table such as tcp.csv; none if the replicate lacks it."""
        path = self.folder / name
        return read_rows(path) if path.is_file() else []

    def samples(self, name: str) -> Samples:
        """Return the columns of a table such as tcp.csv; none if the replicate lacks it."""
        path = self.folder / name
        return read_samples(path) if path.is_file() else {}


@dataclass(frozen=True)
class MeasuredCell:
    """A cell.json, and the replicates that it lists.

    Other folders beside them are left from measurements of more replicates, maybe of another
    condition.
    """

    file: Path
    content: Row

    @cached_property
    def condition(self) -> Condition:
        """The condition, with the defaults of axes that are younger than the file."""
        return Condition.from_json(self.content["condition"])

    @property
    def rows(self) -> list[Row]:
        """The replicates' rows: seed, validity, violations, summary and instrument."""
        return list(self.content["replicates"])

    @property
    def summaries(self) -> list[Row]:
        """The summaries of the valid replicates."""
        return [row["summary"] for row in self.rows if row["valid"]]

    def values(self, metric: str) -> dict[int, float]:
        """Return the values of a metric in the valid replicates, by seed."""
        valid = ((row["seed"], row["summary"]) for row in self.rows if row["valid"])
        found = ((seed, metrics.value(summary, metric)) for seed, summary in valid)
        return {seed: value for seed, value in found if value is not None}

    @cached_property
    def replicates(self) -> list[Replicate]:
        """The replicates, in the order of their rows."""
        return [Replicate(self.file.parent / str(number)) for number in range(len(self.rows))]

    def problems(self, present_only: bool = False) -> list[list[str]]:
        """List the problems of each replicate; see `Replicate.problems`."""
        by_replicate = []
        for row, replicate in zip(self.rows, self.replicates, strict=True):
            problems = replicate.problems(present_only)
            whole = all((replicate.folder / name).exists() for name in (MANIFEST_FILE, HOST_FILE))
            if whole and not problems:
                if row != replicate.row:
                    problems = [f"values differ from {CELL_FILE}"]
                elif Condition.from_json(replicate.manifest["cell"]) != self.condition:
                    problems = [f"the condition differs from {CELL_FILE}"]
            by_replicate.append(problems)
        return by_replicate

    def checked(self, expected: Condition | None = None) -> MeasuredCell:
        """Return the cell; DamagedError if a file is not as measured.

        Raises LosslabError if the cell is not of the condition `expected`.
        """
        damages = []
        if self.content["cell"] != self.file.parent.name:
            damages.append("cell.json is of another cell")
        for number, problems in enumerate(self.problems()):
            damages += [f"replicate {number}: {problem}" for problem in problems]
        if damages:
            raise DamagedError(f"{self.file.parent} is damaged: {damages[0]}", hint=HINT)
        if expected is not None and (others := other_values(self.condition, expected)):
            raise LosslabError(
                f"{self.file.parent} must be of the condition asked for, found {', '.join(others)}",
                hint="choose another folder with --out, or remove this one",
            )
        return self


def other_values(found: Condition, expected: Condition) -> list[str]:
    """List the axes in which a condition differs from the expected one, with both values."""
    pairs = ((name, getattr(found, name), getattr(expected, name)) for name in AXES)
    return [f"{name} {one} instead of {other}" for name, one, other in pairs if one != other]


def read_cell(path: Path) -> MeasuredCell:
    """Read a cell.json; `checked` compares it with its replicates' files."""
    content = _read(path, "cell")
    seeds = [row["seed"] for row in content["replicates"]]
    _check(path, content["condition"], *seeds)
    if len({*seeds}) != len(seeds):
        raise UsageError(f"{path} must have another seed in each replicate", hint=FOREIGN_HINT)
    return MeasuredCell(path, content)


def read_cells(folder: Path) -> dict[str, MeasuredCell]:
    """Read the cell.json files below a folder; return the measured cells by STUDY/CELL.

    Those that were skipped, as without their public trace, are left out.
    """
    files: dict[str, Path] = {}
    # Follows links, as to another disk, and skips hidden folders, such as those of partial files.
    for path in sorted(glob.glob(f"**/{CELL_FILE}", root_dir=folder, recursive=True)):
        file = folder / path
        name = f"{file.parent.parent.name}/{file.parent.name}"
        if name in files:
            raise UsageError(
                f"{folder} must have each cell once, found {files[name]} and {file}",
                hint="name the folder of one campaign",
            )
        files[name] = file
    if not files:
        inside = f"no {CELL_FILE} below it" if folder.is_dir() else "a file"
        record = folder / "record.tsv"
        raise UsageError(
            f"{folder} must contain measured cells, found "
            + (inside if folder.exists() else "no such folder"),
            hint=f"its record is {record}"
            if record.is_file()
            else "name a results folder of the workflow, or the folder of `losslab sweep`",
        )
    cells = {name: read_cell(file) for name, file in files.items()}
    return {name: cell for name, cell in cells.items() if "absent" not in cell.content}


def read_manifest(path: Path) -> dict[str, Any]:
    """Read a replicate's manifest.json; UsageError names the key if it is none."""
    manifest = _read(path, "manifest")
    _check(path, manifest["cell"], manifest["seed"])
    return manifest


def _read(path: Path, schema: str) -> dict[str, Any]:
    try:
        data = read_json(path)
    except UsageError as error:
        raise UsageError(error.message, hint=FOREIGN_HINT) from error
    if isinstance(data, dict):
        require_format(data, path)
    check_schema(data, schema, str(path), FOREIGN_HINT)
    return dict(data)


def require_format(data: Mapping[str, Any], path: Path) -> None:
    """Raise UsageError for results of another major format."""
    version, major = str(data.get("format", FORMAT)), FORMAT.partition(".")[0]
    if version.partition(".")[0] != major:
        raise UsageError(
            f"{path} must have results format {major}.x, found {version}",
            hint="read it with the version of losslab that wrote it (host.json has its commit), or "
            "measure again; CHANGELOG.md lists the changes",
        )


def _check(path: Path, condition: dict[str, Any], *seeds: object) -> None:
    """Refuse an impossible condition, and a seed 1.0: it would give other draws than 1."""
    try:
        Condition.from_json(condition)
    except LosslabError as error:
        raise UsageError(f"{path}: {error.message}", hint=FOREIGN_HINT) from error
    for seed in seeds:
        if not isinstance(seed, int):
            raise UsageError(
                f"{path}: a seed must be a whole number, found {shown(seed)}", hint=FOREIGN_HINT
            )


def differences(root: Path, digests: Mapping[str, str], present: Collection[str]) -> dict[str, str]:
    """Compare the files `present` below a folder with their SHA-256; return each file's problem."""
    problems = {}
    for name in sorted({*present, *digests}):
        if name not in present:
            problems[name] = MISSING
        elif not stat.S_ISREG(os.lstat(root / name).st_mode):
            problems[name] = IRREGULAR
        elif name not in digests:
            problems[name] = ADDED
        elif digest(root / name) != digests[name]:
            problems[name] = CHANGED
    return problems


def files(folder: Path) -> set[str]:
    """Return the paths of all files below a folder, relative to it."""
    found = (os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)
    return {os.path.relpath(path, folder) for path in found}


# Writing


def seal(folder: Path, manifest: Mapping[str, Any], host: Mapping[str, Any]) -> None:
    """Write manifest.json and host.json with the digests of all files of a replicate."""
    names = files(folder) - {*UNLISTED}
    raw = {FILES: {name: digest(folder / name) for name in sorted(names)}}
    write_json({**manifest, **raw}, folder / MANIFEST_FILE)
    listed = [name for name in UNLISTED if name != HOST_FILE and (folder / name).is_file()]
    content = {**host, FILES: {name: digest(folder / name) for name in listed}}
    write_json(content | {SELF: digest_of(content)}, folder / HOST_FILE)


def cell_content(
    study: str, block: str, condition: Condition, folder: Path, replicates: int
) -> Row:
    """Return the content of cell.json for the replicates in `folder`."""
    found = [Replicate(folder / str(number)).checked() for number in range(replicates)]
    return {
        "format": FORMAT,
        "study": study,
        "block": block,
        "cell": folder.name,
        "condition": condition.to_json(),
        "replicates": [each.row for each in found],
    }


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `out`; rename it to `out` when the block succeeds."""
    with _writing(f"{out.parent} must be a writable folder with free space"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with own_folder(out.parent, PARTIAL) as partial:
            partial.chmod(0o755)
            yield partial
            if out.exists():
                _require_replicate(out)
                shutil.rmtree(out)
            partial.rename(out)


def _require_replicate(folder: Path) -> None:
    """Raise HostError for a folder that no replicate was written to: it may be the user's."""
    for name, keys in RECOGNISED.items():
        with contextlib.suppress(OSError):
            text = (folder / name).read_bytes()
            if not folder.is_symlink() and all(f'"{key}":'.encode() in text for key in keys):
                return
    raise HostError(
        f"{folder} must be a replicate's folder or not exist, found another folder or file",
        hint="move it away, or choose another folder for the results",
    )


@contextlib.contextmanager
def _writing(must: str) -> Iterator[None]:
    """Convert errors of writing to HostError, with their fix."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = FREE_SPACE if full else "change its permissions, or choose another folder"
        raise HostError(f"{must}, found: {error}", hint=fix) from error


def refuse_full(folder: Path, cause: LosslabError) -> None:
    """Raise HostError from the cause of a replicate's failure if the disk is full."""
    if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        raise HostError(
            f"the file system of {folder} is full: it must have space for a replicate's files",
            hint=FREE_SPACE,
        ) from cause


def digest_of(data: Any) -> str:
    """Return the SHA-256 of data as JSON."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def write_json(data: Any, path: Path) -> None:
    """Write JSON with sorted keys: equal data give equal bytes."""
    path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")


def replace_json(data: Any, path: Path) -> None:
    """Write JSON atomically and durably, after all earlier writes to the same file system.

    So after a power failure no record refers to files that were lost.
    """
    with whole_file(path) as partial:
        write_json(data, partial)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file on the disk of `path`; rename it to `path` when the block succeeds."""
    must = f"{path} must be a writable file on a disk with free space"
    with _writing(must), own_folder(path.parent, PARTIAL) as folder:
        partial = folder / path.name
        yield partial
        _flush(path.parent)
        partial.replace(path)
        _flush(path.parent)


def _flush(folder: Path) -> None:
    """Flush a folder's file system by syncfs(2): for many files faster than an fsync(2) each."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed", str(folder))
    finally:
        os.close(descriptor)
