"""Locks that the kernel releases when their holder exits or is killed.

The module also provides temporary folders with a lock (the next process removes those of killed
owners), and files and folders at predictable paths that other users can neither redirect nor lock.
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

OTHERS = 0o077  # permissions of the group and of others


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a folder for the length of the block; wait while another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{folder}: waiting for another process that measures here", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
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


@contextlib.contextmanager
def private_folder(path: Path) -> Iterator[int]:
    """Open a folder that only this user may access, and make it if missing; yield a descriptor.

    Open its files relative to the descriptor, because `path` may name another folder later.

    Raises:
        HostError: `path` is no folder, or another user's.
    """
    with contextlib.suppress(FileExistsError), _explained(path, "folder"):
        path.mkdir(mode=0o700)
    descriptor = _open_own(path, "folder", os.O_RDONLY | os.O_DIRECTORY)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & OTHERS:
            raise HostError(
                f"{path} must be private to this user (mode 700), found mode {mode:o}",
                hint=f"check its content, and remove it: rm -r {path}",
            )
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the file of `open_lock` for the length of the block; wait while another process does."""
    with os.fdopen(open_lock(path)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def open_lock(path: Path, folder: int | None = None) -> int:
    """Open a lock file that only this user can lock, and make it if missing.

    Its content is not changed, links are not followed, and a named pipe does not block.

    Args:
        path: The file.
        folder: Descriptor of its folder from `private_folder`; by default `path` is opened.

    Raises:
        HostError: `path` is no file, or another user's.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = _open_own(path, "file", flags, folder)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) & OTHERS:  # readers could hold its lock
        os.fchmod(descriptor, 0o600)
    return descriptor


def _open_own(path: Path, kind: str, flags: int, folder: int | None = None) -> int:
    """Open this user's file or folder without following links."""
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    with _explained(path, kind):
        descriptor = os.open(path if folder is None else path.name, flags, 0o600, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        if kind == "file" and not stat.S_ISREG(found.st_mode):
            raise HostError(f"{path} must be a file, found something else", hint=f"remove {path}")
        if found.st_uid != os.geteuid():
            raise HostError(
                f"{path} must belong to user {os.geteuid()}, found user {found.st_uid}",
                hint=f"check its owner, and remove it: rm -r {path}",
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
            hint=f"check owner and permissions of {path} and {path.parent}",
        ) from error
    except OSError as error:
        raise HostError(
            f"{path} must be a {kind}, found: {error.strerror}",
            hint=f"check its owner, and remove it: rm {path}",
        ) from error
