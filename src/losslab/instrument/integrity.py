"""Verify that kernels and images are unchanged since their build.

The repository pins the digest of an image's tree (`containers/trees.tsv`). A kernel's binary
depends on the compiler: its digest is a file in the kernel's folder, and `same_in_campaign` records
it in the campaign's results.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from losslab.errors import HostError, LosslabError
from losslab.instrument import tree
from losslab.reading import read_rows
from losslab.repository import ROOT, SET_UP

PINS = ROOT / "containers" / "trees.tsv"
PINS_COLUMNS = ("image", "recipe", "sha256")
# File in a kernel's folder: the SHA-256 of the finished `linux`.
LINUX_DIGEST = "linux.sha256"
# In an image's folder: its tree, the list of its files, and fingerprints of the tree (file sizes,
# times, inodes) for which its content was verified.
TREE_ROOT, LIST, VERIFIED = "root", "tree.tsv", "tree.verified"
LIST_BYTES = 64 * 2**20  # a list of 8,000 files has 1 MB
HINT = f"remove {{folder}} and run `{SET_UP}`; finished replicates are kept"
REPLACED_ON_PURPOSE = (
    "restore it; if you rebuilt it on purpose (another compiler builds another binary with the "
    "same results), remove {record} and start again"
)
DIGITS = 12  # of a digest in an error

# The digests that this process found first, which may not change between replicates, and the time
# of its last check.
_first: dict[Path, str] = {}
_last_s: dict[Path, float] = {}


def require(
    linux: Path | None, image_roots: list[Path], whole: bool = False, recent_s: float = 0.0
) -> dict[Path, str]:
    """Return the digests of a kernel and of images; refuse any changed since its build.

    `linux` is None if the machine's own kernel measures. With `whole`, read every file again, even
    if its metadata is unchanged. Skip images that this process verified within `recent_s`.
    """
    found = {} if linux is None else {linux: _kernel_digest(linux)}
    for root in image_roots:
        if root not in _last_s or time.monotonic() - _last_s[root] >= recent_s:
            _first.setdefault(root, _tree_digest(root, whole))
            _last_s[root] = time.monotonic()
        found[root] = _first[root]
    return found


def record_tree(folder: Path, recipe: str) -> None:
    """Write the list of a new image's files; refuse a tree that is not the pinned one.

    An unpacked image already has a list, which must agree. `recipe` is the hash of the image's
    recipe; empty for an unpinned image.
    """
    text, path = tree.listing(folder / TREE_ROOT), folder / LIST
    if path.exists() and path.stat().st_size > LIST_BYTES:
        raise LosslabError(f"{LIST} must have {LIST_BYTES} bytes at most, found more")
    if path.exists() and (problems := tree.differences(path.read_text(), text)):
        raise LosslabError(f"the image must match its {LIST}, found: {tree.shown(problems)}")
    found = tree.digest(text)
    _, pinned = pins().get(recipe, ("", found))
    if found != pinned:
        kept = folder.parent / f"{recipe}.{LIST}"
        kept.write_text(text)
        raise LosslabError(
            f"the tree of image {recipe} must have the SHA-256 {pinned[:DIGITS]}... from "
            f"{PINS.name}, found {found[:DIGITS]}...",
            hint=f"compare {kept} with the {LIST} of a machine that has the pinned tree",
        )
    path.write_text(text)


def pins() -> dict[str, tuple[str, str]]:
    """Return the pinned trees: image and SHA-256 by the hash of the recipe."""
    rows = read_rows(PINS, "\t", PINS_COLUMNS) if PINS.is_file() else []
    return {row["recipe"]: (row["image"], row["sha256"]) for row in rows}


def write_pins(rows: dict[str, tuple[str, str]]) -> None:
    """Write the pinned trees in the format that `pins` reads."""
    lines = sorted(f"{name}\t{recipe}\t{sha256}" for recipe, (name, sha256) in rows.items())
    PINS.write_text("\n".join(["\t".join(PINS_COLUMNS), *lines]) + "\n")


def same_in_campaign(digests: dict[Path, str], records: Path) -> None:
    """Refuse a kernel or image other than the one with which a campaign began.

    The campaign's folder `records` keeps the first digest of each. Raises LosslabError if it cannot
    be written.
    """
    for path, found in digests.items():
        record = records / f"{path.parent.parent.name}-{path.parent.name}.sha256"
        try:
            records.mkdir(parents=True, exist_ok=True)
            expected = _first_written(record, found)
        except OSError as error:
            raise LosslabError(f"{record} must be writable, found: {error}") from error
        if found != expected:
            raise HostError(
                f"{path} must be the one that this campaign began with (SHA-256 "
                f"{expected[:DIGITS]}... in {record}), found another ({found[:DIGITS]}...)",
                hint=REPLACED_ON_PURPOSE.format(record=record),
            )


def _first_written(record: Path, text: str) -> str:
    """Write a record atomically unless it exists; return its text."""
    partial = record.with_name(f".{record.name}.{os.getpid()}")
    if not record.exists():
        partial.write_text(f"{text}\n")
        try:
            os.link(partial, record)
        except FileExistsError:
            pass  # another process was first
        finally:
            partial.unlink()
    return record.read_text().strip()


def _kernel_digest(linux: Path) -> str:
    hint = HINT.format(folder=linux.parent)
    try:
        expected = (linux.parent / LINUX_DIGEST).read_text().strip()
        found = _hash(linux, *_identity(linux))
    except (OSError, ValueError) as error:
        raise HostError(
            f"{linux.parent} must have the pinned kernel and its digest, found: {error}",
            hint=hint,
        ) from error
    expected = _first.setdefault(linux, expected)
    if found != expected:
        raise HostError(
            f"{linux} must be unchanged since its build (SHA-256 {expected[:DIGITS]}...), "
            f"found another ({found[:DIGITS]}...)",
            hint=hint,
        )
    return found


def _identity(path: Path) -> tuple[int, ...]:
    """Return a cache key that changes when the file changes."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


