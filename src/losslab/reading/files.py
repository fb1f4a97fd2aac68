"""Readers of text files and numbers, and the limits of data in files."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from losslab.errors import HostError, LosslabError

# Limits of a file's size. The longest configuration file of the repository has 30 kB, a manifest
# some 10 kB, and the longest table of a large campaign some 100 MB.
CONFIG_BYTES = 2**20
RESULT_BYTES = 2**26
TABLE_BYTES = 2**30
MARKS = {
    b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\xef\xbb\xbf": "a byte order mark",
}  # fmt: skip
# All control characters but tabs and line ends: editors hide them, and terminals execute some.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
# Measured numbers are shorter, and Python takes quadratic time to parse long integers.
MAX_NUMBER_LENGTH = 40
# Larger than all meaningful numbers; a float can hold its square.
LARGEST = 1e100
# Limit of nested levels. Files of the project have up to 8.
DEPTH = 64
MAX_SHOWN_LENGTH = 60


class UsageError(LosslabError):
    """An error in the command line or an input file, found before anything ran."""


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Convert errors of the block, which come from a user's input, to `UsageError`."""
    try:
        yield
    except (UsageError, HostError):
        raise
    except LosslabError as error:
        raise UsageError(error.message, hint=error.hint) from error


def read_text(path: Path, max_bytes: int = CONFIG_BYTES) -> str:
    """Read a regular text file in UTF-8; errors name the line and the byte."""
    data = _read_bytes(path, max_bytes)
    for mark, found in MARKS.items():
        if data.startswith(mark):
            raise UsageError(
                f"{path} must be UTF-8 without a byte order mark, found {found} at its start",
                hint="save it as UTF-8 without a byte order mark (BOM)",
            )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{path} must be UTF-8, found byte 0x{data[error.start]:02X} in line {line} (byte "
            f"{error.start + 1} of the file)",
            hint="save it as UTF-8, for example with `iconv -f LATIN1 -t UTF-8`",
        ) from error
    if match := CONTROL.search(text):
        line = text.count("\n", 0, match.start()) + 1
        raise UsageError(
            f"{path} must be text, found the control character 0x{ord(match[0]):02X} in line {line}"
        )
    return text


def _read_bytes(path: Path, max_bytes: int) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe blocks until another process writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            kind = KINDS.get(stat.S_IFMT(os.fstat(descriptor).st_mode))
            if kind:
                raise UsageError(f"{path} must be a file, found {kind}")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(max_bytes + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise UsageError(f"{path} does not exist") from error
    except OSError as error:
        looped = error.errno == errno.ELOOP
        found = "a loop of symbolic links" if looped else error.strerror
        raise UsageError(f"{path} must be a readable file, found: {found}") from error
    except ValueError as error:  # a zero byte in the name
        raise UsageError(f"{str(path)!r} is not a valid file name: {error}") from error
    if len(data) > max_bytes:
        raise UsageError(f"{path} must have at most {max_bytes} bytes, found more")
    return data


def shown(value: object) -> str:
    """Format a value for an error message: cut long values and escape control characters."""
    text = value if isinstance(value, str) else repr(value)
    short = text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}..."
    return short if short.isprintable() else repr(short)


def repeats(names: Iterable[str]) -> str:
    """Return the names that occur more than once as text; "" if there are none."""
    found = sorted(name for name, count in Counter(names).items() if count > 1)
    return shown(", ".join(name or "''" for name in found)) if found else ""


def number(text: str, name: str = "a number") -> float:
    """Parse a finite decimal number: `1`, `0.5`, `1e3`; not `nan`, `1_0` or `0x10`."""
    if len(text) <= MAX_NUMBER_LENGTH and NUMBER.fullmatch(text):
        value = float(text)
        if abs(value) <= LARGEST:
            return value
    raise UsageError(f"{name} must be a finite number, found {shown(text)}")


def whole(text: str, name: str = "a number") -> int:
    """Parse a decimal integer."""
    if len(text) <= MAX_NUMBER_LENGTH and WHOLE.fullmatch(text):
        return int(text)
    raise UsageError(f"{name} must be a whole number, found {shown(text)}")


def whole_option(name: str, minimum: int, maximum: int = 10**9) -> Callable[[str], int]:
    """Return the argparse `type` of an option for integers from `minimum` to `maximum`.

    It raises `UsageError`, which argparse does not catch and replace by its own message.
    """

    def read(text: str) -> int:
        value = whole(text, name)
        if not minimum <= value <= maximum:
            raise UsageError(f"{name} must be from {minimum} to {maximum}, found {value}")
        return value

    return read


def number_option(name: str, above: float) -> Callable[[str], float]:
    """Return the argparse `type` of an option for finite numbers above `above`."""

    def read(text: str) -> float:
        value = number(text, name)
        if value <= above:
            raise UsageError(f"{name} must be above {above:g}, found {value:g}")
        return value

    return read


def check_data(data: Any, where: str, max_values: float = math.inf) -> None:
    """Check depth, number of values, numbers and characters of parsed data of a file `where`."""
    level: list[Any] = [data]
    count = 0
    for _ in range(DEPTH):
        next_level: list[Any] = []
        for value in level:
            if not isinstance(value, dict | list):
                _check_scalar(value, where)
                continue
            count += len(value)
            if count > max_values:
                raise UsageError(f"{where} must have at most {max_values} values, found more")
            next_level += value
            next_level += value.values() if isinstance(value, dict) else ()
        if not next_level:
            return
        level = next_level
    raise UsageError(f"{where} must be at most {DEPTH} levels deep, found more")


def _check_scalar(value: Any, where: str) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{where} must be Unicode text, found half of a surrogate pair: "
                f"{value[error.start]!a}"
            ) from error
    # Not `> LARGEST`: comparisons with NaN are false.
    elif isinstance(value, int | float) and not abs(value) <= LARGEST:
        found = f"a number of {len(str(value))} digits" if isinstance(value, int) else str(value)
        raise UsageError(f"numbers of {where} must be finite and at most 1e100, found {found}")
