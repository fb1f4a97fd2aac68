"""The files of a replicate's folder, and atomic writes of folders and files."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from losslab.errors import HostError, LosslabError
from losslab.lock import own_folder

# The version of the results' format: the first number changes if older results are no longer
# readable, the second if something is added. cell.json and host.json contain it; manifests do not,
# so that their bytes stay the same.
FORMAT = "1.2"
MANIFEST_FILE = "manifest.json"
# Differs between two runs with the same seed.
HOST_FILE = "host.json"
# Summary of a cell's replicates, in the cell's folder.
CELL_FILE = "cell.json"
# Keys that show, even in a truncated file, that losslab wrote a replicate's folder.
RECOGNISED = {MANIFEST_FILE: ("backend", "cell"), HOST_FILE: ("host_cpu", "host_kernel")}
# Prefix of incomplete folders and files.
PARTIAL = ".losslab-"
# With less free space, a failure counts as caused by a full disk.
MIN_FREE_BYTES = 4 * 2**20
FREE_SPACE = "free disk space there and start again; finished replicates are kept"


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `out`; rename it to `out` when the block succeeds.

    Raises HostError if the folder cannot be created or written to.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with own_folder(out.parent, PARTIAL) as partial:
            partial.chmod(0o755)
            yield partial
            if out.exists():
                _require_replicate(out)
                shutil.rmtree(out)
            partial.rename(out)
    except OSError as error:
        raise HostError(
            f"{out.parent} must be a writable folder with free space, found: {error}",
            hint=_fix(error),
        ) from error


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


def _fix(error: OSError) -> str:
    """Return the fix of an error of writing."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return FREE_SPACE if full else "change its permissions, or choose another folder"


def refuse_full(folder: Path, cause: LosslabError) -> None:
    """Raise HostError from the cause of a replicate's failure if the disk is full."""
    if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        raise HostError(
            f"the file system of {folder} is full: it must have space for a replicate's files",
            hint=FREE_SPACE,
        ) from cause


def read_json(path: Path) -> dict[str, Any]:
    """Read a cell.json, host.json or manifest.json.

    Raises OSError if the file cannot be read. Raises ValueError if the file is not JSON in UTF-8.
    Raises LosslabError if the file is not a JSON object, or has a format that this version cannot
    read.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("JSON has too many nested levels") from error
    if not isinstance(data, dict):
        raise LosslabError(f"{path} must be a JSON object, found a {type(data).__name__}")
    require_format(data, path)
    return data


def replicate_folders(cell: Path) -> list[Path]:
    """List the folders of the replicates that a cell.json lists; errors as of `read_json`.

    Other folders beside them are left from measurements of more replicates, maybe of another
    condition.
    """
    return [cell.parent / str(number) for number in range(len(read_json(cell)["replicates"]))]


def require_format(data: dict[str, Any], path: Path) -> None:
    """Raise LosslabError for results of another major format."""
    found = str(data.get("format", FORMAT))
    if found.partition(".")[0] != FORMAT.partition(".")[0]:
        raise LosslabError(
            f"{path} must have results format {FORMAT.partition('.')[0]}.x, found {found}",
            hint="read it with the version of losslab that wrote it (host.json has its commit), or "
            "measure again; CHANGELOG.md lists the changes",
        )


def as_json(data: Any) -> str:
    """Return JSON with sorted keys: equal data give equal bytes."""
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def digest_of(data: Any) -> str:
    """Return the SHA-256 of data as JSON."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def write_json(data: Any, path: Path) -> None:
    """Write JSON in the form of `as_json`."""
    path.write_text(as_json(data))


def replace_json(data: Any, path: Path) -> None:
    """Write JSON atomically and durably, after all earlier writes to the same file system.

    So after a power failure no record refers to files that were lost. Raises HostError if the disk
    is full, or the folder is not writable.
    """
    with whole_file(path) as partial:
        write_json(data, partial)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file on the disk of `path`; rename it to `path` when the block succeeds.

    Raises HostError if the disk is full, or the folder is not writable.
    """
    try:
        with own_folder(path.parent, PARTIAL) as folder:
            partial = folder / path.name
            yield partial
            _flush(path.parent)
            partial.replace(path)
            _flush(path.parent)
    except OSError as error:
        raise HostError(
            f"{path} must be a writable file on a disk with free space, found: {error}",
            hint=_fix(error),
        ) from error


def _flush(folder: Path) -> None:
    """Flush a folder's file system by syncfs(2): for many files faster than an fsync(2) each."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed", str(folder))
    finally:
        os.close(descriptor)
