"""Configuration files: validate what they say against the closed schemas of workflow/schemas."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

from losslab.reading import UsageError, parse_yaml, read_rows, read_text, shown
from losslab.study.schemas import validator

# Of a file that is wrong throughout, as many errors are shown, each of at most so many letters.
SHOWN_ERRORS = 20
SHOWN_LETTERS = 400


def shortened(message: str) -> str:
    """Cut an error message that quotes a long value: keep what it says of it, at its end."""
    half = SHOWN_LETTERS // 2
    return message if len(message) <= SHOWN_LETTERS else f"{message[:half]} ... {message[-half:]}"


HINT = "config/README.md explains every key"


def check_schema(data: Any, schema_name: str, where: str, hint: str = HINT) -> None:
    """Validate against a closed schema of workflow/schemas."""
    errors = sorted(validator(schema_name).iter_errors(data), key=lambda e: list(map(str, e.path)))
    if errors:
        lines = [
            f"{'.'.join(map(shown, e.path)) or '(top level)'}: {shortened(e.message)}"
            for e in errors
        ]
        if len(lines) > SHOWN_ERRORS:
            lines[SHOWN_ERRORS:] = [f"and {len(lines) - SHOWN_ERRORS} more"]
        raise UsageError(
            f"{where} must follow workflow/schemas/{schema_name}.schema.yaml, found:\n    "
            + "\n    ".join(lines),
            hint=hint,
        )


def load_checked(path: Path, schema_name: str) -> Any:
    """Parse a YAML file and validate it, once a process for as long as it says the same.

    The caller has its own copy.
    """
    return copy.deepcopy(_checked(path, read_text(path), schema_name))


@functools.cache
def _checked(path: Path, text: str, schema_name: str) -> Any:
    data = parse_yaml(text, str(path))
    check_schema(data, schema_name, str(path))
    return data


def load_algorithms(path: Path) -> list[dict[str, str]]:
    """Read algorithms.tsv; validates rows and refuses duplicate names."""
    rows = read_rows(path, "\t")
    check_schema(rows, "algorithms", str(path))
    names = [row["name"] for row in rows]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UsageError(
            f"names must be unique in {path}, found {', '.join(repeated)} more than once"
        )
    return rows
