"""Read YAML: by libyaml where PyYAML was built with it, which takes a tenth of the time.

Every start of the workflow reads some thirty files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from losslab.errors import LosslabError


class _RepeatedKeysError(Exception):
    """Keys of a mapping that stand in it more than once, and the line that it begins in."""


class _UniqueKeys(yaml.constructor.SafeConstructor):
    """Refuse repeated keys, of which YAML keeps the last in silence."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = {str(key) for key in keys if keys.count(key) > 1}
        if repeated:
            raise _RepeatedKeysError(", ".join(sorted(repeated)), node.start_mark.line + 1)
        return super().construct_mapping(node, deep)


class Plain(_UniqueKeys, yaml.SafeLoader):
    """In Python, wherever PyYAML is."""


# Debian's PyYAML and the wheels of PyPI have libyaml; built from source without its headers, it has
# not.
FASTEST: type[Any] = (
    type("Fast", (_UniqueKeys, yaml.CSafeLoader), {}) if yaml.__with_libyaml__ else Plain
)


def load_yaml(path: Path) -> Any:
    """Parse a YAML file; a missing file, a syntax error or a repeated key is a LosslabError."""
    return parse(read(path), path)


def read(path: Path) -> str:
    """Read a file; a missing one is a LosslabError."""
    try:
        return path.read_text()
    except FileNotFoundError as error:
        raise LosslabError(f"{path} must exist, found no such file") from error


def parse(text: str, path: Path) -> Any:
    """Parse what a YAML file says; errors as for `load_yaml`."""
    try:
        try:
            return yaml.load(text, FASTEST)
        except yaml.YAMLError:
            # The same words everywhere: libyaml has others for the same mistakes.
            return yaml.load(text, Plain)
    except _RepeatedKeysError as error:
        keys, line = error.args
        raise LosslabError(
            f"keys must be unique, found {keys} twice in {path}, line {line}"
        ) from error
    except yaml.YAMLError as error:
        raise LosslabError(f"{path} must be YAML, found: {error}") from error
