"""Locks that the kernel releases when their holder ends, however it ends.

Also folders that are in use only while their lock is held: the next process that makes one removes
those whose owner was killed. And files and folders at paths that other users can predict: another
user can neither redirect them nor hold their locks.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from losslab.errors import HostError, LosslabError

OTHERS = 0o077  # rights of the group and of everyone else


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
    """Hold a folder until this process ends; LosslabError if another process holds it."""
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
    """Make a folder in `parent` for the length of the block.

    Those of this prefix whose owners died are removed; nobody else's folders may have it.
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
    """Lock a folder; OSError if somebody holds it, it is gone, or it cannot be locked."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        # Root may open everybody's.
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "another user's folder", str(path))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def private_folder(path: Path) -> Iterator[int]:
    """Open a folder that only this user has rights to, made if missing, for the block.

    Use what lies in it relative to the descriptor, as `path` may name another folder by then.
    HostError: something else, or another user's folder, is at `path`.
    """
    with contextlib.suppress(FileExistsError), _explained(path, "folder"):
        path.mkdir(mode=0o700)
    descriptor = _open_own(path, "folder", os.O_RDONLY | os.O_DIRECTORY)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & OTHERS:
            raise HostError(
                f"{path} must have rights for no one else, found {mode:o}",
                hint=f"see what is in it, and remove it: rm -r {path}",
            )
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file of `open_lock` for the length of the block; wait while another does."""
    with os.fdopen(open_lock(path)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def open_lock(path: Path, folder: int | None = None) -> int:
    """Open a lock file, made if missing, for this user alone to lock.

    Its content is left alone. A link is not followed, and nothing waits for a pipe's other end.
    HostError: something else, or another user's file, is at `path`.

    Args:
        path: The file.
        folder: Its folder's descriptor, as of `private_folder`; found by its path by default.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = _open_own(path, "file", flags, folder)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) & OTHERS:  # who can read it can hold its lock
        os.fchmod(descriptor, 0o600)
    return descriptor


def _open_own(path: Path, kind: str, flags: int, folder: int | None = None) -> int:
    """Open a file or folder that belongs to this user; a link is not followed."""
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    with _explained(path, kind):
        descriptor = os.open(path if folder is None else path.name, flags, 0o600, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        if kind == "file" and not stat.S_ISREG(found.st_mode):
            raise HostError(f"{path} must be a file, found something else", hint=f"remove {path}")
        if found.st_uid != os.geteuid():
            raise HostError(
                f"{path} must belong to user {os.geteuid()}, found it belonging to user "
                f"{found.st_uid}",
                hint=f"see who made it, and remove it: rm -r {path}",
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def _explained(path: Path, kind: str) -> Iterator[None]:
    """Turn a failed system call on a predictable path into an error with a fix."""
    try:
        yield
    except FileExistsError:
        raise
    except (FileNotFoundError, PermissionError) as error:
        raise HostError(
            f"{path} must be a {kind} that this user can make and open, found: {error.strerror}",
            hint=f"see who owns {path} and {path.parent}, and with which rights",
        ) from error
    except OSError as error:
        raise HostError(
            f"{path} must be a {kind}, found: {error.strerror}",
            hint=f"see who made it, and remove it: rm {path}",
        ) from error
