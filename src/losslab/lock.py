"""Locks on folders that the kernel takes back when their holder ends, however it ends.

Also folders that are in use only while their lock is held: the next who makes one removes those
whose owner was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
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


@contextlib.contextmanager
def own_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Give a new folder for the length of the block; remove those of this prefix that died.

    Args:
        parent: Where to make it.
        prefix: What its name begins with; nobody else's may.
    """
    sweep(parent, prefix)
    descriptor = None
    while descriptor is None:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            descriptor = _claim(path)
        except (BlockingIOError, FileNotFoundError):
            continue  # another's sweep took it for one that died
        except OSError:
            break  # a file system without locks: nobody can sweep there either
        if not path.is_dir():
            os.close(descriptor)
            descriptor = None
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def sweep(parent: Path, prefix: str) -> None:
    """Remove folders made by `own_folder` whose owners have died; others' are left."""
    for path in parent.iterdir():
        if path.name.startswith(prefix):
            with contextlib.suppress(OSError):
                descriptor = _claim(path)
                shutil.rmtree(path, ignore_errors=True)
                os.close(descriptor)


def _claim(path: Path) -> int:
    """Lock a folder.

    Raises:
        OSError: somebody holds it, it is gone, or it cannot be locked.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
