"""Locks that the kernel releases when their holder exits or is killed.

The module also provides temporary folders with a lock and a mark: the next process removes those of
killed owners.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from losslab.errors import LosslabError

# File in each folder that losslab made and may remove, and the folder beside it for the content.
MARK, INNER = ".losslab-made", "files"
MADE_BY, INODE, MARK_BYTES = "losslab", "inode", 4096
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextlib.contextmanager
def locked(path: Path, waiting: str = "") -> Iterator[int]:
    """Lock a folder, or a file that is made if missing, for the length of the block.

    While another process holds it, print `waiting` and wait. Yields the lock's descriptor: the
    lock is held until all copies of it are closed.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | (0 if path.is_dir() else os.O_CREAT)
    descriptor = os.open(path, flags, 0o600)
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


def private(parent: Path) -> Path:
    """Make and return a folder in `parent` for locks that no other user can enter or replace."""
    folder = parent / f"losslab-locks-{os.geteuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):  # also for root, on a file system that is only readable
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), str(folder))
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise LosslabError(
            f"{folder} must be a folder of yours that no other user can enter, found another",
            hint="remove it, or set LOSSLAB_CACHE to a folder that only you can write to",
        )
    return folder


@contextlib.contextmanager
def taken(path: Path) -> Iterator[None]:
    """Hold a lock file during the block, and remove it; BlockingIOError if another process does."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have removed it after it was opened.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.lstat()):
                    break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
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
    """Make a folder for the length of the block, in a marked folder of `parent` with this prefix.

    Marked folders with this prefix whose owners were killed are removed.
    """
    sweep(parent, prefix)
    outer = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    descriptor = os.open(outer, FOLDER)
    try:
        # Without locks, no process can remove it either.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        mark(outer, prefix)
        inner = outer / INNER
        inner.mkdir(mode=0o700)
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)
        os.close(descriptor)


def mark(folder: Path, purpose: str) -> None:
    """Write the mark of a folder that losslab made and may remove."""
    facts = {
        "made_by": MADE_BY,
        "purpose": purpose,
        "pid": os.getpid(),
        INODE: folder.lstat().st_ino,
    }
    (folder / MARK).write_text(json.dumps(facts) + "\n")


def marked(folder: Path) -> bool:
    """Return whether a folder has the mark of `mark`; a copy of such a folder has it, too."""
    return bool(_facts(folder))


def _facts(folder: Path) -> dict[str, object]:
    try:
        with open(os.open(folder / MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            facts = json.loads(file.read(MARK_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) and facts.get("made_by") == MADE_BY else {}


def sweep(parent: Path, prefix: str) -> None:
    """Remove folders of `own_folder` whose owners were killed; keep those in use.

    A name is no proof: only the folder in which losslab wrote the mark is removed, no copy of it.
    """
    for path in parent.iterdir():
        if path.name.startswith(prefix):
            # OSError: it is locked, no longer there, or on a file system without locks.
            with contextlib.suppress(OSError):
                descriptor = os.open(path, FOLDER)
                try:
                    # Root may open other users' folders.
                    if os.fstat(descriptor).st_uid != os.geteuid():
                        continue
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _facts(path).get(INODE) == path.lstat().st_ino:
                        shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(descriptor)
