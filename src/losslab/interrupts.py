"""Signal handling: a signal unwinds this process, which ends the programs that it started."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_noted: list[int] = []  # signals in their order of arrival
_held: list[int] = []  # per block of `held`, the number of signals noted before it


def unwind_on_signals() -> None:
    """Make SIGTERM and SIGINT unwind this process, which ends guests and cleans up."""
    _noted.clear()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note_and_raise)


def note_and_raise(number: int, _: FrameType | None) -> None:
    """Handle a signal: raise its exception, or note it until a block of `held` ends."""
    _noted.append(number)
    if not _held:
        heed()


def heed() -> None:
    """Raise a noted signal's SystemExit or KeyboardInterrupt again; long work calls it regularly.

    Python ignores exceptions that a signal raises in destructors and in callbacks, such as those of
    weak references during an import. Other threads end with SystemExit, of which it prints nothing.
    """
    if _noted:
        if _noted[0] == signal.SIGINT and _in_main_thread():
            raise KeyboardInterrupt
        sys.exit(128 + _noted[0])


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Delay the exceptions of signals until the end of the block.

    Python raises them in the main thread only, so that no other thread has to delay them.
    """
    if not _in_main_thread():
        yield
        return
    _held.append(len(_noted))
    try:
        yield
    finally:
        before = _held.pop()
    if len(_noted) > before and not _held:
        heed()


@contextlib.contextmanager
def ending_threads() -> Iterator[None]:
    """Make `heed` end other threads during the block."""
    _noted.append(signal.SIGTERM)
    try:
        yield
    finally:
        _noted.remove(signal.SIGTERM)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