@functools.lru_cache(maxsize=8)
def _hash(file: Path, *_: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _tree_digest(root: Path, whole: bool) -> str:
    """Return the digest of an image's tree; skip reading files if their metadata is verified.

    An image without a pinned digest must keep the digest of its first use.
    """
    folder = root.parent
    list_text, paths = _list_and_paths(root)
    found = tree.digest(list_text) if list_text else ""
    expected = _first.get(root) or pins().get(folder.name, ("", found))[1]
    if found != expected:
        list_text = ""
    before = _fingerprint(paths) if list_text else ""
    if before and not whole and before in _verified(folder):
        return expected
    try:
        now = tree.listing(root)
        found = tree.digest(now)
        problems = tree.differences(list_text, now) if list_text else []
        if expected and found != expected and not problems:
            problems = [f"another tree (SHA-256 {found[:DIGITS]}...), and another {LIST}"]
    except (OSError, LosslabError) as error:
        problems = [str(error)]
    if problems:
        pinned = f" (SHA-256 {expected[:DIGITS]}...)" if expected else ""
        raise HostError(
            f"the image in {root} must be unchanged since its build{pinned}, found: "
            f"{tree.shown(problems)}",
            hint=HINT.format(folder=folder),
        )
    with contextlib.suppress(OSError):  # another user's cache may be read-only
        if not list_text:
            (folder / LIST).write_text(now)
        elif before and before == _fingerprint(paths):
            with (folder / VERIFIED).open("a") as file:
                file.write(f"{before}\n")
    return found


def _list_and_paths(root: Path) -> tuple[str, tuple[bytes, ...]]:
    """Return the list of an image's files, and the paths whose metadata is compared."""
    path = root.parent / LIST
    try:
        return _read_list(root, path, *_identity(path))
    except (OSError, ValueError):
        return "", ()


@functools.lru_cache(maxsize=4)
def _read_list(root: Path, path: Path, *_: int) -> tuple[str, tuple[bytes, ...]]:
    text = path.read_text()
    return text, tuple(tree.unlinked(root, text))


def _verified(folder: Path) -> list[str]:
    """Return the fingerprints for which the tree's content was verified."""
    try:
        return (folder / VERIFIED).read_text().split()
    except (OSError, ValueError):
        return []


def _fingerprint(paths: Sequence[bytes]) -> str:
    try:
        return tree.fingerprint(paths)
    except OSError:  # one is missing
        return ""
