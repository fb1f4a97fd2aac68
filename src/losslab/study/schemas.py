"""Data against the closed schemas of workflow/schemas, which the axes' declarations complete."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.reading import UsageError, parse_yaml, read_text, read_yaml, shown
from losslab.study.condition import AXES

if TYPE_CHECKING:
    import jsonschema

SCHEMAS = Path(__file__).resolve().parents[3] / "workflow" / "schemas"
HINT = "config/README.md explains every key"
# Of a file that is wrong throughout, as many errors are shown, each of at most so many letters.
SHOWN_ERRORS = 20
SHOWN_LETTERS = 400


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


def problems(data: Any, name: str) -> list[str]:
    """Say where data leave a schema, and how."""
    errors = sorted(validator(name).iter_errors(data), key=lambda e: list(map(str, e.path)))
    found = [
        f"{'.'.join(map(shown, e.path)) or '(top level)'}: {_shortened(e.message)}"
        for e in errors[:SHOWN_ERRORS]
    ]
    return found + [f"and {len(errors) - SHOWN_ERRORS} more"] * (len(errors) > SHOWN_ERRORS)


def _shortened(message: str) -> str:
    """Cut an error message that quotes a long value: keep what it says of it, at its end."""
    half = SHOWN_LETTERS // 2
    return message if len(message) <= SHOWN_LETTERS else f"{message[:half]} ... {message[-half:]}"


def check_schema(data: Any, name: str, where: str, hint: str = HINT) -> None:
    """Validate against a schema; `where` is the file, for the error."""
    if found := problems(data, name):
        lines = "\n    ".join(found)
        raise UsageError(
            f"{where} must follow workflow/schemas/{name}.schema.yaml, found:\n    {lines}",
            hint=hint,
        )


def load_checked(path: Path, name: str) -> Any:
    """Parse a YAML file and validate it, once a process for as long as it says the same.

    The caller has its own copy.
    """
    return copy.deepcopy(_checked(path, read_text(path), name))


@functools.cache
def _checked(path: Path, text: str, name: str) -> Any:
    data = parse_yaml(text, str(path))
    check_schema(data, name, str(path))
    return data


def definitions() -> dict[str, Any]:
    """Say in JSON Schema what the axes are.

    Returns:
        `axis`: the name of one that studies set; `selector`: that, or `block`; `axes`: those, each
        with a value or a list of values; `cell`: those, each with a value; `values`: by name, what
        a value of any axis is.
    """
    values = {name: its.schema() for name, its in AXES.items()}
    of_studies = {name: values[name] for name, its in AXES.items() if not its.of_campaign}
    return {
        "axis": {"enum": list(of_studies)},
        "selector": {"enum": ["block", *of_studies]},
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
