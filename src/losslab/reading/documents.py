"""JSON, TOML and tables (CSV, TSV)."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from losslab.reading.files import CONFIG_BYTES, RESULT_BYTES, TABLE_BYTES, UsageError, read_text
from losslab.reading.values import NUMBER_LETTERS, check_data, repeats, shown
from losslab.reading.yamls import read_yaml


def read_json(path: Path, most_bytes: int = RESULT_BYTES) -> Any:
    """Read a JSON file; errors as for `parse_json` and `read_text`."""
    return parse_json(read_text(path, most_bytes), str(path))


def read_config(path: Path) -> Any:
    """Read a configuration as Snakemake does: YAML, or JSON where the name says so."""
    return read_json(path, CONFIG_BYTES) if path.suffix == ".json" else read_yaml(path)


def check_configs(paths: Iterable[str | Path]) -> None:
    """Refuse configurations that Snakemake has accepted: it keeps the last of two equal keys.

    Raises:
        UsageError: one of them is refused by `read_config`.
    """
    for path in paths:
        read_config(Path(path))


def parse_json(text: str, where: str) -> Any:
    """Parse JSON, without repeated keys, NaN, infinities and numbers of 40 digits.

    Args:
        text: The JSON.
        where: The file or option, for errors.

    Raises:
        UsageError: it is no such JSON.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            repeated = repeats([key for key, _ in pairs])
            raise UsageError(f"keys must be unique, found {repeated} twice in {where}")
        return found

    def constant(word: str) -> float:
        raise UsageError(f"numbers of {where} must be finite, found {word}")

    def digits(word: str) -> str:
        if len(word) > NUMBER_LETTERS:
            raise UsageError(
                f"numbers of {where} must have at most {NUMBER_LETTERS} characters, found "
                f"{shown(word)}"
            )
        return word

    try:
        data = json.loads(
            text,
            object_pairs_hook=unique,
            parse_constant=constant,
            parse_int=lambda word: int(digits(word)),
            parse_float=lambda word: float(digits(word)),
        )
    except json.JSONDecodeError as error:
        raise UsageError(f"{where} must be JSON, found: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{where} must be JSON of few levels, found too many") from error
    check_data(data, where)
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        UsageError: it is no such file, or has a number that is not finite.
    """
    text = read_text(path)
    try:
        data = tomllib.loads(text)
    except RecursionError as error:
        raise UsageError(f"{path} must be TOML of few levels, found too many") from error
    except ValueError as error:  # TOMLDecodeError, and Python's limit of an integer's digits
        raise UsageError(f"{path} must be TOML, found: {error}") from error
    check_data(data, str(path))
    return data


def read_rows(
    path: Path, delimiter: str = ",", columns: Iterable[str] = (), most_bytes: int = TABLE_BYTES
) -> list[dict[str, str]]:
    """Read a table whose first line names the columns.

    Args:
        path: The file.
        delimiter: What is between two fields.
        columns: Columns that it must have; it may have more.
        most_bytes: The largest size that is accepted.

    Raises:
        UsageError: a column is missing or stands there twice, or a row has other fields.
    """
    lines = csv.reader(
        io.StringIO(read_text(path, most_bytes), newline=""), delimiter=delimiter, strict=True
    )
    rows = []
    try:
        head = next(lines, [])
        if not head:
            raise UsageError(f"{path} must have a first line that names its columns, found none")
        if repeated := repeats(head):
            raise UsageError(f"columns must be unique, found {repeated} twice in {path}")
        if missing := [name for name in columns if name not in head]:
            raise UsageError(f"{path} must have the columns {', '.join(missing)}, found none")
        for fields in lines:
            if fields and len(fields) != len(head):
                raise UsageError(
                    f"{path}, line {lines.line_num} must have a field for each column, found "
                    f"{len(fields)} of {len(head)}"
                )
            if fields:
                rows.append(dict(zip(head, fields, strict=True)))
    except csv.Error as error:
        raise UsageError(
            f"{path}, line {lines.line_num} must be a row of a table, found: {shown(str(error))}"
        ) from error
    return rows
