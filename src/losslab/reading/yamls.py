"""YAML, by libyaml where PyYAML was built with it: a tenth of the time.

Every start of the workflow reads some thirty files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from losslab.reading.files import UsageError, read_text
from losslab.reading.values import DEPTH, NUMBER, NUMBER_LETTERS, check_data, repeats, shown

# What YAML 1.1 takes for a number besides decimal ones: 0x10, 0b1, 010, 1_000 and 1:30.
DECIMAL_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]*)")
# After aliases are expanded. The largest study has some 2000.
NODES = 100_000
# A longer file with a mistake is not parsed again: that takes PyYAML a second per 50 kB.
SECOND_LOOK_LETTERS = 50_000
TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _RefusedError(Exception):
    """What is refused although it is YAML, and the line."""


class _Strict(yaml.constructor.SafeConstructor):
    """Refuse repeated keys, keys that are no words, and numbers that are not written plainly."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        line = node.start_mark.line + 1
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if not isinstance(key, str):
                raise _RefusedError(f"keys must be words, found {shown(key)}, to be quoted", line)
        if repeated := repeats(keys):
            raise _RefusedError(f"keys must be unique, found {repeated} twice", line)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: Any) -> int:
        return int(self._plain(node, DECIMAL_WHOLE))

    def construct_yaml_float(self, node: Any) -> float:
        return float(self._plain(node, NUMBER))

    def _plain(self, node: Any, pattern: re.Pattern[str]) -> str:
        text = str(self.construct_scalar(node))
        if len(text) > NUMBER_LETTERS or not pattern.fullmatch(text):
            raise _RefusedError(
                f"numbers must be finite and decimal, found {shown(text)}, to be quoted where it "
                "is a word",
                node.start_mark.line + 1,
            )
        return text


_STRICT: Any = _Strict
_STRICT.add_constructor("tag:yaml.org,2002:int", _Strict.construct_yaml_int)
_STRICT.add_constructor("tag:yaml.org,2002:float", _Strict.construct_yaml_float)


class Plain(_Strict, yaml.SafeLoader):
    """In Python, wherever PyYAML is."""


# Debian's PyYAML and the wheels of PyPI have libyaml; built from source without its headers, it has
# not.
FASTEST: type[Any] = (
    type("Fast", (_Strict, yaml.CSafeLoader), {}) if yaml.__with_libyaml__ else Plain
)
_loader: Any
for _loader in {Plain, FASTEST}:
    # A day is a word, as in JSON.
    _loader.yaml_implicit_resolvers = {
        first: [each for each in resolvers if each[0] != TIMESTAMP]
        for first, resolvers in _loader.yaml_implicit_resolvers.items()
    }


def read_yaml(path: Path) -> Any:
    """Read a YAML file; errors as for `parse_yaml` and `read_text`."""
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML: one document of mappings with unique words as keys, lists and scalars.

    Args:
        text: The YAML.
        where: The file, for errors.

    Raises:
        UsageError: it is no such YAML, too deep, or too long when its aliases are expanded.
    """
    try:
        try:
            data = _parse(text, FASTEST)
        except yaml.YAMLError:
            if len(text) > SECOND_LOOK_LETTERS:
                raise
            # The same words everywhere: libyaml has others for the same mistakes.
            data = _parse(text, Plain)
    except _RefusedError as error:
        what, line = error.args
        raise UsageError(f"{what} in {where}, line {line}") from error
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise UsageError(f"{where} must be YAML, found: {error}") from error
    check_data(data, where)
    return data


def _parse(text: str, loader: type[Any]) -> Any:
    _check_events(text, loader)
    return yaml.load(text, loader)


def _check_events(text: str, loader: type[Any]) -> None:
    """Look at the parser's events, before nodes are made of them by functions that call themselves.

    Raises:
        _RefusedError: a tag, more levels than DEPTH, or more nodes than NODES.
        yaml.YAMLError: the syntax is wrong.
    """
    # Per level how many nodes it has by now, and per anchor how many an alias stands for.
    counts = [0]
    anchors: list[str | None] = []
    sizes: dict[str, int] = {}
    event: Any
    for event in yaml.parse(text, loader):
        line = event.start_mark.line + 1
        if getattr(event, "tag", None) is not None:
            raise _RefusedError(f"tags must not be used, found {shown(event.tag)}", line)
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.CollectionStartEvent):
            counts.append(1)
            anchors.append(anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            size, anchor = counts.pop(), anchors.pop()
            counts[-1] += size
            if anchor is not None:
                sizes[anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            # Of an anchor that is not there the composer speaks.
            counts[-1] += sizes.get(str(anchor), 1)
            if anchor in anchors:
                what = f"an alias must not be within what it means, found *{anchor}"
                raise _RefusedError(what, line)
        elif isinstance(event, yaml.ScalarEvent):
            counts[-1] += 1
            if anchor is not None:
                sizes[anchor] = 1
        if len(counts) > DEPTH:
            raise _RefusedError(f"there must be at most {DEPTH} levels, found more", line)
        if counts[-1] > NODES:
            raise _RefusedError(f"there must be at most {NODES} values, found more", line)
