"""Kernels and images as archives, so that set-up takes them instead of building them.

An archive is called `KIND-HASH.tar.xz` after the hash of its recipe, and has beside it
`KIND-HASH.json`: its SHA-256, its size, and the provenance of what is in it.
LOSSLAB_INSTRUMENTS names the folder, or the http(s) address, where such files lie.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.archive import Fetcher, digest
from losslab.instrument.cache import ROOT, building

PLACE = "LOSSLAB_INSTRUMENTS"
KERNEL, IMAGE = "kernel", "image"
# What archives this repository vouches for: a row with the file's name and its SHA-256.
PINS = ROOT / "containers" / "instruments.tsv"
# In a folder that was taken from an archive: which one.
ORIGIN = "fetched.json"
# A megabyte a second is slow; silence for so long is none.
SILENCE_S = 30.0
# Of an image of 565 MB it makes 167 in two and a half minutes of a processor, once per release.
PACK = "xz -3 -T0"
# What a build's folder has that is of no use elsewhere.
LEFT_BEHIND = ("build.log", ORIGIN)


class _NotTakenError(LosslabError):
    """There is no such archive, or it is not what it should be."""


def pack(folder: Path, kind: str, out: Path) -> Path:
    """Write an archive of what is built, and what is known of it beside it.

    Args:
        folder: In the cache, named after the hash of its recipe.
        kind: `kernel` or `image`.
        out: The folder to write to.

    Returns:
        The archive.

    Raises:
        LosslabError: it is not pinned, or cannot be written.
    """
    provenance = _read(folder / "provenance.json")
    if not provenance.get("pinned", False) or provenance.get("hash") != folder.name:
        raise LosslabError(
            f"what is packed must be pinned and of today's recipe, found {folder} made of "
            f"{provenance.get('hash')}",
            hint="build it without LOSSLAB_UNPINNED and from Debian's source",
        )
    out.mkdir(parents=True, exist_ok=True)
    archive = out / f"{kind}-{folder.name}.tar.xz"
    with tempfile.TemporaryDirectory(prefix=".losslab-", dir=out) as name:
        partial = Path(name) / archive.name
        # Times to the nanosecond, nobody's names, and one order whatever the file system's.
        processes.run(
            [
                "tar", "--create", "--file", partial, "--use-compress-program", PACK,
                "--format", "pax", "--pax-option", "delete=atime,delete=ctime", "--sort", "name",
                "--owner", "0", "--group", "0", "--numeric-owner",
                *(f"--exclude={folder.name}/{name}" for name in LEFT_BEHIND),
                "--directory", folder.parent, folder.name,
            ]
        )  # fmt: skip
        partial.rename(archive)
    facts = {
        "kind": kind,
        "hash": folder.name,
        "sha256": digest(archive),
        "size_bytes": archive.stat().st_size,
        "provenance": provenance,
    }
    text = json.dumps(facts, indent=1, sort_keys=True) + "\n"
    archive.with_name(f"{kind}-{folder.name}.json").write_text(text)
    return archive


def install(kind: str, target: Path) -> bool:
    """Take what is wanted from where LOSSLAB_INSTRUMENTS names; tell whether it is there now.

    Why it is not is a note on stderr: it is built then.

    Args:
        kind: KERNEL or IMAGE.
        target: The folder in the cache, named after the hash of its recipe.
    """
    place = os.environ.get(PLACE, "")
    if not place:
        return False
    try:
        with building(target) as partial:
            if partial is not None:
                _take(place, kind, target.name, partial)
    except _NotTakenError as error:
        print(
            f"losslab: note: {kind} {target.name} is not taken from {place}: {error.message}",
            file=sys.stderr,
        )
        return False
    return True


def _take(place: str, kind: str, name: str, target: Path) -> None:
    """Get an archive, check it, and unpack it into `target`.

    Raises:
        _NotTakenError: it is not there, or not what it should be.
    """
    # In the cache, which has room, and under a name that the next build removes.
    with tempfile.TemporaryDirectory(prefix=f"{target.name}-", dir=target.parent) as folder:
        archive = _checked(place, kind, name, Path(folder))
        done = processes.attempt(
            ["tar", "--extract", "--xz", "--file", archive, "--directory", target,
             "--no-same-owner", "--preserve-permissions", "--strip-components", "1"],
            limit_s=processes.WORK_LIMIT_S,
        )  # fmt: skip
        if not done.good:
            # Its first line is the cause, as that there is no xz; its last that it ends.
            raise _NotTakenError((done.err.strip().splitlines() or [done.last_line])[0])
        found = digest(archive)
    try:
        provenance = _read(target / "provenance.json")
    except LosslabError as error:
        raise _NotTakenError(error.message) from error
    if provenance.get("hash") != name or not provenance.get("pinned", False):
        raise _NotTakenError(f"what is in it was made of {provenance.get('hash')}")
    origin = {"from": place, "sha256": found}
    (target / ORIGIN).write_text(json.dumps(origin, indent=1) + "\n")


def _checked(place: str, kind: str, name: str, folder: Path) -> Path:
    """Get an archive and what is said of it into `folder`; return it where that is so."""
    archive, facts = folder / "archive", folder / "facts"
    fetcher = Fetcher(SILENCE_S)
    for file, path in ((f"{kind}-{name}.json", facts), (f"{kind}-{name}.tar.xz", archive)):
        problem = _get(fetcher, place, file, path)
        if problem:
            raise _NotTakenError(f"{file}: {problem}")
    try:
        said = _read(facts)
        wanted, itself = str(said["sha256"]), (said["kind"], said["hash"])
    except (KeyError, LosslabError) as error:
        raise _NotTakenError(f"what is beside the archive says no sha256 ({error})") from error
    if itself != (kind, name):
        raise _NotTakenError(f"it says that it is {' '.join(itself)}")
    size, found = archive.stat().st_size, digest(archive)
    if found != wanted:
        raise _NotTakenError(
            f"the archive has {size} of {said.get('size_bytes')} bytes, sha256 {found[:12]}..., "
            f"wanted {wanted[:12]}..."
        )
    pinned = pins().get(f"{kind}-{name}.tar.xz", found)
    if found != pinned:
        raise _NotTakenError(f"sha256 {found[:12]}..., {PINS.name} has {pinned[:12]}...")
    return archive


def _get(fetcher: Fetcher, place: str, name: str, target: Path) -> str:
    """Copy a file from an address, or link to a folder's; return what went wrong, or nothing."""
    if place.startswith(("http://", "https://")):
        return fetcher.download(f"{place.rstrip('/')}/{name}", target)
    source = Path(place).expanduser() / name
    if not source.is_file():
        return "not there"
    target.symlink_to(source.resolve())
    return ""


def pins() -> dict[str, str]:
    """Read which archives this repository vouches for, by name."""
    if not PINS.is_file():
        return {}
    rows = [line.split("\t") for line in PINS.read_text().splitlines()[1:]]
    return {name: sha256 for name, sha256 in rows}


def write_pins(archives: Sequence[Path]) -> None:
    """Vouch for archives; those of other names stay as they are."""
    rows = pins() | {path.name: digest(path) for path in archives}
    lines = ["archive\tsha256", *(f"{name}\t{rows[name]}" for name in sorted(rows))]
    PINS.write_text("\n".join(lines) + "\n")


def _read(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        LosslabError: it is none.
    """
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise LosslabError(f"{path.name} must be JSON, found: {error}") from error
    if not isinstance(data, dict):
        raise LosslabError(f"{path.name} must be a JSON object, found {data!r}")
    return data
