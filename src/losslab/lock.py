"""Locks on folders that the kernel takes back when their holder ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from losslab.errors import LosslabError


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder for the length of the block; wait while another process does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{folder}: another process measures here; waiting for its end", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def hold_for_life(folder: Path) -> None:
    """Hold a folder until this process ends.

    Raises:
        LosslabError: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Never closed: the kernel does it at the end of this process. Not inherited by its children.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise LosslabError(
            f"only one workflow may work in {folder.resolve().parent} at a time, found another",
            hint="wait for its end, or work in another folder with --directory",
        ) from None
