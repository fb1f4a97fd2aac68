"""Data Package of an artifact: the columns of all its tables (https://datapackage.org).

The tables of a campaign are resources with a Table Schema. The tables of replicates, of which there
are thousands, have one schema per file name, in the property `replicateTables`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from losslab import __version__
from losslab.artifact.results import is_raw
from losslab.campaign.folder import write_json
from losslab.study import dictionary

FILE = "datapackage.json"
PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"


def describe(folder: Path, campaign: str, files: Sequence[Path], day: str) -> None:
    """Write `datapackage.json` of an artifact's folder; `files` are paths in it."""
    of_replicates = {
        path.name: path for path in sorted(files, reverse=True) if _is_table(path) and is_raw(path)
    }
    write_json(
        {
            "$schema": PROFILE,
            "name": "losslab-results",
            "title": f"losslab {__version__}, campaign {campaign}",
            "created": f"{day}T00:00:00Z",
            "licenses": [{"name": "MIT"}],
            "resources": [_resource(folder, path) for path in tables(files)],
            "replicateTables": {
                name: _schema(folder, path) for name, path in sorted(of_replicates.items())
            },
        },
        folder / FILE,
    )


def tables(files: Iterable[Path]) -> list[Path]:
    """List the tables of a campaign among its files, without those of replicates."""
    return sorted(path for path in files if _is_table(path) and not is_raw(path))


def identifier(path: Path) -> str:
    """Return a table's name in descriptions of the artifact."""
    return "-".join(path.with_suffix("").parts[1:]).lower()


def header(path: Path) -> list[str]:
    """Return the names of a table's columns."""
    with path.open(newline="") as file:
        return next(csv.reader(file), [])


def _is_table(path: Path) -> bool:
    return path.suffix == ".csv"


def _resource(folder: Path, path: Path) -> dict[str, Any]:
    return {
        "name": identifier(path),
        "path": path.as_posix(),
        "type": "table",
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "schema": _schema(folder, path),
    }


def _schema(folder: Path, path: Path) -> dict[str, Any]:
    return dictionary.schema(str(path), header(folder / path))
