"""Unpack an archive of unknown origin: files, folders and links below one folder, nothing else."""

from __future__ import annotations

import lzma
import os
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from losslab.errors import LosslabError
from losslab.instrument.integrity import TREE_ROOT

BLOCK_BYTES = 2**20
# tarfile reads the headers of a member at once: a name, a link and a few times.
HEADER_BYTES = 2**20
# `xz -3` needs 5 MiB, `xz -9` 65.
MEMORY_BYTES = 128 * 2**20
# A time of a PAX header, to the nanosecond.
TIME = re.compile(r"(\d{1,11})(?:\.(\d{1,9})\d*)?")
NS_PER_S = 10**9
SPECIAL_BITS = 0o7000
# Whatever the archive says, nobody else may write.
ALLOWED_BITS = 0o755


class RefusedError(LosslabError):
    """An archive has something that is not unpacked."""


@dataclass(frozen=True)
class Limits:
    """Limits of an archive."""

    packed_bytes: int
    unpacked_bytes: int
    members: int


def unpack(archive: Path, target: Path, top: str, limits: Limits) -> None:
    """Unpack an archive (.tar.xz) into an existing folder, without its first folder.

    Links are made last, so that nothing is written through one. Below `root` they may name what
    is below `root` (an absolute target is one there, as the guest sees it); elsewhere there are
    none.

    Args:
        archive: The file.
        target: An empty folder.
        top: The name of the archive's first folder.
        limits: What it may have.

    Raises:
        RefusedError: it has something else, or too much; with the first such member.
    """
    try:
        with archive.open("rb") as packed:
            stream = _Unpacked(packed, limits.unpacked_bytes)
            with tarfile.open(fileobj=stream, mode="r:") as members:  # type: ignore[call-overload]
                _Unpacking(stream, target, top, limits.members).all_of(members)
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise RefusedError(f"the archive must be a .tar.xz, found: {error}") from error
    except (OSError, OverflowError, ValueError, RecursionError) as error:
        raise RefusedError(f"the archive must be one that can be unpacked, found: {error}") from (
            error
        )


class _Unpacking:
    """An archive that is being unpacked."""

    def __init__(self, stream: _Unpacked, target: Path, top: str, most: int) -> None:
        self._stream, self._target, self._top, self._most = stream, target, top, most
        self._links: list[tuple[Path, tarfile.TarInfo]] = []
        self._folders: list[tuple[Path, tarfile.TarInfo]] = []

    def all_of(self, members: tarfile.TarFile) -> None:
        """Unpack every member, then make the links, then date the folders."""
        for count, member in enumerate(members, 1):
            if count > self._most:
                raise RefusedError(f"the archive must have {self._most} members, found more")
            self._one(member)
        for path, member in self._links:
            path.symlink_to(member.linkname)
            _date(path, member)
        for path, member in reversed(self._folders):
            path.chmod(member.mode & ALLOWED_BITS)
            _date(path, member)

    def _one(self, member: tarfile.TarInfo) -> None:
        path = self._path(member.name)
        if member.mode & SPECIAL_BITS:
            raise RefusedError(
                f"no member may be setuid, setgid or sticky, found {member.name!a} "
                f"({member.mode & 0o7777:04o})"
            )
        if member.isdir():
            if path != self._target:
                path.mkdir()
            self._folders.append((path, member))
        elif member.issym():
            self._require_inside(member)
            self._links.append((path, member))
        elif member.islnk():
            source = self._path(member.linkname)
            if source.is_symlink() or not source.is_file():
                raise RefusedError(
                    f"a hard link must name a file before it, found {member.name!a} -> "
                    f"{member.linkname!a}"
                )
            os.link(source, path, follow_symlinks=False)
        elif member.isreg() and not member.issparse():
            self._write(path, member)
        else:
            raise RefusedError(
                "a member must be a file, a folder or a link, found a device, a FIFO or something "
                f"else: {member.name!a}"
            )

    def _path(self, name: str) -> Path:
        """Say where a member belongs."""
        path = PurePosixPath(name)
        if path.parts[:1] != (self._top,) or ".." in path.parts:
            raise RefusedError(f"every member must lie in the folder {self._top}, found {name!a}")
        return self._target.joinpath(*path.parts[1:])

    def _require_inside(self, member: tarfile.TarInfo) -> None:
        """Refuse a symbolic link that leaves the image's root."""
        parts = PurePosixPath(member.name).parts[1:]
        depth = len(parts) - 2 if parts[0] == TREE_ROOT else -1
        if member.linkname.startswith("/"):
            depth = min(depth, 0)
        for part in PurePosixPath(member.linkname).parts:
            if depth < 0:
                break
            depth += {"..": -1, "/": 0}.get(part, 1)
        if depth < 0:
            raise RefusedError(
                f"a link must stay within {TREE_ROOT}, found {member.name!a} -> {member.linkname!a}"
            )

    def _write(self, path: Path, member: tarfile.TarInfo) -> None:
        self._stream.seek(member.offset_data)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o600), "wb") as out:
            left = member.size
            while left:
                block = self._stream.read(min(left, BLOCK_BYTES))
                if not block:
                    raise EOFError(f"{member.name!a} ends early")
                out.write(block)
                left -= len(block)
            os.fchmod(out.fileno(), member.mode & ALLOWED_BITS)
        _date(path, member)


def _date(path: Path, member: tarfile.TarInfo) -> None:
    """Give a file the time that it had."""
    match = TIME.fullmatch(member.pax_headers.get("mtime", str(int(member.mtime))))
    if not match:
        raise RefusedError(f"a member must have a time, found {member.name!a} without")
    time_ns = int(match[1]) * NS_PER_S + int((match[2] or "0").ljust(9, "0"))
    os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)


class _Unpacked:
    """The content of a compressed file, read forward and no further than a limit."""

    def __init__(self, packed: BinaryIO, most_bytes: int) -> None:
        self._packed, self._most_bytes, self._at = packed, most_bytes, 0
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY_BYTES)

    def tell(self) -> int:
        """Return how much has been read."""
        return self._at

    def seek(self, position: int) -> int:
        """Go forward."""
        if position < self._at:
            raise RefusedError("an archive must be read forward, found a member that lies behind")
        while self._at < position and self.read(min(position - self._at, BLOCK_BYTES)):
            pass
        return self._at

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer only at the end."""
        if size > HEADER_BYTES:
            raise RefusedError(
                f"a member's headers must have {HEADER_BYTES} bytes at most, found {size}"
            )
        found = bytearray()
        while len(found) < size and not self._xz.eof:
            more = self._packed.read(BLOCK_BYTES) if self._xz.needs_input else b""
            if self._xz.needs_input and not more:
                raise EOFError("the archive ends early")
            found += self._xz.decompress(more, size - len(found))
        self._at += len(found)
        if self._at > self._most_bytes:
            raise RefusedError(
                f"what is in the archive must have {self._most_bytes} bytes at most, found more"
            )
        return bytes(found)
