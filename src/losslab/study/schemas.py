"""The closed schemas of workflow/schemas, with what the axes' declarations say filled in."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.reading import read_yaml
from losslab.study.condition import AXES

if TYPE_CHECKING:
    import jsonschema

SCHEMAS = Path(__file__).resolve().parents[3] / "workflow" / "schemas"


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """Load a schema; it may refer to what `definitions` puts into its `$defs`."""
    content: dict[str, Any] = read_yaml(SCHEMAS / f"{name}.schema.yaml")
    content["$defs"] = content.get("$defs", {}) | definitions()
    return content


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Make a schema's validator, once: it keeps what it looked up.

    Stricter than JSON Schema where Python is not: numbers are finite, and `$` in a pattern is the
    end of the text, not a line's.
    """
    import jsonschema  # takes a tenth of a second, and much is asked of schemas without it

    standard: Any = jsonschema.Draft202012Validator
    extend: Any = jsonschema.validators.extend

    def finite(checker: Any, value: Any) -> bool:
        # Of NaN and infinities, and of whole numbers that no float holds, the comparison is false.
        is_number: bool = standard.TYPE_CHECKER.is_type(value, "number")
        return is_number and abs(value) <= sys.float_info.max

    def pattern(its: Any, wanted: str, value: Any, about: Any) -> Iterator[Any]:
        at_end = isinstance(value, str) and wanted.endswith("$") and value.endswith("\n")
        if at_end:
            yield jsonschema.ValidationError(f"{value!r} does not match {wanted!r}")
        else:
            yield from standard.VALIDATORS["pattern"](its, wanted, value, about) or ()

    numbers = standard.TYPE_CHECKER.redefine("number", finite)
    strict = extend(standard, {"pattern": pattern}, type_checker=numbers)
    validator: jsonschema.Draft202012Validator = strict(schema(name))
    return validator


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
