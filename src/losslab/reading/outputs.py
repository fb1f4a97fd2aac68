"""Folders and files that a command will write, checked before it measures or builds anything."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from losslab.reading.files import UsageError, shown

# With less free space, a run cannot be written.
MIN_FREE_BYTES = 4 * 2**20


def out_folder(given: str | os.PathLike[str]) -> Path:
    """Return an output folder, new or existing; refuse one that cannot be written to."""
    folder = Path(given)
    _require_writable(folder, folder)
    return folder


def out_file(given: str | os.PathLike[str]) -> Path:
    """Return an output file; refuse one that cannot be written."""
    file = Path(given)
    if file.is_dir():
        raise UsageError(f"the output must be a file, found the folder {file}")
    _require_writable(file, file.parent)
    return file


def _require_writable(named: Path, folder: Path) -> None:
    """Write to a folder, or to the existing one in which it will be made; nothing stays there."""
    try:
        within = next(
            each for each in (folder, *folder.absolute().parents) if os.path.lexists(each)
        )
        with tempfile.TemporaryDirectory(prefix=".losslab-", dir=within) as probe:
            # Each part of the path is made later; its name must be valid in this file system.
            for part in named.absolute().relative_to(within.absolute()).parts:
                Path(probe, part).mkdir(exist_ok=True)
        free = shutil.disk_usage(within).free
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"the output must be in a writable folder, found {shown(str(named))}: {problem}",
            hint="choose another place with --out, or change the folder's permissions",
        ) from error
    if free < MIN_FREE_BYTES:
        raise UsageError(
            f"the output must be on a disk with free space, found {free} bytes at {named}",
            hint="free disk space there, or choose another place with --out",
        )
