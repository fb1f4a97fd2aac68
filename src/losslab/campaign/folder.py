"""The folder of a replicate: whole or not there, and what lies in it."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from losslab.errors import HostError, LosslabError
from losslab.lock import own_folder

# Of results, as semantic versioning counts: the first number changes when what was written before
# is not understood any more, the second when something is added. cell.json and host.json have it,
# because a manifest's bytes are not to change with it; results without one are of 1.0.
FORMAT = "1.0"
MANIFEST_FILE = "manifest.json"
# The one file of a replicate that differs between two runs with the same seed.
HOST_FILE = "host.json"
# Of folders that are not whole yet.
PARTIAL = ".losslab-"
# Less than a replicate's raw files need.
ROOM_BYTES = 4 * 2**20
KEPT = "free room there and start again; finished replicates are kept"


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Give a temporary folder beside `out` that becomes `out` when the block ends well.

    Raises:
        HostError: it cannot be made or written to.
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

    Raises:
        HostError: the disk is full.
    """
    if shutil.disk_usage(folder).free < ROOM_BYTES:
        raise HostError(
            f"{folder} must have room for a replicate's files, found it full", hint=KEPT
        ) from cause


def read_json(path: Path) -> dict[str, Any]:
    """Read a cell.json or host.json.

    Raises:
        LosslabError: it was written in a format that this version does not understand.
    """
    data: dict[str, Any] = json.loads(path.read_text())
    require_format(data, path)
    return data


def require_format(data: dict[str, Any], path: Path) -> None:
    """Refuse results of another major format.

    Args:
        data: What a cell.json or host.json says.
        path: That file.

    Raises:
        LosslabError: this version does not understand it.
    """
    found = str(data.get("format", FORMAT))
    if found.partition(".")[0] != FORMAT.partition(".")[0]:
        raise LosslabError(
            f"{path} must be of the results' format {FORMAT.partition('.')[0]}.x, found {found}",
            hint="read it with the losslab that wrote it (host.json names its commit), or measure "
            "again; CHANGELOG.md says what changed",
        )


def write_json(data: Any, path: Path) -> None:
    """Write JSON with sorted keys, so that equal data are equal bytes."""
    path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
