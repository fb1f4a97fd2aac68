"""Text files: regular, of a limited size, and UTF-8."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from losslab.errors import HostError, LosslabError

# Configuration: the longest file of the repository has 30 kB.
CONFIG_BYTES = 2**20
# Results: a manifest has some 10 kB, the longest table of a large campaign some 100 MB.
RESULT_BYTES = 2**26
TABLE_BYTES = 2**30
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF_8_MARK = b"\xef\xbb\xbf"
# Tabs and ends of lines are text. No editor shows the others, and terminals obey some.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class UsageError(LosslabError):
    """The command line or an input file is wrong; nothing ran."""


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Raise errors of the block as `UsageError`: what a person wrote is to blame, not this run."""
    try:
        yield
    except (UsageError, HostError):
        raise
    except LosslabError as error:
        raise UsageError(error.message, hint=error.hint) from error


def read_text(path: Path, most_bytes: int = CONFIG_BYTES) -> str:
    """Read a text file.

    Args:
        path: The file.
        most_bytes: The largest size that is accepted.

    Raises:
        UsageError: it is missing, no regular file, too large or not UTF-8; with line and byte.
    """
    data = _read_bytes(path, most_bytes)
    if data.startswith(UTF_16_MARKS) or data.startswith(UTF_8_MARK):
        found = "a byte order mark" if data.startswith(UTF_8_MARK) else "UTF-16"
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
            mode = os.fstat(descriptor).st_mode
            for is_kind, name in KINDS:
                if is_kind(mode):
                    raise UsageError(f"{path} must be a file, found {name}")
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
