"""Signals that end this process: they unwind it, and what it started ends with it."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

_noted: list[int] = []  # signals, by their order
_held: list[int] = []  # per block of `held`, how many signals were noted when it began


def unwind_on_signals() -> None:
    """Let SIGTERM and SIGINT unwind this process, so that guests end and partial folders go."""
    _noted.clear()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note_and_raise)


def note_and_raise(number: int, _: FrameType | None) -> None:
    """Handle a signal: raise its exception, or note it for the end of a block."""
    _noted.append(number)
    if not _held:
        heed()


def heed() -> None:
    """Raise again what a signal raised: SystemExit or KeyboardInterrupt; called where work goes on.

    Python ignores exceptions in callbacks: of weak references, of which an import has many, and
    of objects that go.
    """
    if _noted:
        if _noted[0] == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + _noted[0])


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Delay the exception of a signal that arrives in the block until after it."""
    _held.append(len(_noted))
    try:
        yield
    finally:
        before = _held.pop()
    if len(_noted) > before and not _held:
        heed()
