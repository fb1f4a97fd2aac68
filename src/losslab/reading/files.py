"""Text files (regular, of a limited size, UTF-8), numbers, and the limits of data in files."""

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

# Configuration: the longest file of the repository has 30 kB.
CONFIG_BYTES = 2**20
# Results: a manifest has some 10 kB, the longest table of a large campaign some 100 MB.
RESULT_BYTES = 2**26
TABLE_BYTES = 2**30
MARKS = {
    b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\xef\xbb\xbf": "a byte order mark",
}  # fmt: skip
# Tabs and ends of lines are text. No editor shows the others, and terminals obey some.
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
# No measured number has as many digits, and Python takes quadratic time for long ones.
NUMBER_LETTERS = 40
# No number has a meaning here beyond this; a float holds it, and its square.
LARGEST = 1e100
# Files of the project are 8 deep.
DEPTH = 64
SHOWN_LETTERS = 60


class UsageError(LosslabError):
    """The command line or an input file is wrong; nothing ran."""


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Raise errors of the block as `UsageError`: a user's input is to blame, not this run."""
    try:
        yield
    except (UsageError, HostError):
        raise
    except LosslabError as error:
        raise UsageError(error.message, hint=error.hint) from error


def read_text(path: Path, most_bytes: int = CONFIG_BYTES) -> str:
    """Read a regular text file of UTF-8; errors name line and byte."""
    data = _read_bytes(path, most_bytes)
    for mark, found in MARKS.items():
        if data.startswith(mark):
            raise UsageError(
                f"{path} must be UTF-8 without a byte order mark, found {found} at its beginning",
                hint="save it as UTF-8 without a mark (BOM)",
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


def _read_bytes(path: Path, most_bytes: int) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe waits for somebody who writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            kind = KINDS.get(stat.S_IFMT(os.fstat(descriptor).st_mode))
            if kind:
                raise UsageError(f"{path} must be a file, found {kind}")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(most_bytes + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise UsageError(f"{path} must exist, found no such file") from error
    except OSError as error:
        looped = error.errno == errno.ELOOP
        found = "a loop of symbolic links" if looped else error.strerror
        raise UsageError(f"{path} must be a readable file, found: {found}") from error
    except ValueError as error:  # a zero byte in the name
        raise UsageError(f"{str(path)!r} must be a file's name, found: {error}") from error
    if len(data) > most_bytes:
        raise UsageError(f"{path} must have at most {most_bytes} bytes, found more")
    return data


def shown(value: object) -> str:
    """Write a value for an error message: the beginning of a long one."""
    text = value if isinstance(value, str) else repr(value)
    short = text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."
    return short if short.isprintable() else repr(short)


def repeats(names: Iterable[str]) -> str:
    """List names that occur more than once; empty where none does."""
    found = sorted(name for name, count in Counter(names).items() if count > 1)
    return shown(", ".join(name or "''" for name in found)) if found else ""


def number(text: str, name: str = "a number") -> float:
    """Read a finite decimal number: `1`, `0.5`, `1e3`; not `nan`, `1_0` or `0x10`."""
    if len(text) <= NUMBER_LETTERS and NUMBER.fullmatch(text):
        value = float(text)
        if abs(value) <= LARGEST:
            return value
    raise UsageError(f"{name} must be a finite number, found {shown(text)}")


def whole(text: str, name: str = "a number") -> int:
    """Read a whole decimal number."""
    if len(text) <= NUMBER_LETTERS and WHOLE.fullmatch(text):
        return int(text)
    raise UsageError(f"{name} must be a whole number, found {shown(text)}")


def whole_option(name: str, least: int, most: int = 10**9) -> Callable[[str], int]:
    """Return the `type` of a command's option: whole numbers from `least` to `most`.

    `UsageError` passes through argparse, unlike the errors that it expects.
    """

    def read(text: str) -> int:
        value = whole(text, name)
        if not least <= value <= most:
            raise UsageError(f"{name} must be from {least} to {most}, found {value}")
        return value

    return read


def number_option(name: str, above: float) -> Callable[[str], float]:
    """Return the `type` of a command's option: finite numbers above `above`."""

    def read(text: str) -> float:
        value = number(text, name)
        if value <= above:
            raise UsageError(f"{name} must be above {above:g}, found {value:g}")
        return value

    return read


def check_data(data: Any, where: str, most: float = math.inf) -> None:
    """Check parsed dictionaries, lists and scalars: depth, their count, numbers and characters.

    `where` is the file, for errors.
    """
    level: list[Any] = [data]
    count = 0
    for _ in range(DEPTH):
        below: list[Any] = []
        for each in level:
            if not isinstance(each, dict | list):
                _check_scalar(each, where)
                continue
            count += len(each)
            if count > most:
                raise UsageError(f"{where} must have at most {most} values, found more")
            below += each
            below += each.values() if isinstance(each, dict) else ()
        if not below:
            return
        level = below
    raise UsageError(f"{where} must be at most {DEPTH} levels deep, found more")


def _check_scalar(value: Any, where: str) -> None:
    if isinstance(value, str):
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
