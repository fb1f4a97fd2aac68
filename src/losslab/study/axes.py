"""What an axis of a study's design is, and what follows from its declaration alone.

`study/condition.py` declares the axes; the guest imports both, so this is standard library only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from losslab.errors import LosslabError

Value = float | int | str
# An axis of words without any.
NONE = "none"
# What `_`, `,` and `=` are in a cell's name, whose parts are joined by `_`.
IN_NAME = str.maketrans({"_": "-", ",": "-", "=": None, "+": "-and-"})
# As mini-languages write numbers, and the range in which they have a meaning besides 0.
NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[0-9]{1,2})?")
NUMBER_LETTERS = 40
SMALLEST, LARGEST = 1e-9, 1e12
# Of a longer value the beginning is named, and a digest: a file's name has at most 255 letters.
IN_NAME_LETTERS = 60


class Seed(Enum):
    """How an axis enters the seeds of replicates.

    An axis of a new study enters `UNLESS_DEFAULT`: cells that do without it keep their seeds.
    """

    ALWAYS = "always"
    UNLESS_DEFAULT = "unless default"
    # Only whether it is the default: which competitor it is does not count.
    WHETHER_DEFAULT = "whether default"
    # Cells that differ in it alone share their seeds, and are compared in pairs.
    NEVER = "never"


@dataclass(frozen=True)
class Span:
    """An interval of numbers, written as mathematics does: `[0, 100)` has 0 and has no 100."""

    text: str
    least: float
    most: float

    @classmethod
    def of(cls, text: str) -> Span:
        """Read an interval; a mistake in a declaration is a ValueError."""
        match = re.fullmatch(r"[\[(]([-\d.]+), ([-\d.]+)[\])]", text)
        if match is None:
            raise ValueError(f"an interval must be written as [0, 100), found {text!r}")
        return cls(text, float(match[1]), float(match[2]))

    def __contains__(self, value: float) -> bool:
        """Tell whether a number is in it."""
        end = (value == self.least and self.text[0] == "[") or (
            value == self.most and self.text[-1] == "]"
        )
        return end or self.least < value < self.most

    def schema(self) -> dict[str, Any]:
        """Say the same in JSON Schema."""
        return {
            "minimum" if self.text[0] == "[" else "exclusiveMinimum": self.least,
            "maximum" if self.text[-1] == "]" else "exclusiveMaximum": self.most,
        }


def decimal(text: str) -> float | None:
    """Read a number of a mini-language: finite, and at least 0; None where it is none."""
    if len(text) > NUMBER_LETTERS or not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if value == 0 or SMALLEST <= value <= LARGEST else None


def plain(value: float) -> str:
    """Write a number as `decimal` reads it: to 12 digits, without an exponent."""
    text = f"{value:.12g}"
    return text if "e" not in text else f"{value:.21f}".rstrip("0").rstrip(".")


def short(value: Value) -> str:
    """Write a value for people and names of cells: a number to 6 digits."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def typed(value: object, name: str, kind: str) -> Value:
    """Return a value as its type, an `Axis.kind`: 20 and 20.0 are one condition."""
    if kind == "str":
        if isinstance(value, str):
            return value
        raise LosslabError(f"{name} must be a word, found {value!r}")
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        # A whole number of hundreds of digits is none that a float can hold.
        or not abs(value) <= sys.float_info.max
    ):
        raise LosslabError(f"{name} must be a finite number, found {value!r:.60}")
    if kind == "int" and value != int(value):
        raise LosslabError(f"{name} must be a whole number, found {value!r}")
    return int(value) if kind == "int" else float(value)


