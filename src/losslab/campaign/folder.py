"""The folder of a replicate: whole or not there, and what lies in it."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from losslab.errors import HostError, LosslabError
from losslab.lock import own_folder

# Of results, as semantic versioning counts: the first number changes when what was written before
# is not understood any more, the second when something is added. cell.json and host.json have it,
# because a manifest's bytes are not to change with it; results without one are of 1.0.
FORMAT = "1.2"
MANIFEST_FILE = "manifest.json"
# The one file of a replicate that differs between two runs with the same seed.
HOST_FILE = "host.json"
# What a cell's replicates are summed up in; it lies beside them.
CELL_FILE = "cell.json"
# Of folders that are not whole yet.
PARTIAL = ".losslab-"
# Less than a replicate's raw files need.
ROOM_BYTES = 4 * 2**20
KEPT = "free room there and start again; finished replicates are kept"


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Give a temporary folder beside `out` that becomes `out` when the block ends well.

    Raises HostError if it cannot be made or written to.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with own_folder(out.parent, PARTIAL) as partial:
            partial.chmod(0o755)
            yield partial
            if out.exists():
                shutil.rmtree(out)
            partial.rename(out)
    except OSError as error:
        raise HostError(
            f"{out.parent} must be a folder with room that can be written to, found: {error}",
            hint=KEPT,
        ) from error


def refuse_full(folder: Path, cause: LosslabError) -> None:
    """Turn a replicate's failure on a full disk into that error.

    Raises HostError if the disk is full.
    """
    if shutil.disk_usage(folder).free < ROOM_BYTES:
        raise HostError(
            f"{folder} must have room for a replicate's files, found it full", hint=KEPT
        ) from cause


def read_json(path: Path) -> dict[str, Any]:
    """Read a cell.json, host.json or manifest.json.

    Raises OSError if it cannot be read; ValueError if it is no JSON in UTF-8; LosslabError if it is
    no object, or of a format that this version does not understand.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("JSON of too many levels") from error
    if not isinstance(data, dict):
        raise LosslabError(f"{path} must be a JSON object, found a {type(data).__name__}")
    require_format(data, path)
    return data


def require_format(data: dict[str, Any], path: Path) -> None:
    """Refuse results of another major format.

    Raises LosslabError if this version does not understand it.
    """
    found = str(data.get("format", FORMAT))
    if found.partition(".")[0] != FORMAT.partition(".")[0]:
        raise LosslabError(
            f"{path} must be of the results' format {FORMAT.partition('.')[0]}.x, found {found}",
            hint="read it with the losslab that wrote it (host.json names its commit), or measure "
            "again; CHANGELOG.md says what changed",
        )


def as_json(data: Any) -> str:
    """Return JSON with sorted keys, so that equal data are equal bytes."""
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def digest_of(data: Any) -> str:
    """Return the SHA-256 of data that JSON can hold."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def write_json(data: Any, path: Path) -> None:
    """Write JSON as of `as_json`."""
    path.write_text(as_json(data))


def replace_json(data: Any, path: Path) -> None:
    """Write JSON that appears whole, on the disk, or not at all.

    What was written to the same file system before it is on the disk, too: a power failure leaves
    no record of files that it took. Raises HostError if there is no room, or no right to write
    there.
    """
    with whole_file(path) as partial:
        write_json(data, partial)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary file beside `path` that becomes `path` when the block ends well.

    Raises HostError if there is no room, or no right to write there.
    """
    partial = path.with_name(f"{PARTIAL}{path.name}")
    try:
        try:
            yield partial
            _flush(path.parent)
            partial.replace(path)
            _flush(path.parent)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise HostError(
            f"{path} must be a file with room that can be written to, found: {error}", hint=KEPT
        ) from error


def _flush(folder: Path) -> None:
    """Write all that is unwritten of a folder's file system to the disk: syncfs(2).

    One call for many files costs less than one fsync(2) per file.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed", str(folder))
    finally:
        os.close(descriptor)
