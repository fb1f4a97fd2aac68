"""JSON, TOML, YAML and tables (CSV, TSV)."""

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

from losslab.reading.files import (
    CONFIG_BYTES,
    DEPTH,
    NUMBER,
    NUMBER_LETTERS,
    RESULT_BYTES,
    TABLE_BYTES,
    UsageError,
    check_data,
    read_text,
    repeats,
    shown,
)

# What YAML 1.1 takes for a number besides decimal ones: 0x10, 0b1, 010, 1_000 and 1:30.
DECIMAL_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]*)")
# Of a YAML file after aliases are expanded. The largest study has some 2000.
NODES = 100_000
TIMESTAMP = "tag:yaml.org,2002:timestamp"
# libyaml takes a tenth of the time, and every start of the workflow reads some thirty files.
# Debian's PyYAML and the wheels of PyPI have it; built from source without its headers, PyYAML has
# not.
YAML_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@contextlib.contextmanager
def _syntax(language: str, where: str) -> Iterator[None]:
    """Raise a parser's errors as `UsageError`."""
    try:
        yield
    except RecursionError as error:
        raise UsageError(f"{where} must be {language} of few levels, found too many") from error
    # ValueError: those of JSON, TOML and Unicode, and Python's limit of an integer's digits.
    except (ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{where} must be {language}, found: {error}") from error


def read_json(path: Path, most_bytes: int = RESULT_BYTES) -> Any:
    """Read a JSON file; errors as for `parse_json` and `read_text`."""
    return parse_json(read_text(path, most_bytes), str(path))


def read_config(path: Path) -> Any:
    """Read a configuration as Snakemake does: YAML, or JSON where the name says so."""
    return read_json(path, CONFIG_BYTES) if path.suffix == ".json" else read_yaml(path)


def check_configs(paths: Iterable[str | Path]) -> None:
    """Refuse configurations that Snakemake has accepted: it keeps the last of two equal keys."""
    for path in paths:
        read_config(Path(path))


def parse_json(text: str, where: str) -> Any:
    """Parse JSON, without repeated keys, NaN, infinities and numbers of 40 digits.

    `where` is the file or option, for errors.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            repeated = repeats([key for key, _ in pairs])
            raise UsageError(f"keys must be unique, found {repeated} twice in {where}")
        return found

    def digits(word: str) -> str:
        if len(word) > NUMBER_LETTERS:
            raise UsageError(
                f"numbers of {where} must have at most {NUMBER_LETTERS} characters, found "
                f"{shown(word)}"
            )
        return word

    with _syntax("JSON", where):
        data = json.loads(
            text,
            object_pairs_hook=unique,
            parse_int=lambda word: int(digits(word)),
            parse_float=lambda word: float(digits(word)),
        )
    check_data(data, where)
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file of finite numbers."""
    text = read_text(path)
    with _syntax("TOML", str(path)):
        data = tomllib.loads(text)
    check_data(data, str(path))
    return data


def read_rows(
    path: Path, delimiter: str = ",", columns: Iterable[str] = (), most_bytes: int = TABLE_BYTES
) -> list[dict[str, str]]:
    """Read a table whose first line names the columns, at least those of `columns`."""
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
        for fields in filter(None, lines):
            if len(fields) != len(head):
                raise UsageError(
                    f"{path}, line {lines.line_num} must have a field for each column, found "
                    f"{len(fields)} of {len(head)}"
                )
            rows.append(dict(zip(head, fields, strict=True)))
    except csv.Error as error:
        raise UsageError(
            f"{path}, line {lines.line_num} must be a row of a table, found: {shown(str(error))}"
        ) from error
    return rows


def read_yaml(path: Path) -> Any:
    """Read a YAML file; errors as for `parse_yaml` and `read_text`."""
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML: one document of mappings with unique words as keys, lists and scalars.

    It must not be too deep, nor too long when its aliases are expanded. `where` is the file, for
    errors.
    """
    with _syntax("YAML", where):
        _check_events(text)
        data = yaml.load(text, _Strict)
    check_data(data, where, NODES)
    return data


def _refused(what: str, of: Any) -> yaml.MarkedYAMLError:
    """Return the error of a node or event that is refused although it is YAML."""
    return yaml.MarkedYAMLError(problem=what, problem_mark=of.start_mark)


class _Strict(YAML_LOADER):  # type: ignore[misc]
    """Refuse repeated keys, keys that are no words, and numbers that are not written plainly."""

    # A day is a word, as in JSON.
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [each for each in resolvers if each[0] != TIMESTAMP]
        for first, resolvers in YAML_LOADER.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if not isinstance(key, str):
                raise _refused(f"keys must be words, found {shown(key)}, to be quoted", node)
        if repeated := repeats(keys):
            raise _refused(f"keys must be unique, found {repeated} twice", node)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping

    def plain(self, node: Any, pattern: re.Pattern[str]) -> str:
        text = str(self.construct_scalar(node))
        if len(text) > NUMBER_LETTERS or not pattern.fullmatch(text):
            raise _refused(
                f"numbers must be finite and decimal, found {shown(text)}, to be quoted where it "
                "is a word",
                node,
            )
        return text


_Strict.add_constructor(
    "tag:yaml.org,2002:int", lambda loader, node: int(loader.plain(node, DECIMAL_WHOLE))
)
_Strict.add_constructor(
    "tag:yaml.org,2002:float", lambda loader, node: float(loader.plain(node, NUMBER))
)


def _check_events(text: str) -> None:
    """Check tags and depth of the parser's events, of which recursive functions make nodes.

    Aliases nest and repeat without more text: `check_data` counts what they stand for.
    """
    depth = 0
    event: Any
    for event in yaml.parse(text, _Strict):
        if getattr(event, "tag", None) is not None:
            raise _refused(f"tags must not be used, found {shown(event.tag)}", event)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth >= DEPTH:
            raise _refused(f"there must be at most {DEPTH} levels, found more", event)
