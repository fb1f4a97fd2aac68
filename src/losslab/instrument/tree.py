"""List every file of a tree, one line each; the SHA-256 of the list is the tree's digest."""

from __future__ import annotations

import array
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from losslab.errors import LosslabError

COLUMNS = {"type": "type", "mode": "mode", "size_bytes": "size", "content": "content"}
HEAD = "\t".join((*COLUMNS, "path"))
FOLDER, FILE, LINK, NONE = "folder", "file", "link", "-"
SHOWN = 3  # paths in an error


def listing(root: Path) -> str:
    """List a tree: type, mode, size and content of each path, sorted by path.

    The content of a file is its SHA-256, that of a link its target. Owners and times are left out:
    they differ between builders, and no result depends on them. LosslabError: there is a device, a
    socket or a FIFO.
    """
    top = os.fsencode(root)
    rows = [_row(top, path) for path in sorted(_paths(top))]
    return "\n".join([HEAD, *rows]) + "\n"


def digest(text: str) -> str:
    """Return the digest of a tree, given its list."""
    return hashlib.sha256(text.encode()).hexdigest()


def differences(before: str, now: str) -> list[str]:
    """List the paths in which two lists differ, and how."""
    then, found = _by_path(before), _by_path(now)
    return [
        f"{path} {_difference(then.get(path), found.get(path))}"
        for path in sorted(then.keys() | found.keys())
        if then.get(path) != found.get(path)
    ]


def shown(problems: Sequence[str]) -> str:
    """Quote the first of some differences and count the others."""
    more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return "; ".join(problems[:SHOWN]) + more


def unlinked(root: Path, text: str) -> list[bytes]:
    """Return the folders and files of a list, below `root`: what `fingerprint` looks at."""
    top = os.fsencode(root)
    rows = text.splitlines()[1:]
    return [
        os.path.join(top, _unquoted(row.rpartition("\t")[2]))
        for row in rows
        if not row.startswith(LINK)
    ]


def fingerprint(paths: Sequence[bytes]) -> str:
    """Hash what the file system says of paths, without reading files.

    A write to a file or a change of its mode changes its ctime; adding, removing or replacing a
    file or link changes that of its folder. OSError: a path is gone.
    """
    found = array.array("Q")
    for its in map(os.lstat, paths):
        found.extend((its.st_mode, its.st_size, its.st_mtime_ns, its.st_ctime_ns, its.st_ino))
    return hashlib.sha256(found.tobytes()).hexdigest()


def _paths(top: bytes) -> Iterator[bytes]:
    """List what is below a root, and the root itself as `.`; links are not followed."""
    waiting = [b"."]
    while waiting:
        folder = waiting.pop()
        yield folder
        with os.scandir(os.path.join(top, folder)) as entries:
            for entry in entries:
                path = entry.name if folder == b"." else os.path.join(folder, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                else:
                    yield path


def _row(top: bytes, path: bytes) -> str:
    """Describe a path in one line."""
    place = os.path.join(top, path)
    its = os.lstat(place)
    mode = f"{stat.S_IMODE(its.st_mode):04o}"
    if stat.S_ISDIR(its.st_mode):
        cells = (FOLDER, mode, NONE, NONE)
    elif stat.S_ISLNK(its.st_mode):
        cells = (LINK, NONE, NONE, _quoted(os.readlink(place)))
    elif stat.S_ISREG(its.st_mode):
        with open(place, "rb") as file:
            cells = (FILE, mode, str(its.st_size), hashlib.file_digest(file, "sha256").hexdigest())
    else:
        raise LosslabError(
            "an image must have files, folders and links only, found a device, a socket or a FIFO: "
            f"{os.fsdecode(place)}"
        )
    return "\t".join((*cells, _quoted(path)))


def _quoted(name: bytes) -> str:
    """Write a name in one line of ASCII, without tabs."""
    text = name.decode(errors="surrogateescape")
    plain = text.isascii() and text.isprintable() and "\\" not in text
    return text if plain else text.encode("unicode_escape").decode()


def _unquoted(text: str) -> bytes:
    if "\\" in text:
        text = text.encode().decode("unicode_escape")
    return text.encode(errors="surrogateescape")


def _by_path(text: str) -> dict[str, list[str]]:
    rows = [row.split("\t") for row in text.splitlines()[1:]]
    return {row[-1]: row[:-1] for row in rows}


def _difference(before: list[str] | None, now: list[str] | None) -> str:
    if now is None:
        return "is missing"
    if before is None:
        return "was added"
    pairs = zip(COLUMNS.values(), before, now, strict=False)
    return f"has another {' and '.join(name for name, old, new in pairs if old != new)}"
