"""Configuration files: parse YAML, and validate against the closed schemas of workflow/schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import yaml

from losslab.errors import LosslabError
from losslab.study.schemas import schema


def check_schema(data: Any, schema_name: str, where: str) -> None:
    """Validate against a closed schema of workflow/schemas.

    Raises:
        LosslabError: naming the key, what must hold, and the file.
    """
    validator = jsonschema.Draft202012Validator(schema(schema_name))
    errors = sorted(validator.iter_errors(data), key=lambda e: list(map(str, e.path)))
    if errors:
        lines = [f"{'.'.join(map(str, e.path)) or '(top level)'}: {e.message}" for e in errors]
        raise LosslabError(
            f"{where} must follow workflow/schemas/{schema_name}.schema.yaml, found:\n    "
            + "\n    ".join(lines),
            hint="config/README.md explains every key",
        )


def load_yaml(path: Path) -> Any:
    """Parse a YAML file; a missing file, a syntax error or a repeated key is a LosslabError."""

    class Loader(yaml.SafeLoader):
        """A loader that refuses repeated keys, of which YAML keeps the last in silence."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            repeated = {str(key) for key in keys if keys.count(key) > 1}
            if repeated:
                raise LosslabError(
                    f"keys must be unique, found {', '.join(sorted(repeated))} twice in {path}, "
                    f"line {node.start_mark.line + 1}"
                )
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(path.read_text(), Loader)
    except FileNotFoundError as error:
        raise LosslabError(f"{path} must exist, found no such file") from error
    except yaml.YAMLError as error:
        raise LosslabError(f"{path} must be YAML, found: {error}") from error
