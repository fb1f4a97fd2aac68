"""Configuration files: validate what they say against the closed schemas of workflow/schemas."""

from __future__ import annotations

import copy
import csv
import functools
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError
from losslab.study import yamls
from losslab.study.schemas import validator


def check_schema(data: Any, schema_name: str, where: str) -> None:
    """Validate against a closed schema of workflow/schemas.

    Raises:
        LosslabError: naming the key, what must hold, and the file.
    """
    errors = sorted(validator(schema_name).iter_errors(data), key=lambda e: list(map(str, e.path)))
    if errors:
        lines = [f"{'.'.join(map(str, e.path)) or '(top level)'}: {e.message}" for e in errors]
        raise LosslabError(
            f"{where} must follow workflow/schemas/{schema_name}.schema.yaml, found:\n    "
            + "\n    ".join(lines),
            hint="config/README.md explains every key",
        )


def load_checked(path: Path, schema_name: str) -> Any:
    """Parse a YAML file and validate it, once a process for as long as it says the same.

    Returns:
        The caller's own copy.
    """
    return copy.deepcopy(_checked(path, yamls.read(path), schema_name))


@functools.cache
def _checked(path: Path, text: str, schema_name: str) -> Any:
    data = yamls.parse(text, path)
    check_schema(data, schema_name, str(path))
    return data


def load_algorithms(path: Path) -> list[dict[str, str]]:
    """Read algorithms.tsv; validates rows and refuses duplicate names."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    check_schema(rows, "algorithms", str(path))
    names = [row["name"] for row in rows]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise LosslabError(
            f"names must be unique in {path}, found {', '.join(repeated)} more than once"
        )
    return rows
