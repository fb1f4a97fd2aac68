"""Verify that kernels and images are unchanged since their build.

The repository pins the digest of an image's tree (`containers/trees.tsv`). A kernel's binary
depends on the compiler: its digest is a file in the kernel's folder, and `same_in_campaign` records
it in the campaign's results.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from losslab.errors import HostError, LosslabError
from losslab.instrument import tree
from losslab.instrument.archive import digest
from losslab.reading import read_rows
from losslab.repository import ROOT, SET_UP

PINS = ROOT / "containers" / "trees.tsv"
PINS_COLUMNS = ("image", "recipe", "sha256")
# File in a kernel's folder: the SHA-256 of the finished `linux`.
LINUX_DIGEST = "linux.sha256"
# In an image's folder: its tree, and the list of its files.
TREE_ROOT, LIST = "root", "tree.tsv"
LIST_BYTES = 64 * 2**20  # a list of 8,000 files has 1 MB
HINT = f"remove {{folder}} and run `{SET_UP}`; finished replicates are kept"
REPLACED_ON_PURPOSE = (
    "restore it; if you rebuilt it on purpose (another compiler builds another binary with the "
    "same results), remove {record} and start again"
)
DIGITS = 12  # of a digest in an error

_checked: dict[Path, str] = {}  # digests of what this process has checked


def require(
    linux: Path | None, image_roots: list[Path], whole: bool = False, again: bool = False
) -> dict[Path, str]:
    """Return the digests of a kernel and of images; refuse any changed since its build.

    `linux` is None if the machine's own kernel measures. Each is checked once in a process, or
    `again`. Files of an image are read if one is newer than the image's list, or with `whole`.
    """
    found = {}
    for path in [*([] if linux is None else [linux]), *image_roots]:
        if whole or again or path not in _checked:
            _checked[path] = _kernel_digest(path) if path == linux else _tree_digest(path, whole)
        found[path] = _checked[path]
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
        expected, found = (linux.parent / LINUX_DIGEST).read_text().strip(), digest(linux)
    except (OSError, ValueError) as error:
        raise HostError(
            f"{linux.parent} must have the pinned kernel and its digest, found: {error}",
            hint=hint,
        ) from error
    if found != expected:
        raise HostError(
            f"{linux} must be unchanged since its build (SHA-256 {expected[:DIGITS]}...), "
            f"found another ({found[:DIGITS]}...)",
            hint=hint,
        )
    return found


def _tree_digest(root: Path, whole: bool) -> str:
    """Return the digest of an image's tree; without a pin, the first list decides.

    A change of a file, its mode or a folder's entries makes it newer than the list.
    """
    path = root.parent / LIST
    try:
        listed, since_ns = path.read_text(), path.stat().st_ctime_ns
    except (OSError, ValueError):
        listed, since_ns = "", 0
    expected = pins().get(root.parent.name, ("", tree.digest(listed) if listed else ""))[1]
    if tree.digest(listed) != expected:
        listed = ""
    elif not whole and tree.unchanged(root, listed, since_ns):
        return expected
    try:
        now = tree.listing(root)
        problems = tree.differences(listed, now) if listed else []
        found = tree.digest(now)
        if expected not in ("", found) and not problems:
            problems = [f"another tree (SHA-256 {found[:DIGITS]}...), and another {LIST}"]
    except (OSError, LosslabError) as error:
        problems = [str(error)]
    if problems:
        pinned = f" (SHA-256 {expected[:DIGITS]}...)" if expected else ""
        raise HostError(
            f"the image in {root} must be unchanged since its build{pinned}, found: "
            f"{tree.shown(problems)}",
            hint=HINT.format(folder=root.parent),
        )
    with contextlib.suppress(OSError):  # another user's cache may be read-only
        partial = path.with_name(f".{LIST}.{os.getpid()}")
        partial.write_text(now)
        partial.rename(path)
    return found
