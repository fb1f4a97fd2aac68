"""List the files of a tree, one per line; the list's SHA-256 is the tree's digest."""

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

    The content of a file is its SHA-256, that of a link its target. Owners and times are omitted,
    because they differ between builders and no result depends on them. Raises LosslabError for a
    device, a socket or a FIFO.
    """
    top = os.fsencode(root)
    rows = [_row(top, path) for path in sorted(_paths(top))]
    return "\n".join([HEAD, *rows]) + "\n"


def digest(text: str) -> str:
    """Return the digest of a tree from its list."""
    return hashlib.sha256(text.encode()).hexdigest()


def differences(before: str, now: str) -> list[str]:
    """Describe the paths that differ between two lists."""
    old, new = _by_path(before), _by_path(now)
    return [
        f"{path} {_difference(old.get(path), new.get(path))}"
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]


def shown(problems: Sequence[str]) -> str:
    """Return the first differences and the number of others."""
    more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return "; ".join(problems[:SHOWN]) + more


def unchanged(root: Path, text: str, since_ns: int) -> bool:
    """Return whether nothing of a list has changed since a time, without reading files.

    A write to a file or a change of its mode changes its ctime; adding, removing or replacing a
    file or link changes that of its folder.
    """
    top = os.fsencode(root)
    paths = (_unquoted(row.rpartition("\t")[2]) for row in text.splitlines()[1:])
    try:
        return all(os.lstat(os.path.join(top, path)).st_ctime_ns < since_ns for path in paths)
    except OSError:  # one is missing
        return False


def links(text: str) -> list[tuple[bytes, bytes]]:
    """Return the path and the target of each symbolic link in a list."""
    rows = (row.split("\t") for row in text.splitlines()[1:])
    return [(_unquoted(row[-1]), _unquoted(row[-2])) for row in rows if row[0] == LINK]


def fingerprint(paths: Sequence[bytes]) -> str:
    """Hash the metadata of paths, without reading files. Raises OSError if a path is gone."""
    found = array.array("Q")
    for s in map(os.lstat, paths):
        found.extend((s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino))
    return hashlib.sha256(found.tobytes()).hexdigest()


def _paths(top: bytes) -> Iterator[bytes]:
    """Yield the root as `.` and all paths below it, without following links."""
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
    place = os.path.join(top, path)
    status = os.lstat(place)
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    if stat.S_ISDIR(status.st_mode):
        cells = (FOLDER, mode, NONE, NONE)
    elif stat.S_ISLNK(status.st_mode):
        cells = (LINK, NONE, NONE, _quoted(os.readlink(place)))
    elif stat.S_ISREG(status.st_mode):
        with open(place, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        cells = (FILE, mode, str(status.st_size), content)
    else:
        raise LosslabError(
            "an image must have only files, folders and links, found a device, a socket or a FIFO: "
            f"{os.fsdecode(place)}"
        )
    return "\t".join((*cells, _quoted(path)))


def _quoted(name: bytes) -> str:
    """Escape a name to one line of ASCII without tabs."""
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
