"""The declaration of a study's axes: types, ranges, and their parts in cell names and seeds.

`study/condition.py` declares the axes. The guest imports both modules, so they use only the
standard library.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from losslab.errors import LosslabError, did_you_mean

Value = float | int | str
# The value of a text axis that is not used.
NONE = "none"
# The algorithm of programs that choose their own congestion controls, and the queue of the axis
# `qdisc`.
OWN = "own"
# The trace that is drawn for each replicate; all others are files.
DRAWN_TRACE = "cellular"
# Replacements in a cell's name, whose parts are joined by `_`.
IN_NAME = str.maketrans({"_": "-", ",": "-", " ": "-", "=": None, "+": "-and-"})
# Numbers in mini-languages: their syntax, and the range of values other than 0.
NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[0-9]{1,2})?")
MAX_NUMBER_LENGTH = 40
MIN_NUMBER, MAX_NUMBER = 1e-9, 1e12
# Smallest percentage of packets. netem's step of 2.3e-8 % then rounds it by at most 1.2 %.
MIN_PERCENT = 1e-6
# Smallest time of a path other than 0. In virtual time, each clock read takes 256 ns.
MIN_MS = 0.001
# A longer value is truncated in a cell's name and completed by a digest: file names have at most
# 255 bytes.
MAX_PART_LENGTH, MAX_NAME_LENGTH = 60, 200
DIGEST_DIGITS = 16


class Seed(Enum):
    """Effect of an axis on the seeds of replicates.

    New axes should use `UNLESS_DEFAULT`, so that existing cells keep their seeds.
    """

    ALWAYS = "always"
    UNLESS_DEFAULT = "unless default"
    # Two values other than the default give the same seed, such as two competitors.
    WHETHER_DEFAULT = "whether default"
    # Cells that differ only in this axis share their seeds and are compared in pairs.
    NEVER = "never"


@dataclass(frozen=True)
class Span:
    """An interval of numbers in mathematical notation: `[0, 100)` includes 0 but not 100."""

    text: str
    minimum: float
    maximum: float

    @classmethod
    def of(cls, text: str) -> Span:
        """Parse an interval; ValueError if the text is not an interval."""
        match = re.fullmatch(r"[\[(]([-\d.]+), ([-\d.]+)[\])]", text)
        if match is None:
            raise ValueError(f"an interval must be written as [0, 100), found {text!r}")
        return cls(text, float(match[1]), float(match[2]))

    def __contains__(self, value: float) -> bool:
        """Return whether the interval includes a number."""
        ends = {self.minimum: self.text[0] == "[", self.maximum: self.text[-1] == "]"}
        return ends.get(value, self.minimum < value < self.maximum)

    def schema(self) -> dict[str, Any]:
        """Return the interval as JSON Schema."""
        return {
            "minimum" if self.text[0] == "[" else "exclusiveMinimum": self.minimum,
            "maximum" if self.text[-1] == "]" else "exclusiveMaximum": self.maximum,
        }


def decimal(text: str) -> float | None:
    """Parse a number of a mini-language, finite and at least 0; return None for other text."""
    if len(text) > MAX_NUMBER_LENGTH or not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if value == 0 or MIN_NUMBER <= value <= MAX_NUMBER else None


def plain(value: float) -> str:
    """Format a number for `decimal`: to 12 digits, without an exponent."""
    text = f"{value:.12g}"
    return text if "e" not in text else f"{value:.21f}".rstrip("0").rstrip(".")


def short(value: Value) -> str:
    """Format a value as text from which it can be read again: 20.0 is `20`."""
    if not isinstance(value, float):
        return str(value)
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def name_digest(text: str) -> str:
    """Return the digest that completes a name which does not identify its value."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def derived_seed(seed: int, purpose: str) -> int:
    """Derive the seed of a random source (`netem-data`, `kernel`, ...) from a replicate's seed."""
    digest = hashlib.sha256(f"{seed}:{purpose}".encode()).digest()
    return 1 + int.from_bytes(digest[:4], "big") % 0x7FFF_FFFE


def limited(name: str) -> str:
    """Truncate a name that is too long for a file, and complete it by a digest."""
    if len(name) <= MAX_NAME_LENGTH:
        return name
    return f"{name[:MAX_NAME_LENGTH]}_{name_digest(name)}"


def typed(value: object, name: str, kind: str) -> Value:
    """Convert a value to the type `kind` (see `Axis.kind`): 20 and 20.0 are one condition."""
    if kind == "str":
        if isinstance(value, str):
            return value
        raise LosslabError(f"{name} must be text, found {value!r}")
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        # An integer of hundreds of digits overflows a float.
        or not abs(value) <= sys.float_info.max
    ):
        raise LosslabError(f"{name} must be a finite number, found {value!r:.60}")
    if kind == "int" and value != int(value):
        raise LosslabError(f"{name} must be a whole number, found {value!r}")
    # 0.0 and -0.0 are one condition, too.
    return int(value) if kind == "int" else float(value) + 0.0


