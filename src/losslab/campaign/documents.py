"""Strict readers of manifest.json, cell.json and host.json, by their schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from losslab.campaign.folder import require_format
from losslab.errors import LosslabError
from losslab.reading import UsageError, input_errors, read_json, shown
from losslab.study.condition import Condition
from losslab.study.schemas import check_schema

HINT = "name a file that losslab wrote, or measure again with this version"


def read_manifest(path: Path) -> dict[str, Any]:
    """Read a replicate's manifest.json.

    Raises UsageError if the file is not a manifest; the message names the key.
    """
    manifest = _read(path, "manifest")
    _check_condition(manifest["cell"], path)
    _check_seed(manifest["seed"], path)
    return manifest


def read_cell(path: Path) -> dict[str, Any]:
    """Read a cell's cell.json.

    Raises UsageError if the file is not a cell.json, or has a format that this version cannot read.
    """
    cell = _read(path, "cell")
    _check_condition(cell["condition"], path)
    for row in cell["replicates"]:
        _check_seed(row["seed"], path)
    return cell


def read_host(path: Path) -> dict[str, Any]:
    """Read a replicate's host.json; errors as for `read_cell`."""
    return _read(path, "host")


def _read(path: Path, schema: str) -> dict[str, Any]:
    data = read_json(path)
    if isinstance(data, dict):
        with input_errors():
            require_format(data, path)
    check_schema(data, schema, str(path), HINT)
    return dict(data)


def _check_condition(data: dict[str, Any], path: Path) -> None:
    try:
        Condition.from_json(data)
    except LosslabError as error:
        raise UsageError(f"{path}: {error.message}", hint=HINT) from error


def _check_seed(seed: object, path: Path) -> None:
    """Raise UsageError for 1.0, an integer in JSON Schema: it would give other draws than 1."""
    if not isinstance(seed, int):
        raise UsageError(f"{path}: a seed must be a whole number, found {shown(seed)}", hint=HINT)
