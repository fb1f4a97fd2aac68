"""Locks that the kernel releases when their holder exits or is killed.

The module also provides temporary folders with a lock: the next process removes those of killed
owners.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from losslab.errors import LosslabError


@contextlib.contextmanager
def locked(path: Path, waiting: str = "") -> Iterator[int]:
    """Lock a folder, or a file that is made if missing, for the length of the block.

    While another process holds it, print `waiting` and wait. Yields the lock's descriptor: the
    lock is held until all copies of it are closed.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
    descriptor = os.open(path, flags if path.is_dir() else flags | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                print(waiting, file=sys.stderr, flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def hold_for_life(folder: Path) -> None:
    """Lock a folder until this process ends; LosslabError if another process holds the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    # The kernel closes it when this process ends. Child processes do not inherit it.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise LosslabError(
            f"only one workflow may run in {folder.resolve().parent} at a time, found another",
            hint="wait until it ends, or choose another folder with --directory",
        ) from None


@contextlib.contextmanager
def own_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a folder in `parent` for the length of the block.

    Folders with this prefix whose owners were killed are removed; no other folder may have it.
    """
    sweep(parent, prefix)
    descriptor = None
    while descriptor is None:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            descriptor = _claim(path)
        except (BlockingIOError, FileNotFoundError):
            continue  # another process removed it before it was locked
        except OSError:
            break  # a file system without locks, where no process can remove it either
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
    """Remove folders of `own_folder` whose owners were killed; keep those in use."""
    for path in parent.iterdir():
        if path.name.startswith(prefix):
            with contextlib.suppress(OSError):
                descriptor = _claim(path)
                shutil.rmtree(path, ignore_errors=True)
                os.close(descriptor)


def _claim(path: Path) -> int:
    """Lock a folder; OSError if it is locked, missing, or on a file system without locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        # Root may open other users' folders.
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "another user's folder", str(path))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