def settings(
    pairs: Iterable[str], language: str, kinds: Mapping[str, str], example: str
) -> dict[str, Any]:
    """Parse the `key=value` pairs of a mini-language, whose name and example are for errors.

    `kinds` has the allowed keys with their types, each as `Axis.kind`.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        if key not in kinds:
            raise LosslabError(
                f"keys of {language} must be among {', '.join(kinds)} (as in {example}), found "
                f"{pair!r:.60}{did_you_mean(key, kinds)}"
            )
        if key in values:
            raise LosslabError(
                f"{language} must set each key once, found a second {key} in {pair!r:.60}"
            )
        number = None if kinds[key] == "str" else decimal(text)
        values[key] = typed(text if number is None else number, f"{key} of {language}", kinds[key])
    return values


def _has_separators(text: str) -> bool:
    """Return whether a word of a list has characters that a name also uses between words.

    A name joins a key with its value. Those of parameters must be a lower-case word and a number.
    """
    words = re.split("[,+ ]", text)
    joined = (word for word in words if "." in word.partition("=")[0])
    return any(character in word for word in words if "=" not in word for character in "_-") or (
        not all(re.fullmatch(r"[^=A-Z]*[^=A-Z0-9]=[0-9][0-9a-z.]*", word) for word in joined)
    )


@dataclass(frozen=True)
class Axis:
    """The declaration of an axis."""

    help: str  # in a line
    unit: str = ""  # of numeric values
    span: Span | None = None  # range of numeric values
    smallest: float = 0.0  # value other than 0 that can be set or measured
    # Allowed text values, each with a description, or "" if the value explains itself.
    choices: Mapping[str, str] = field(default_factory=dict)
    pattern: str = ""  # regular expression for text values that are not in `choices`
    form: str = ""  # the pattern in words, for errors
    named: str = "{}"  # format of the axis's part of a cell's name
    always_named: bool = False  # whether the name has the part for the default value, too
    digested: bool = False  # whether the part is a digest of the value, for free text
    commas: bool = False  # whether text values may contain commas
    canonical: Callable[[str], str] = str  # returns the one text of all that mean the same
    repeated: str = ""  # joins the values of an option that may be repeated; empty: it may not
    seed: Seed = Seed.UNLESS_DEFAULT  # how the axis enters the seeds
    of_campaign: bool = False  # whether campaigns set the axis, and not studies
    name: str = ""  # of the axis's field
    kind: str = "str"  # type of the values: `str`, `int` or `float`
    default: Value | None = None  # None for an axis that must be set

    def typed(self, value: object) -> Value:
        """Convert a value to the axis's type."""
        found = typed(value, self.name, self.kind)
        return self.canonical(found) if isinstance(found, str) else found

    def joined(self, texts: Iterable[str]) -> str:
        """Return the values of a repeated option as one."""
        return self.repeated.join(text for text in texts if text != NONE) or NONE

    def problems(self, value: Value) -> list[str]:
        """List what is wrong with a value, regardless of other axes; empty if it is valid."""
        if isinstance(value, str):
            if self.choices and value not in self.choices:
                return [
                    f"{self.name} must be one of {', '.join(self.choices)}, found {value!r}"
                    + did_you_mean(value, self.choices)
                ]
            if self.pattern and not re.fullmatch(self.pattern, value):
                form = f"be {self.form}" if self.form else f"match {self.pattern}"
                return [f"{self.name} must {form}, found {value!r}"]
        elif self.span and value not in self.span:
            return [f"{self.name} must be in {self.span.text}, found {value:g}"]
        elif 0 < value < self.smallest:
            return [f"{self.name} must be 0 or at least {self.smallest:g}, found {value:g}"]
        return []

    @property
    def range(self) -> str:
        """Return the range of numeric values as text; empty for text axes."""
        text = self.span.text if self.span else ""
        return f"0, [{self.smallest:g}{text[text.index(',') :]}" if self.smallest else text

    def in_name(self, value: Value, digits: int = DIGEST_DIGITS) -> str:
        """Return the value's part of a name, different for different values.

        The part of a long or free text ends in a digest of that many digits.
        """
        text = short(value)
        digest = name_digest(text)[:digits]
        if self.digested:
            return self.named.format(digest)
        # Not every file system distinguishes upper and lower case; `@` precedes a digest.
        part = text.partition("@")[0].lower().translate(IN_NAME)
        ambiguous = "@" in text or text != text.lower() or (self.commas and _has_separators(text))
        if len(part) > MAX_PART_LENGTH or ambiguous:
            part = f"{part[:MAX_PART_LENGTH]}-{digest}"
        return self.named.format(part)

    def in_seed(self, value: Value) -> Value | None:
        """Return the value's contribution to the seed; None if it has none.

        A whole number enters a study's axis as an integer (`rtt_ms: 20`) and a campaign's axis as
        a float (`duration_s: 20.0`).
        """
        if self.seed is Seed.NEVER or (self.seed is not Seed.ALWAYS and value == self.default):
            return None
        if self.seed is Seed.WHETHER_DEFAULT:
            return True
        whole = isinstance(value, float) and value.is_integer() and not self.of_campaign
        return int(value) if whole else value

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of one value; a number may be text with a unit."""
        types = {"int": ["integer", "string"], "float": ["number", "string"]}
        schema: dict[str, Any] = {"description": self.help, "type": types.get(self.kind, "string")}
        if self.kind != "str":
            schema["unit"] = self.name
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.pattern:
            schema["pattern"] = f"^({self.pattern})$"
        return schema | (self.span.schema() if self.span else {})


def axis(default: Value | None, *, help: str, span: str = "", **more: Any) -> Any:
    """Declare an axis as a dataclass field; one without a default must be set.

    `span` is the range of numeric values, such as `[0, 100)`, and `more` are other attributes of
    `Axis`.
    """
    declaration = Axis(help, span=Span.of(span) if span else None, default=default, **more)
    absent = dataclasses.MISSING if default is None else default
    return field(default=absent, metadata={"axis": declaration})


def declared(design: Any) -> dict[str, Axis]:
    """Return the axes of a dataclass by name, in the order of its fields."""
    return {
        each.name: dataclasses.replace(each.metadata["axis"], name=each.name, kind=str(each.type))
        for each in dataclasses.fields(design)
    }
