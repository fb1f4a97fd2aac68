"""Verify that kernels and images are unchanged since their build.

The repository pins the digest of an image's tree (`containers/trees.tsv`). A kernel's binary
depends on the compiler: its digest is a file in the kernel's folder, and `same_in_campaign` records
it in the campaign's results.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

from losslab.errors import HostError, LosslabError
from losslab.instrument.cache import cache_folder
from losslab.instrument.fetch import digest
from losslab.reading import read_rows
from losslab.repository import ROOT, SET_UP

PINS = ROOT / "containers" / "trees.tsv"
PINS_COLUMNS = ("image", "recipe", "sha256")
# File in a kernel's folder: the SHA-256 of the finished `linux`.
LINUX_DIGEST = "linux.sha256"
# In an image's folder: its tree, and the list of its files.
TREE_ROOT, LIST = "root", "tree.tsv"
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

    `recipe` is the hash of the image's recipe; empty for an unpinned image.
    """
    text = listing(folder / TREE_ROOT)
    found = list_digest(text)
    _, pinned = pins().get(recipe, ("", found))
    if found != pinned:
        kept = cache_folder() / "image" / f"{recipe}.{LIST}"  # the build's own folder is removed
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(text)
        raise LosslabError(
            f"the tree of image {recipe} must have the SHA-256 {pinned[:DIGITS]}... from "
            f"{PINS.name}, found {found[:DIGITS]}...",
            hint=f"compare {kept} with the {LIST} of a machine that has the pinned tree",
        )
    (folder / LIST).write_text(text)


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
            f"{linux.parent} must have the pinned kernel and its digest, found: {error}", hint=hint
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

    A change of a file, its mode or a folder's entries makes it newer than the list, whose mtime
    counts: a hard link to the list (a copy of the cache) makes its ctime newer, too.
    """
    path = root.parent / LIST
    try:
        listed, since_ns = path.read_text(), path.stat().st_mtime_ns
    except (OSError, ValueError):
        listed, since_ns = "", 0
    expected = pins().get(root.parent.name, ("", list_digest(listed) if listed else ""))[1]
    if list_digest(listed) != expected:
        listed = ""
    elif not whole and unchanged(root, listed, since_ns):
        return expected
    try:
        now = listing(root)
        problems = differences(listed, now) if listed else []
        found = list_digest(now)
        if expected not in ("", found) and not problems:
            problems = [f"another tree (SHA-256 {found[:DIGITS]}...), and another {LIST}"]
    except (OSError, LosslabError) as error:
        problems = [str(error)]
    if problems:
        pinned = f" (SHA-256 {expected[:DIGITS]}...)" if expected else ""
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise HostError(
            f"the image in {root} must be unchanged since its build{pinned}, found: "
            f"{'; '.join(problems[:SHOWN])}{more}",
            hint=HINT.format(folder=root.parent),
        )
    with contextlib.suppress(OSError):  # another user's cache may be read-only
        partial = path.with_name(f".{LIST}.{os.getpid()}")
        partial.write_text(now)
        partial.rename(path)
    return found


COLUMNS = {"type": "type", "mode": "mode", "size_bytes": "size", "content": "content"}
HEAD = "\t".join((*COLUMNS, "path"))
SHOWN = 3  # paths in an error


def listing(root: Path) -> str:
    """List a tree: type, mode, size and content of each path, sorted by path.

    The content of a file is its SHA-256, that of a link its target. Owners and times are omitted,
    because they differ between builders and no result depends on them. Raises LosslabError for a
    device, a socket or a FIFO.
    """
    found = ["."]
    for folder, folders, files in os.walk(root):
        found += (os.path.relpath(os.path.join(folder, name), root) for name in folders + files)
    rows = [_row(root, path) for path in sorted(found, key=os.fsencode)]
    return "\n".join([HEAD, *rows]) + "\n"


def list_digest(text: str) -> str:
    """Return the digest of a tree from its list."""
    return hashlib.sha256(text.encode()).hexdigest()


def differences(before: str, now: str) -> list[str]:
    """Describe the paths that differ between two lists."""
    old, new = (
        {row.rpartition("\t")[2]: row.split("\t") for row in text.splitlines()[1:]}
        for text in (before, now)
    )
    found = []
    for path in sorted(old.keys() | new.keys()):
        if path not in new:
            found.append(f"{path} is missing")
        elif path not in old:
            found.append(f"{path} was added")
        elif old[path] != new[path]:
            pairs = zip(COLUMNS.values(), old[path], new[path], strict=False)
            what = " and ".join(name for name, one, other in pairs if one != other)
            found.append(f"{path} has another {what}")
    return found


def unchanged(root: Path, text: str, since_ns: int) -> bool:
    """Return whether nothing of a list has changed since a time, without reading files.

    A write to a file or a change of its mode changes its ctime; adding, removing or replacing a
    file or link changes that of its folder.
    """
    names = (row.rpartition("\t")[2] for row in text.splitlines()[1:])
    paths = (n.encode().decode("unicode_escape") if "\\" in n else n for n in names)
    try:
        return all(os.lstat(os.path.join(root, path)).st_ctime_ns < since_ns for path in paths)
    except OSError:  # one is missing
        return False


def _row(root: Path, path: str) -> str:
    place = os.path.join(root, path)
    status = os.lstat(place)
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    if stat.S_ISDIR(status.st_mode):
        cells = ("folder", mode, "-", "-")
    elif stat.S_ISLNK(status.st_mode):
        cells = ("link", "-", "-", _quoted(os.readlink(place)))
    elif stat.S_ISREG(status.st_mode):
        cells = ("file", mode, str(status.st_size), digest(Path(place)))
    else:
        raise LosslabError(
            "an image must have only files, folders and links, found a device, a socket or a FIFO: "
            f"{place}"
        )
    return "\t".join((*cells, _quoted(path)))


def _quoted(name: str) -> str:
    """Escape a name to one line of ASCII without tabs."""
    plain = name.isascii() and name.isprintable() and "\\" not in name
    return name if plain else name.encode("unicode_escape").decode()
