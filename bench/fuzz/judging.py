"""Test of a reader with one input."""

from __future__ import annotations

import contextlib
import math
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from losslab.reading import UsageError

# CPU time for one input; the slowest valid ones take 0.1 s.
LIMIT_S = 5.0
ACCEPTED, REFUSED = "accepted", "refused"
# Control characters that a terminal would interpret.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class ViolationError(AssertionError):
    """Neither a correct acceptance nor a refusal with a `UsageError`."""


@dataclass(frozen=True)
class Reader:
    """A reader of losslab.

    Attributes:
        name: Name in tables and for `--only`.
        seeds: Valid inputs.
        read: Reads an input and returns the result.
        check: Raises an AssertionError if the result is outside the declared ranges.
        form: `json`, `yaml` or `text`.
    """

    name: str
    seeds: Sequence[bytes]
    read: Callable[[bytes], Any]
    check: Callable[[Any], None]
    form: str = "text"


def judge(reader: Reader, data: bytes) -> str:
    """Return ACCEPTED or REFUSED.

    Raises:
        ViolationError: The reader did something else; the message has the input.
    """
    try:
        with _cpu_limit():
            value = reader.read(data)
            reader.check(value)
    except UsageError as error:
        if CONTROL.search(str(error)) is None:
            return REFUSED
        raise ViolationError(f"{reader.name}: a control character in {error}") from error
    except Exception as error:
        raise ViolationError(f"{reader.name}: {error!r:.500} of {data!r:.2000}") from error
    return ACCEPTED


@contextlib.contextmanager
def _cpu_limit() -> Iterator[None]:
    """Raise a TimeoutError in the block after LIMIT_S of this process's CPU time."""

    def late(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"more than {LIMIT_S:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def require_finite(value: Any) -> None:
    """Check that all numbers of data are finite, and all text can be written as UTF-8."""
    if isinstance(value, dict):
        for key, each in value.items():
            require_finite(key)
            require_finite(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            require_finite(each)
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, float):
        assert math.isfinite(value), f"{value} is not finite"
