"""Inputs for readers: random bytes and text, mutations of valid inputs, and generated documents."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from typing import Any

import yaml
from hypothesis import strategies as st

# Inputs that broke readers: NaN, other notations, YAML syntax, bytes.
FRAGMENTS = [
    each.encode()
    for each in (
        "nan", "inf", "-inf", ".nan", ".inf", "NaN", "Infinity", "1e400", "1.0e+400", "-1", "-0",
        "0", "1_0", "0x10", "010", "1:30", "1e-400", "1e5", "0.5", ".5", "5.", "9" * 400,
        "9" * 5000, "1" + "0" * 30, "2.5", "true", "null", "~", "on", "[]", "{}", '""', "''", '"',
        "'", "&a", "*a", "&a *a", "<<: *a", "!!binary x", "!!float x", "? ", "- ", ": ", "#", "%",
        "\t", "\n", "\r\n", "\r", "\n\n", ",", "+", "=", ";", "/", "..", "../..", "[" * 200,
        "{" * 200, "- " * 200, "]" * 5, "\u0663", "\uff11", "\u2028", "\ufeff", "\U0001f600",
        "none", "same", "default", "cubic", "loss_percent", "a" * 300, "2026-01-31", "--- a", "...",
    )
] + [b"\x00", b"\xe9", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[2J", b"\\ud800"]  # fmt: skip
NUMBER = re.compile(rb"[0-9]+(\.[0-9]+)?")
# Inputs close to valid ones, so that not all are refused.
NUMBERS = [b"0", b"1", b"2", b"5", b"10", b"20", b"99", b"1000", b"0.25", b"1.5", b"0.00001"]
# If PyYAML has libyaml, it takes a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
TOKEN = re.compile(rb"[A-Za-z0-9_.+-]+|[^A-Za-z0-9_.+-]")
HOW = ("replace", "insert", "delete", "repeat", "end")
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from([each.decode("utf-8", "replace") for each in FRAGMENTS])
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Draw a valid input with up to four changes."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 4]))):
        tokens = TOKEN.findall(data)
        at = draw(st.integers(0, max(len(tokens) - 1, 0)))
        how = draw(st.sampled_from(["number", "number", "number", *HOW]))
        piece = draw(st.sampled_from(FRAGMENTS) | st.binary(max_size=4))
        numbers = [place for place, token in enumerate(tokens) if NUMBER.fullmatch(token)]
        if how == "number" and numbers:
            tokens[draw(st.sampled_from(numbers))] = draw(st.sampled_from(NUMBERS))
        elif how in ("number", "replace"):
            tokens[at : at + 1] = [piece]
        elif how == "insert":
            tokens.insert(at, piece)
        elif how == "delete":
            del tokens[at : at + draw(st.integers(1, 20))]
        elif how == "repeat":
            tokens[at:at] = tokens[at : at + draw(st.integers(1, 40))]
        else:
            del tokens[at:]
        data = b"".join(tokens)
    return data


@functools.cache
def parsed(seed: bytes) -> Any:
    """Parse a valid document of JSON or YAML."""
    return yaml.load(seed, LOADER)


@st.composite
def documents(draw: st.DrawFn, seeds: Sequence[bytes], form: str) -> bytes:
    """Draw a JSON or YAML document: a generated one, or a valid one with one value replaced."""
    data = draw(DOCUMENTS)
    if draw(st.booleans()):
        data = replaced(draw, parsed(draw(st.sampled_from(seeds))), data)
    text = json.dumps(data) if form == "json" else yaml.dump(data, Dumper=DUMPER, sort_keys=False)
    return text.encode("utf-8", "surrogatepass")


def replaced(draw: st.DrawFn, data: Any, by: Any) -> Any:
    """Replace a value somewhere in a document."""
    if isinstance(data, dict) and data and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(list(data)))
        return {**data, key: replaced(draw, data[key], by)}
    if isinstance(data, list) and data and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(data) - 1))
        return [*data[:at], replaced(draw, data[at], by), *data[at + 1 :]]
    return by


def inputs(seeds: Sequence[bytes], form: str) -> st.SearchStrategy[bytes]:
    """Return the strategy of a reader's inputs.

    Args:
        seeds: Valid inputs.
        form: `json` or `yaml`, which adds generated documents, or `text`.
    """
    kinds = [
        mutated(seeds),
        mutated(seeds),
        st.binary(max_size=200),
        st.text(max_size=100).map(str.encode),
        st.lists(st.sampled_from(FRAGMENTS), max_size=8).map(b"".join),
    ]
    if form in ("json", "yaml"):
        kinds.append(documents(seeds, form))
    return st.one_of(kinds)
