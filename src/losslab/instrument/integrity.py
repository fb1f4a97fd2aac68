"""Verify that kernels and images are what was built.

The digest of an image's tree is pinned in the repository (`containers/trees.tsv`), apart from the
image. A kernel's binary depends on the compiler: its digest lies beside it, and `same_in_campaign`
keeps another in the campaign's results.
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
from losslab.instrument.cache import ROOT
from losslab.reading import read_rows

PINS = ROOT / "containers" / "trees.tsv"
PINS_COLUMNS = ("image", "recipe", "sha256")
# In a kernel's folder, the SHA-256 of the finished `linux`.
LINUX_DIGEST = "linux.sha256"
# In an image's folder: its tree, the list of its files, and the fingerprints of trees that matched
# the list.
TREE_ROOT, LIST, VERIFIED = "root", "tree.tsv", "tree.verified"
LIST_BYTES = 64 * 2**20  # of 8,000 files it has one megabyte
HINT = "remove {folder} and run `make setup`; finished replicates are kept"
REPLACED_ON_PURPOSE = (
    "restore it; if you rebuilt it on purpose (another compiler gives another binary and the same "
    "results), remove {record} and start again"
)
DIGITS = 12  # of a digest in an error

# The digests that this process found first, which may not change between replicates, and when it
# last looked.
_first: dict[Path, str] = {}
_last_s: dict[Path, float] = {}


def require(
    linux: Path | None, image_roots: list[Path], whole: bool = False, recent_s: float = 0.0
) -> dict[Path, str]:
    """Return the digests of a kernel and of images; refuse what was changed since it was built.

    Args:
        linux: The kernel's binary; None where the machine's own kernel measures.
        image_roots: The root folders of images.
        whole: Read every file again, also where the file system says that nothing changed.
        recent_s: Skip an image that this process has verified within so many seconds.
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

    If the image was unpacked, its list is there already, and must agree. `recipe` is the hash of
    what it was made of; empty for an unpinned image.
    """
    text, path = tree.listing(folder / TREE_ROOT), folder / LIST
    if path.exists() and path.stat().st_size > LIST_BYTES:
        raise LosslabError(f"{LIST} must have {LIST_BYTES} bytes at most, found more")
    if path.exists() and (problems := tree.differences(path.read_text(), text)):
        raise LosslabError(f"the image must be as {LIST} lists it, found: {tree.shown(problems)}")
    found = tree.digest(text)
    _, pinned = pins().get(recipe, ("", found))
    if found != pinned:
        kept = folder.parent / f"{recipe}.{LIST}"
        kept.write_text(text)
        raise LosslabError(
            f"the tree of image {recipe} must have the SHA-256 {pinned[:DIGITS]}... of "
            f"{PINS.name}, found {found[:DIGITS]}...",
            hint=f"compare {kept} with the {LIST} of a machine that has the pinned tree",
        )
    path.write_text(text)


def pins() -> dict[str, tuple[str, str]]:
    """Read the pinned trees: image and SHA-256 by the hash of the recipe."""
    rows = read_rows(PINS, "\t", PINS_COLUMNS) if PINS.is_file() else []
    return {row["recipe"]: (row["image"], row["sha256"]) for row in rows}


def write_pins(rows: dict[str, tuple[str, str]]) -> None:
    """Write the pinned trees, as `pins` reads them."""
    lines = sorted(f"{name}\t{recipe}\t{sha256}" for recipe, (name, sha256) in rows.items())
    PINS.write_text("\n".join(["\t".join(PINS_COLUMNS), *lines]) + "\n")


def same_in_campaign(digests: dict[Path, str], records: Path) -> None:
    """Refuse a kernel or image that is not the one with which a campaign began.

    The campaign's folder `records` gets the first digest of each. LosslabError: there is no room or
    right to write there.
    """
    for path, found in digests.items():
        record = records / f"{path.parent.parent.name}-{path.parent.name}.sha256"
        try:
            records.mkdir(parents=True, exist_ok=True)
            expected = _first_written(record, found)
        except OSError as error:
            raise LosslabError(f"{record} must be a file to write to, found: {error}") from error
        if found != expected:
            raise HostError(
                f"{path} must be what this campaign began with (SHA-256 {expected[:DIGITS]}... in "
                f"{record}), found another ({found[:DIGITS]}...)",
                hint=REPLACED_ON_PURPOSE.format(record=record),
            )


def _first_written(record: Path, text: str) -> str:
    """Write a record unless it is there, whole or not at all; return its text."""
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
        wanted = (linux.parent / LINUX_DIGEST).read_text().strip()
        found = _hash(linux, *_identity(linux))
    except (OSError, ValueError) as error:
        raise HostError(
            f"the pinned kernel must be in {linux.parent} with its digest, found: {error}",
            hint=hint,
        ) from error
    wanted = _first.setdefault(linux, wanted)
    if found != wanted:
        raise HostError(
            f"{linux} must be the kernel that was built there (SHA-256 {wanted[:DIGITS]}...), "
            f"found another ({found[:DIGITS]}...)",
            hint=hint,
        )
    return found


def _identity(path: Path) -> tuple[int, ...]:
    """Return what tells that a file was changed, as a key of caches."""
    its = path.stat()
    return its.st_size, its.st_mtime_ns, its.st_ctime_ns, its.st_ino


@functools.lru_cache(maxsize=8)
def _hash(file: Path, *_: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _tree_digest(root: Path, whole: bool) -> str:
    """Return the digest of an image's tree; read its files unless their times are known.

    Without a pin, the first use decides.
    """
    folder = root.parent
    listed, paths = _listed(root)
    found = tree.digest(listed) if listed else ""
    expected = _first.get(root) or pins().get(folder.name, ("", found))[1]
    if found != expected:
        listed = ""
    before = _fingerprint(paths) if listed else ""
    if before and not whole and before in _verified(folder):
        return expected
    try:
        now = tree.listing(root)
        found = tree.digest(now)
        problems = tree.differences(listed, now) if listed else []
        if expected and found != expected and not problems:
            problems = [f"another tree (SHA-256 {found[:DIGITS]}...), and {LIST} lists another"]
    except (OSError, LosslabError) as error:
        problems = [str(error)]
    if problems:
        wanted = f" (SHA-256 {expected[:DIGITS]}...)" if expected else ""
        raise HostError(
            f"the image in {root} must be what was built{wanted}, found: {tree.shown(problems)}",
            hint=HINT.format(folder=folder),
        )
    with contextlib.suppress(OSError):  # a cache of another user is read each time
        if not listed:
            (folder / LIST).write_text(now)
        elif before and before == _fingerprint(paths):
            with (folder / VERIFIED).open("a") as file:
                file.write(f"{before}\n")
    return found


def _listed(root: Path) -> tuple[str, tuple[bytes, ...]]:
    """Return the list of an image's files, and those whose times are compared."""
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
    """Read the fingerprints that a tree had when it was as listed."""
    try:
        return (folder / VERIFIED).read_text().split()
    except (OSError, ValueError):
        return []


def _fingerprint(paths: Sequence[bytes]) -> str:
    try:
        return tree.fingerprint(paths)
    except OSError:  # one is missing
        return ""
