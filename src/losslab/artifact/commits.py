"""Compute git's digests without git, to check that sources are those of a commit.

A commit's name is the hash of its text, which holds the hash of its tree, which holds those of all
files (git-hash-object(1), "Git Internals - Git Objects" in Pro Git).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

# Modes that git records.
FOLDER, FILE, PROGRAM, LINK = b"40000", b"100644", b"100755", b"120000"
# Hash algorithm by the number of digits: SHA-1, or SHA-256 in repositories that use it.
ALGORITHMS = {40: "sha1", 64: "sha256"}
NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def name_of(kind: str, content: bytes, digits: int) -> str:
    """Return the name that git gives an object."""
    found = hashlib.new(ALGORITHMS[digits], usedforsecurity=False)
    found.update(b"%s %d\0" % (kind.encode(), len(content)) + content)
    return found.hexdigest()


def tree_of(root: Path, paths: Iterable[Path], digits: int) -> str:
    """Return git's name of a tree of files.

    `paths`: files and symbolic links, relative to `root`.
    """
    inside: dict[str, list[Path]] = {}
    entries: list[tuple[bytes, bytes, str]] = []  # name to sort by, mode and name, object
    for path in paths:
        first, *rest = path.parts
        if rest:
            inside.setdefault(first, []).append(Path(*rest))
        else:
            mode, content = _file(root / first)
            name = os.fsencode(first)
            entries.append((name, mode + b" " + name, name_of("blob", content, digits)))
    for first, files in inside.items():
        name = os.fsencode(first)
        entries.append((name + b"/", FOLDER + b" " + name, tree_of(root / first, files, digits)))
    content = b"".join(
        entry + b"\0" + bytes.fromhex(digest) for _, entry, digest in sorted(entries)
    )
    return name_of("tree", content, digits)


def _file(path: Path) -> tuple[bytes, bytes]:
    """Return a file's mode and content as git has them."""
    if path.is_symlink():
        return LINK, os.fsencode(os.readlink(path))
    return (PROGRAM if path.stat().st_mode & 0o100 else FILE), path.read_bytes()


def commit_problem(name: str, text: bytes, root: Path, paths: Iterable[Path]) -> str:
    """Return why files are not those of a commit, or an empty string.

    `text`: the commit's content, as `git cat-file commit` prints it.
    """
    if not NAME.fullmatch(name):
        return f"a commit's name must have 40 or 64 hexadecimal digits, found {name[:70]!r}"
    if name_of("commit", text, len(name)) != name:
        return f"another commit than {name}"
    tree = text.partition(b"\n")[0].removeprefix(b"tree ").decode(errors="replace")
    if tree_of(root, paths, len(name)) != tree:
        return f"other files than those of commit {name}"
    return ""
