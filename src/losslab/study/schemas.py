"""Validation against the schemas of workflow/schemas, completed by the axes' declarations."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.errors import LosslabError, did_you_mean
from losslab.reading import UsageError, parse_yaml, read_text, read_yaml, shown
from losslab.repository import ROOT
from losslab.study import units
from losslab.study.condition import AXES

if TYPE_CHECKING:
    import jsonschema

SCHEMAS = ROOT / "workflow" / "schemas"
HINT = "config/README.md explains every key"
# Limits of the number and length of reported errors.
MAX_ERRORS = 20
MAX_ERROR_LENGTH = 400


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """Load a schema and add `definitions` to its `$defs`."""
    content: dict[str, Any] = read_yaml(SCHEMAS / f"{name}.schema.yaml")
    content["$defs"] = content.get("$defs", {}) | definitions()
    return content


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Build a schema's validator; it is cached with the references that it resolves.

    It is stricter than jsonschema: numbers must be finite, and `$` in a pattern does not match
    before a final newline. The keyword `unit` names an axis or a key whose numbers may be text with
    a unit.
    """
    import jsonschema  # here, because it takes 0.1 s and most commands validate nothing

    standard: Any = jsonschema.Draft202012Validator
    extend: Any = jsonschema.validators.extend

    def finite(checker: Any, value: Any) -> bool:
        # False for NaN, infinities and integers that overflow a float.
        is_number: bool = standard.TYPE_CHECKER.is_type(value, "number")
        return is_number and abs(value) <= sys.float_info.max

    def pattern(checker: Any, regex: str, value: Any, subschema: Any) -> Iterator[Any]:
        if isinstance(value, str) and regex.endswith("$") and value.endswith("\n"):
            yield jsonschema.ValidationError(f"{value!r} does not match {regex!r}")
        else:
            yield from standard.VALIDATORS["pattern"](checker, regex, value, subschema) or ()

    def unit(checker: Any, name: str, value: Any, subschema: Any) -> Iterator[Any]:
        try:
            converted = units.value(name, value)
        except LosslabError as error:
            yield jsonschema.ValidationError(error.message)
            return
        if isinstance(converted, str) and name not in units.RELATIVE:
            yield jsonschema.ValidationError(f"{converted!r} is not of type 'number'")

    numbers = standard.TYPE_CHECKER.redefine("number", finite)
    strict = extend(standard, {"pattern": pattern, "unit": unit}, type_checker=numbers)
    validator: jsonschema.Draft202012Validator = strict(schema(name))
    return validator


def problems(data: Any, name: str) -> list[str]:
    """List where and how data violate a schema."""
    errors = sorted(validator(name).iter_errors(data), key=lambda e: list(map(str, e.path)))
    lines = [
        f"{'.'.join(map(shown, e.path)) or '(top level)'}: {_shortened(e.message)}{_suggestion(e)}"
        for e in errors[:MAX_ERRORS]
    ]
    if len(errors) > MAX_ERRORS:
        lines.append(f"and {len(errors) - MAX_ERRORS} more")
    return lines


def _suggestion(error: Any) -> str:
    """Return the names similar to a misspelt value or key, for the end of an error message."""
    if error.validator == "enum" and isinstance(error.instance, str):
        return did_you_mean(error.instance, map(str, error.validator_value))
    if error.validator in ("additionalProperties", "unevaluatedProperties"):
        known = {*error.schema.get("properties", {}), *AXES} - {*error.instance}
        unexpected = (key for key in error.instance if repr(key) in error.message)
        return "".join(did_you_mean(key, known) for key in unexpected)
    return ""


def _shortened(message: str) -> str:
    """Cut the middle of a long error message, whose end explains the value that it quotes."""
    if len(message) <= MAX_ERROR_LENGTH:
        return message
    half = MAX_ERROR_LENGTH // 2
    return f"{message[:half]} ... {message[-half:]}"


def check_schema(data: Any, name: str, where: str, hint: str = HINT) -> None:
    """Validate data against a schema; `where` names the file in the error."""
    if found := problems(data, name):
        lines = "\n    ".join(found)
        raise UsageError(
            f"{where} must follow workflow/schemas/{name}.schema.yaml, found:\n    {lines}",
            hint=hint,
        )


def load_checked(path: Path, name: str) -> Any:
    """Parse and validate a YAML file; return a copy of the result, which is cached by content."""
    return copy.deepcopy(_checked(path, read_text(path), name))


@functools.cache
def _checked(path: Path, text: str, name: str) -> Any:
    data = parse_yaml(text, str(path))
    check_schema(data, name, str(path))
    return data


def definitions() -> dict[str, Any]:
    """Return the JSON Schema of the axes.

    `axis` is the name of an axis that studies set, and `selector` such a name or `block`. `axes`
    maps such names to a value or a list of values, and `cell` to a value. `values` has the schema
    of each axis's values, by name.
    """
    values = {name: axis.schema() for name, axis in AXES.items()}
    of_studies = {name: values[name] for name, axis in AXES.items() if not axis.of_campaign}
    return {
        "axis": {"enum": list(of_studies)},
        "selector": {"enum": ["block", *of_studies]},
        "axes": {
            "type": "object",
            "properties": {
                name: {
                    "if": {"type": "array"},
                    "then": {"type": "array", "minItems": 1, "items": value},
                    "else": value,
                }
                for name, value in of_studies.items()
            },
        },
        "cell": {"type": "object", "properties": of_studies},
        "values": values,
    }
