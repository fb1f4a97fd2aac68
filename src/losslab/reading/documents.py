"""Readers of JSON, TOML, YAML and tables (CSV, TSV)."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from losslab.errors import did_you_mean
from losslab.reading.files import (
    CONFIG_BYTES,
    DEPTH,
    MAX_NUMBER_LENGTH,
    NUMBER,
    RESULT_BYTES,
    TABLE_BYTES,
    UsageError,
    check_data,
    read_text,
    repeats,
    shown,
)

# Excludes the other integers of YAML 1.1: 0x10, 0b1, 010, 1_000 and 1:30.
DECIMAL_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
# Limit of a YAML file's values after the expansion of aliases. The largest study has some 2000.
MAX_VALUES = 100_000
CONFIG_SUFFIXES = (".yaml", ".yml", ".json")
TIMESTAMP = "tag:yaml.org,2002:timestamp"
# libyaml takes a tenth of the time, and every start of the workflow reads some thirty files.
# Debian's PyYAML and the wheels on PyPI include it. PyYAML built from source without libyaml's
# headers does not.
YAML_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@contextlib.contextmanager
def _syntax(language: str, where: str) -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise UsageError(f"{where} has too many nested levels of {language}") from error
    # ValueError: errors of JSON, TOML and Unicode, and Python's limit of an integer's digits.
    except (ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{where} must be {language}, found: {error}") from error


def read_json(path: Path, max_bytes: int = RESULT_BYTES) -> Any:
    """Read a JSON file; errors as for `parse_json` and `read_text`."""
    return parse_json(read_text(path, max_bytes), str(path))


def read_config(path: Path) -> Any:
    """Read a configuration as Snakemake does: JSON if the name ends in .json, or else YAML.

    The error for a missing file names similar ones of its folder.
    """
    try:
        return read_json(path, CONFIG_BYTES) if path.suffix == ".json" else read_yaml(path)
    except UsageError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        # Names are compared without their suffixes, which would make all of them similar.
        others = (each for each in path.parent.glob("*") if each.suffix in CONFIG_SUFFIXES)
        similar = [str(each) for each in others if did_you_mean(path.stem, [each.stem])]
        raise UsageError(error.message + did_you_mean(str(path), similar), error.hint) from error


def check_configs(paths: Iterable[str | Path]) -> None:
    """Check configurations more strictly than Snakemake, which accepts repeated keys."""
    for path in paths:
        read_config(Path(path))


def parse_json(text: str, where: str) -> Any:
    """Parse JSON; reject repeated keys, NaN, infinities and numbers of more than 40 characters.

    `where` names the file or option in errors.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            repeated = repeats([key for key, _ in pairs])
            raise UsageError(f"keys must be unique, found {repeated} twice in {where}")
        return mapping

    def limited(digits: str) -> str:
        if len(digits) > MAX_NUMBER_LENGTH:
            raise UsageError(
                f"numbers of {where} must have at most {MAX_NUMBER_LENGTH} characters, found "
                f"{shown(digits)}"
            )
        return digits

    with _syntax("JSON", where):
        data = json.loads(
            text,
            object_pairs_hook=unique,
            parse_int=lambda digits: int(limited(digits)),
            parse_float=lambda digits: float(limited(digits)),
        )
    check_data(data, where)
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; reject numbers that are not finite."""
    text = read_text(path)
    with _syntax("TOML", str(path)):
        data = tomllib.loads(text)
    check_data(data, str(path))
    return data


def read_rows(
    path: Path, delimiter: str = ",", columns: Iterable[str] = (), max_bytes: int = TABLE_BYTES
) -> list[dict[str, str]]:
    """Read a table whose first line names the columns, which must include `columns`."""
    lines = csv.reader(
        io.StringIO(read_text(path, max_bytes), newline=""), delimiter=delimiter, strict=True
    )
    rows = []
    try:
        head = next(lines, [])
        if not head:
            raise UsageError(f"{path} must name its columns in its first line, found none")
        if repeated := repeats(head):
            raise UsageError(f"columns must be unique, found {repeated} twice in {path}")
        if missing := [name for name in columns if name not in head]:
            raise UsageError(f"{path} must have the columns {', '.join(missing)}, found none")
        for fields in filter(None, lines):
            if len(fields) != len(head):
                raise UsageError(
                    f"{path}, line {lines.line_num} must have {len(head)} fields, one for each "
                    f"column, found {len(fields)}"
                )
            rows.append(dict(zip(head, fields, strict=True)))
    except csv.Error as error:
        raise UsageError(
            f"{path}, line {lines.line_num} is not a valid row: {shown(str(error))}"
        ) from error
    return rows


def read_yaml(path: Path) -> Any:
    """Read a YAML file; errors as for `parse_yaml` and `read_text`."""
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Parse one YAML document of mappings with unique text keys, lists and scalars.

    The nesting and the number of values after the expansion of aliases are limited. `where` names
    the file in errors.
    """
    with _syntax("YAML", where):
        _check_events(text)
        data = yaml.load(text, _Strict)
    check_data(data, where, MAX_VALUES)
    return data


def _error(problem: str, source: Any) -> yaml.MarkedYAMLError:
    """Return the error of a node or event that is valid YAML but not accepted."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=source.start_mark)


class _Strict(YAML_LOADER):  # type: ignore[misc]
    """Loader that rejects repeated keys, keys other than text, and numbers that are not decimal."""

    # Dates are text, as in JSON.
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [resolver for resolver in resolvers if resolver[0] != TIMESTAMP]
        for first, resolvers in YAML_LOADER.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if not isinstance(key, str):
                raise _error(f"keys must be text, found {shown(key)} (quote it)", node)
        if repeated := repeats(keys):
            raise _error(f"keys must be unique, found {repeated} twice", node)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping

    def plain(self, node: Any, pattern: re.Pattern[str]) -> str:
        text = str(self.construct_scalar(node))
        if len(text) > MAX_NUMBER_LENGTH or not pattern.fullmatch(text):
            raise _error(
                f"numbers must be finite and decimal, found {shown(text)} (quote it if it is text)",
                node,
            )
        return text


_Strict.add_constructor(
    "tag:yaml.org,2002:int", lambda loader, node: int(loader.plain(node, DECIMAL_INTEGER))
)
_Strict.add_constructor(
    "tag:yaml.org,2002:float", lambda loader, node: float(loader.plain(node, NUMBER))
)


def _check_events(text: str) -> None:
    """Check tags and depth of the parser's events, before recursive functions build nodes.

    Aliases multiply values without more text; `check_data` counts the expanded values.
    """
    depth = 0
    event: Any
    for event in yaml.parse(text, _Strict):
        if getattr(event, "tag", None) is not None:
            raise _error(f"tags must not be used, found {shown(event.tag)}", event)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth >= DEPTH:
            raise _error(f"there must be at most {DEPTH} levels, found more", event)
