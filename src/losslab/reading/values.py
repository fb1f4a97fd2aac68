"""Numbers in words, and the limits of data: finite, plainly written, not too deep."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from losslab.reading.files import UsageError

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
# No measured number has as many digits, and Python takes quadratic time for long ones.
NUMBER_LETTERS = 40
# No number has a meaning here beyond this; a float holds it, and its square.
LARGEST = 1e100
# Files of the project are 8 deep.
DEPTH = 64
SHOWN_LETTERS = 60


def shown(value: object) -> str:
    """Write a value for an error message: the beginning of a long one."""
    text = value if isinstance(value, str) else repr(value)
    short = text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."
    return short if short.isprintable() else repr(short)


def repeats(names: Iterable[str]) -> str:
    """List names that stand there more than once; empty where none does."""
    found = sorted(name for name, count in Counter(names).items() if count > 1)
    return shown(", ".join(name or "''" for name in found)) if found else ""


def number(text: str, name: str = "a number") -> float:
    """Read a finite decimal number: `1`, `0.5`, `1e3`; not `nan`, `1_0` or `0x10`.

    Raises:
        UsageError: it is none.
    """
    if len(text) <= NUMBER_LETTERS and NUMBER.fullmatch(text):
        value = float(text)
        if abs(value) <= LARGEST:
            return value
    raise UsageError(f"{name} must be a finite number, found {shown(text)}")


def whole(text: str, name: str = "a number") -> int:
    """Read a whole decimal number.

    Raises:
        UsageError: it is none.
    """
    if len(text) <= NUMBER_LETTERS and WHOLE.fullmatch(text):
        return int(text)
    raise UsageError(f"{name} must be a whole number, found {shown(text)}")


def whole_option(name: str, least: int, most: int = 10**9) -> Callable[[str], int]:
    """Give the `type` of a command's option: whole numbers from `least` to `most`.

    `UsageError` passes through argparse, unlike the errors that it expects.
    """

    def read(text: str) -> int:
        value = whole(text, name)
        if not least <= value <= most:
            raise UsageError(f"{name} must be from {least} to {most}, found {value}")
        return value

    return read


def number_option(name: str, above: float) -> Callable[[str], float]:
    """Give the `type` of a command's option: finite numbers above `above`."""

    def read(text: str) -> float:
        value = number(text, name)
        if value <= above:
            raise UsageError(f"{name} must be above {above:g}, found {value:g}")
        return value

    return read


def check_data(data: Any, where: str) -> None:
    """Check what a parser made of a file: depth, numbers and characters, wherever they are.

    Args:
        data: Dictionaries, lists and scalars.
        where: The file, for errors.

    Raises:
        UsageError: it is too deep, or a number or a character cannot be used.
    """
    level: list[Any] = [data]
    for _ in range(DEPTH):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += each
                below += each.values()
            elif isinstance(each, list):
                below += each
            else:
                _check_scalar(each, where)
        if not below:
            return
        level = below
    raise UsageError(f"{where} must be at most {DEPTH} levels deep, found more")


def _check_scalar(value: Any, where: str) -> None:
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise UsageError(
                    f"{where} must be Unicode text, found half of a surrogate pair, "
                    f"{value[error.start]!a}"
                ) from error
    # A comparison with NaN is false.
    elif isinstance(value, int | float) and not abs(value) <= LARGEST:
        found = f"a number of {len(str(value))} digits" if isinstance(value, int) else str(value)
        raise UsageError(f"numbers of {where} must be finite and at most 1e100, found {found}")
