"""Data Package of an artifact: the columns of all its tables (https://datapackage.org).

The tables of a campaign are resources with a Table Schema. The tables of replicates, of which there
are thousands, have one schema per file name, in the property `replicateTables`.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
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
    tables = sorted(path for path in files if path.suffix == ".csv")
    of_replicates = {path.name: path for path in reversed(tables) if is_raw(path)}
    write_json(
        {
            "$schema": PROFILE,
            "name": "losslab-results",
            "title": f"losslab {__version__}, campaign {campaign}",
            "created": f"{day}T00:00:00Z",
            "licenses": [{"name": "MIT"}],
            "resources": [_resource(folder, path) for path in tables if not is_raw(path)],
            "replicateTables": {
                name: _schema(folder, path) for name, path in sorted(of_replicates.items())
            },
        },
        folder / FILE,
    )


def _resource(folder: Path, path: Path) -> dict[str, Any]:
    return {
        "name": "-".join(path.with_suffix("").parts[1:]).lower(),
        "path": path.as_posix(),
        "type": "table",
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "schema": _schema(folder, path),
    }


def _schema(folder: Path, path: Path) -> dict[str, Any]:
    with (folder / path).open(newline="") as file:
        return dictionary.schema(str(path), next(csv.reader(file), []))
