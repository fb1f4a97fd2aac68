"""Integrity of results: SHA-256 digests of raw files, manifests and cells.

A manifest lists the digests of its replicate's raw files. host.json lists that of the manifest and
its own. cell.json repeats the content of both. Every reader thus detects files that are missing,
damaged, edited or added.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from losslab.backends.base import CONSOLE_FILE
from losslab.campaign.folder import CELL_FILE, HOST_FILE, MANIFEST_FILE, digest_of, read_json
from losslab.errors import LosslabError
from losslab.instrument.archive import digest
from losslab.study.condition import AXES, Condition

# The keys of a record's digests: by file below the folder, and of the record itself.
FILES, SELF = "files", "sha256"
# Files that a manifest does not list: itself, and those that differ between runs of one seed.
UNLISTED = (MANIFEST_FILE, HOST_FILE, CONSOLE_FILE)
# Keys of the manifest and of host.json that cell.json repeats.
MANIFEST_KEYS = ("seed", "valid", "reasons", "summary", "instrument")
HOST_KEYS = ("attempt", "earlier_reasons")
# The problems of a file, and the messages on a replicate's file.
MISSING, IRREGULAR, ADDED, CHANGED = "missing", "not a regular file", "not listed", "changed"
MESSAGES = {
    MISSING: "{} is missing",
    IRREGULAR: "{} is not a regular file",
    ADDED: f"{{}} is not listed in {MANIFEST_FILE} or {HOST_FILE}",
    CHANGED: "{} has changed since it was measured",
}
HINT = "delete this folder and run the same command again, which measures it again"


class DamagedError(LosslabError):
    """A result whose files differ from their digests."""


def listed(folder: Path) -> dict[str, dict[str, str]]:
    """Return a manifest's entry with the digests of all raw files, by path below the folder."""
    names = sorted(set(_files(folder)) - {*UNLISTED})
    return {FILES: {name: digest(folder / name) for name in names}}


def sealed(host: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the content of host.json with the digests of manifest, console log and itself."""
    names = [name for name in (MANIFEST_FILE, CONSOLE_FILE) if (folder / name).is_file()]
    content = dict(host) | {FILES: {name: digest(folder / name) for name in names}}
    return content | {SELF: digest_of(content)}


def read_replicate(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a replicate's manifest and host.json after a check of all digests.

    Raises DamagedError if the replicate is damaged; the message names the first problem.
    """
    manifest, host, problems = _examine(folder)
    if problems:
        raise DamagedError(f"{folder} is damaged: {problems[0]}", hint=HINT)
    return manifest, host


def replicate_problems(folder: Path) -> list[str]:
    """List the problems of a replicate's files; empty if it is undamaged."""
    return _examine(folder)[2]


def _examine(folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return a replicate's manifest, its host.json, and the problems of its files."""
    try:
        host, manifest = read_json(folder / HOST_FILE), read_json(folder / MANIFEST_FILE)
    except (OSError, ValueError, LosslabError) as error:
        return {}, {}, [f"{HOST_FILE} or {MANIFEST_FILE} is unreadable: {error}"]
    records = ((HOST_FILE, host, HOST_KEYS), (MANIFEST_FILE, manifest, MANIFEST_KEYS))
    for name, record, keys in records:
        if not isinstance(record.get(FILES), dict):
            return {}, {}, [f"{name} has no digests"]
        if missing := [key for key in keys if key not in record]:
            return {}, {}, [f"{name} has no {' and no '.join(missing)}"]
    if MANIFEST_FILE not in host[FILES]:
        return {}, {}, [f"{HOST_FILE} has no digest of {MANIFEST_FILE}"]
    problems = []
    if host.get(SELF) != digest_of({key: host[key] for key in host if key != SELF}):
        problems.append(f"{HOST_FILE} has changed since it was written")
    present = set(_files(folder))
    if not (folder / HOST_FILE).is_symlink():
        present.remove(HOST_FILE)  # not listed, as it contains its own digest
    found = differences(folder, {**manifest[FILES], **host[FILES]}, present)
    problems += [MESSAGES[problem].format(name) for name, problem in found.items()]
    return manifest, host, problems


def differences(root: Path, digests: Mapping[str, str], present: Collection[str]) -> dict[str, str]:
    """Compare the files `present` below a folder with their SHA-256; return each file's problem."""
    found = {}
    for name in sorted({*present, *digests}):
        if name not in present:
            found[name] = MISSING
        elif not stat.S_ISREG(os.lstat(root / name).st_mode):
            found[name] = IRREGULAR
        elif name not in digests:
            found[name] = ADDED
        elif digest(root / name) != digests[name]:
            found[name] = CHANGED
    return found


def replicate_row(manifest: Mapping[str, Any], host: Mapping[str, Any]) -> dict[str, Any]:
    """Return a replicate's row of cell.json."""
    return (
        {key: manifest[key] for key in MANIFEST_KEYS}
        | {"lost": manifest.get("lost", False)}
        | {key: host[key] for key in HOST_KEYS}
        | {"manifest_sha256": host[FILES][MANIFEST_FILE]}
    )


def read_cell(path: Path, asked: Condition | None = None) -> dict[str, Any]:
    """Return the content of a cell.json; DamagedError if it or a replicate is damaged.

    Raises LosslabError if the cell is not of the condition `asked`.
    """
    try:
        cell = read_json(path)
        problems = cell_problems(path.parent, cell)
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} is unreadable: {error}", hint=HINT) from error
    if problems:
        raise DamagedError(f"{path.parent} is damaged: {problems[0]}", hint=HINT)
    if asked is not None and (others := other_values(cell.get("condition"), asked)):
        raise LosslabError(
            f"{path.parent} must be of the condition asked for, found {', '.join(others)}",
            hint="choose another folder with --out, or remove this one",
        )
    return cell


def other_values(found: Any, asked: Condition) -> list[str]:
    """List the axes of a stored condition that differ from the one asked for, with both values."""
    stored = _whole(found) if isinstance(found, dict) else {}
    return [
        f"{name} {stored.get(name)} instead of {value}"
        for name, value in asked.to_json().items()
        if stored.get(name) != value
    ]


def cell_problems(folder: Path, cell: Mapping[str, Any] | None = None) -> list[str]:
    """List the problems of a cell's files; `cell` is its cell.json's content if already read."""
    if cell is None:
        try:
            cell = read_json(folder / CELL_FILE)
        except (OSError, ValueError, LosslabError) as error:
            return [f"{CELL_FILE} is unreadable: {error}"]
    rows = cell.get("replicates")
    if not isinstance(rows, list):
        return [f"{CELL_FILE} has no replicates"]
    problems = [] if cell.get("cell") == folder.name else [f"{CELL_FILE} is of another cell"]
    for number, row in enumerate(rows):
        manifest, host, found = _examine(folder / str(number))
        # As text: NaN does not equal itself.
        if not found and digest_of(row) != digest_of(replicate_row(manifest, host)):
            found = [f"values differ from {CELL_FILE}"]
        elif not found and _whole(manifest.get("cell")) != _whole(cell.get("condition")):
            found = [f"the condition differs from {CELL_FILE}"]
        problems += [f"replicate {number}: {problem}" for problem in found]
    return problems


def _whole(condition: Any) -> Any:
    """Return a condition with the defaults of axes that are younger than its file."""
    if not isinstance(condition, dict):
        return condition
    return {name: axis.default for name, axis in AXES.items()} | condition


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of all files below a folder, relative to it."""
    for place, _, names in os.walk(folder):
        yield from (os.path.relpath(os.path.join(place, name), folder) for name in names)
