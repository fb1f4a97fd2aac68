"""The closed schemas of workflow/schemas, with what the axes' declarations say filled in."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.study.condition import AXES
from losslab.study.yamls import load_yaml

if TYPE_CHECKING:
    import jsonschema

SCHEMAS = Path(__file__).resolve().parents[3] / "workflow" / "schemas"


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """Load a schema; it may refer to what `definitions` puts into its `$defs`.

    Args:
        name: The file is NAME.schema.yaml.
    """
    content: dict[str, Any] = load_yaml(SCHEMAS / f"{name}.schema.yaml")
    content["$defs"] = content.get("$defs", {}) | definitions()
    return content


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Make a schema's validator, once: it keeps what it looked up."""
    import jsonschema  # takes a tenth of a second, and much is asked of schemas without it

    return jsonschema.Draft202012Validator(schema(name))


def definitions() -> dict[str, Any]:
    """Say in JSON Schema what the axes are.

    Returns:
        `axis`: the name of one that studies set; `axes`: those, each with a value or a list of
        values; `cell`: those, each with a value; `values`: by name, what a value of any axis is.
    """
    values = {name: its.schema() for name, its in AXES.items()}
    of_studies = {name: values[name] for name, its in AXES.items() if not its.of_campaign}
    return {
        "axis": {"enum": list(of_studies)},
        "axes": {
            "type": "object",
            "properties": {name: one_or_more(value) for name, value in of_studies.items()},
        },
        "cell": {"type": "object", "properties": of_studies},
        "values": values,
    }


def one_or_more(value: dict[str, Any]) -> dict[str, Any]:
    """Allow a value, or a list of values to cross with all others."""
    many = {"type": "array", "minItems": 1, "items": value}
    return {"if": {"type": "array"}, "then": many, "else": value}
