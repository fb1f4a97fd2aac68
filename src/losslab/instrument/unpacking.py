"""Unpack an untrusted archive of files, folders and links below one folder.

tarfile's own filters refuse absolute links. An image has such links: its guest resolves them in its
own root.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from losslab.errors import LosslabError
from losslab.instrument.integrity import TREE_ROOT

BLOCK_BYTES = 2**20
# Limit of a member's headers (name, link, times), which tarfile reads at once.
HEADER_BYTES = 2**20
# Level 9 needs 4 MiB.
WINDOW_BYTES = 128 * 2**20
SPECIAL_BITS = 0o7000
# Permissions of unpacked files: only the owner may write.
ALLOWED_BITS = 0o755
# Steps to resolve a link: more than any path has whose links are no loop.
MAX_STEPS = 1000


class RefusedError(LosslabError):
    """An archive contains a member that losslab does not unpack."""


@dataclass(frozen=True)
class Limits:
    """Size limits of an archive."""

    packed_bytes: int
    unpacked_bytes: int
    members: int


def unpack(archive: Path, target: Path, top: str, limits: Limits) -> None:
    """Unpack an archive (.tar.zst) into an empty folder, without its first folder, `top`.

    Symbolic links are made last, so that nothing is written through one. They are allowed only
    below `root`, and must stay there, also through other links; an absolute target starts at
    `root`, as in the guest. Raises RefusedError with the first refused member, or if a limit is
    exceeded.
    """
    # Imported here: every cell imports this module, and few pack or unpack.
    import zstandard

    try:
        with archive.open("rb") as packed:
            stream = _Unpacked(packed, limits.unpacked_bytes)
            with tarfile.open(fileobj=stream, mode="r:") as members:  # type: ignore[call-overload]
                _unpack_all(members, stream, target.resolve(), top, limits.members)
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise RefusedError(f"the archive must be a .tar.zst, found: {error}") from error
    except (OSError, OverflowError, ValueError, RecursionError) as error:
        raise RefusedError(f"the archive must be unpackable, found: {error}") from (error)


def _unpack_all(
    members: tarfile.TarFile, stream: _Unpacked, target: Path, top: str, max_members: int
) -> None:
    """Unpack all members, then make symbolic links, then set the folders' times."""

    def place(name: str) -> Path:
        parts = PurePosixPath(name).parts
        if parts[:1] != (top,) or ".." in parts:
            raise RefusedError(f"every member must be in the folder {top}, found {name!a}")
        return target.joinpath(*parts[1:])

    links, folders = [], []
    for count, member in enumerate(members, 1):
        if count > max_members:
            raise RefusedError(f"the archive must have {max_members} members at most, found more")
        path = place(member.name)
        if member.mode & SPECIAL_BITS:
            raise RefusedError(
                f"no member may be setuid, setgid or sticky, found {member.name!a} "
                f"({member.mode & 0o7777:04o})"
            )
        if member.isdir():
            if path != target:
                path.mkdir()
            folders.append((path, member))
        elif member.issym():
            links.append((path, member))
        elif member.islnk():
            source = place(member.linkname)
            if source.is_symlink() or not source.is_file():
                raise RefusedError(
                    f"a hard link must name an earlier file, found {member.name!a} -> "
                    f"{member.linkname!a}"
                )
            os.link(source, path, follow_symlinks=False)
        elif member.isreg() and not member.issparse():
            _write(path, member, stream)
        else:
            raise RefusedError(
                "a member must be a file, a folder or a link, found a device, a FIFO or something "
                f"else: {member.name!a}"
            )
    _make_links(links, target / TREE_ROOT)
    for path, member in reversed(folders):
        path.chmod(member.mode & ALLOWED_BITS)
        _date(path, member)


def _make_links(links: Sequence[tuple[Path, tarfile.TarInfo]], root: Path) -> None:
    """Make symbolic links; refuse one that leaves `root`, or whose folder is a link."""
    for path, member in links:
        if os.path.realpath(path.parent) != str(path.parent):
            raise RefusedError(f"nothing may be written through a link, found {member.name!a}")
        path.symlink_to(member.linkname)
        _date(path, member)
    for path, member in links:
        if not _inside(path, root):
            raise RefusedError(
                f"a link must stay within {TREE_ROOT}, found {member.name!a} -> {member.linkname!a}"
            )


def _inside(link: Path, root: Path) -> bool:
    """Return whether a symbolic link stays below `root`, through all links that it passes.

    Its path is resolved step by step, as the host and the guest do: an absolute target starts at
    `root`, and no step may leave it.
    """
    if not link.is_relative_to(root) or link == root:
        return False
    at, left = root, list(link.relative_to(root).parts)
    for _ in range(MAX_STEPS):
        if not left:
            return True
        step = left.pop(0)
        if step == "..":
            if at == root:
                return False
            at = at.parent
        elif (at / step).is_symlink():
            to = os.readlink(at / step)
            at = root if to.startswith("/") else at
            left = [*(part for part in PurePosixPath(to).parts if part != "/"), *left]
        else:
            at /= step
    return False


def _write(path: Path, member: tarfile.TarInfo, stream: _Unpacked) -> None:
    stream.seek(member.offset_data)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o600), "wb") as out:
        left = member.size
        while left:
            block = stream.read(min(left, BLOCK_BYTES))
            out.write(block)
            left -= len(block)
        os.fchmod(out.fileno(), member.mode & ALLOWED_BITS)
    _date(path, member)


def _date(path: Path, member: tarfile.TarInfo) -> None:
    os.utime(path, (member.mtime, member.mtime), follow_symlinks=False)


class _Unpacked:
    """Forward-only stream of a compressed file's content, up to a limit."""

    def __init__(self, packed: BinaryIO, max_bytes: int) -> None:
        import zstandard

        decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        self._stream = decompressor.stream_reader(packed)
        self._max_bytes, self._at = max_bytes, 0

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._at

    def seek(self, position: int) -> int:
        """Move forward to a position."""
        if position < self._at:
            raise RefusedError(
                "an archive's members must be in order, found one that starts in an earlier one"
            )
        while self._at < position:
            self.read(min(position - self._at, BLOCK_BYTES))
        return self._at

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; EOFError if there are fewer."""
        if size > HEADER_BYTES:
            raise RefusedError(
                f"a member's headers must have {HEADER_BYTES} bytes at most, found {size}"
            )
        found = self._stream.read(size)
        if len(found) < size:
            raise EOFError("the archive ends early")
        self._at += len(found)
        if self._at > self._max_bytes:
            raise RefusedError(
                f"the archive's content must have {self._max_bytes} bytes at most, found more"
            )
        return found