def settings(
    pairs: Iterable[str], language: str, kinds: Mapping[str, str], example: str
) -> dict[str, Any]:
    """Read `key=value` pairs of a mini-language, of whose keys `kinds` has the types."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        if key not in kinds:
            raise LosslabError(
                f"keys of {language} must be among {', '.join(kinds)} (as in {example}), found "
                f"{pair!r:.60}"
            )
        if key in found:
            raise LosslabError(f"each key of {language} must be said once, found {pair!r:.60}")
        number = None if kinds[key] == "str" else decimal(text)
        found[key] = typed(text if number is None else number, f"{key} of {language}", kinds[key])
    return found


@dataclass(frozen=True)
class Axis:
    """The declaration of an axis.

    Attributes:
        help: What it is, in one line.
        unit: Of its numbers.
        span: The numbers that it may be.
        choices: The words that it may be, each with what it means where it does not say it itself.
        pattern: A regular expression for words that are not listed.
        named: Its part of a cell's name.
        always_named: Also where it is the default, which otherwise has no part in the name.
        digested: Its part is a digest of it: words of which nothing is known.
        seed: How it enters the seeds.
        of_campaign: Campaigns set it, not studies.
        name: As its field is called.
        kind: The type of its values: `str`, `int` or `float`.
        default: What it is where nobody says otherwise; None where somebody must.
    """

    help: str
    unit: str = ""
    span: Span | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    pattern: str = ""
    named: str = "{}"
    always_named: bool = False
    digested: bool = False
    seed: Seed = Seed.UNLESS_DEFAULT
    of_campaign: bool = False
    name: str = ""
    kind: str = "str"
    default: Value | None = None

    def typed(self, value: object) -> Value:
        """Return a value as the axis's type."""
        return typed(value, self.name, self.kind)

    def problems(self, value: Value) -> list[str]:
        """Say what is wrong with a value by itself; empty when it may be measured."""
        if isinstance(value, str):
            if self.choices and value not in self.choices:
                return [f"{self.name} must be one of {', '.join(self.choices)}, found {value!r}"]
            if self.pattern and not re.fullmatch(self.pattern, value):
                return [f"{self.name} must match {self.pattern}, found {value!r}"]
        elif self.span and value not in self.span:
            return [f"{self.name} must be in {self.span.text}, found {value:g}"]
        return []

    def in_name(self, value: Value) -> str | None:
        """Write a value as its part of a cell's name; None where it has none."""
        if self.of_campaign or (value == self.default and not self.always_named):
            return None
        text = short(value)
        if self.digested:
            return self.named.format(hashlib.sha256(text.encode()).hexdigest()[:8])
        word = text.translate(IN_NAME)
        if len(word) > IN_NAME_LETTERS:
            word = f"{word[:IN_NAME_LETTERS]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        return self.named.format(word)

    def in_seed(self, value: Value) -> Value | None:
        """Return what of a value enters the seed; None where nothing does.

        Numbers enter as studies and campaigns write them: `rtt_ms: 20`, and lengths of time `20.0`.
        """
        if self.seed is Seed.NEVER or (self.seed is not Seed.ALWAYS and value == self.default):
            return None
        if self.seed is Seed.WHETHER_DEFAULT:
            return True
        whole = isinstance(value, float) and value.is_integer() and not self.of_campaign
        return int(value) if whole else value

    def schema(self) -> dict[str, Any]:
        """Say in JSON Schema what one value may be."""
        types = {"str": "string", "int": "integer", "float": "number"}
        schema: dict[str, Any] = {"description": self.help, "type": types[self.kind]}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.pattern:
            schema["pattern"] = f"^({self.pattern})$"
        return schema | (self.span.schema() if self.span else {})


def axis(default: Value | None, *, help: str, span: str = "", **more: Any) -> Any:
    """Declare an axis, as the value of a dataclass's field.

    `help` is by keyword, so that a fingerprint leaves it out; somebody must say it where
    the default is None; `more` are other attributes of `Axis`.
    """
    its = Axis(help, span=Span.of(span) if span else None, default=default, **more)
    absent = dataclasses.MISSING if default is None else default
    return field(default=absent, metadata={"axis": its})


def declared(design: Any) -> dict[str, Axis]:
    """List the axes of a dataclass by name, in the order of its fields."""
    return {
        each.name: dataclasses.replace(each.metadata["axis"], name=each.name, kind=str(each.type))
        for each in dataclasses.fields(design)
    }
