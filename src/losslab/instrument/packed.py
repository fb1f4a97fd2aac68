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
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import integrity
from losslab.instrument.archive import Fetcher, digest
from losslab.instrument.cache import ROOT, building
from losslab.instrument.unpacking import Limits, unpack

PLACE = "LOSSLAB_INSTRUMENTS"
KERNEL, IMAGE = "kernel", "image"
# What archives this repository vouches for: a row with the file's name and its SHA-256.
PINS = ROOT / "containers" / "instruments.tsv"
# In a folder that was taken from an archive: which one.
ORIGIN = "fetched.json"
# Silence for so long is no answer.
SILENCE_S = 30.0
# Several times what kernels (3 MB, 9 unpacked) and images (170 MB, 600 unpacked, 9,000 files) have.
LIMITS = {
    KERNEL: Limits(packed_bytes=64 * 2**20, unpacked_bytes=256 * 2**20, members=100),
    IMAGE: Limits(packed_bytes=2**30, unpacked_bytes=4 * 2**30, members=100_000),
}
# Of what is said of an archive, and of what is known of its content.
FACTS_BYTES = 2**18
LONGEST = 200  # of what an error quotes
# What they say, each of these and nothing else; lists and objects have texts. What is said of the
# provenance beside an archive is for readers: that in the archive counts.
FACTS = {"kind": str, "hash": str, "sha256": str, "size_bytes": int, "provenance": object}
PROVENANCE: dict[str, dict[str, type]] = {
    KERNEL: {
        "version": str, "hash": str, "pinned": bool, "source": dict, "patches": list,
        "config_sha256": str,
    },
    IMAGE: {
        "suite": str, "hash": str, "pinned": bool, "packages_sha256": str, "packages": dict,
    },
}  # fmt: skip
# What some of them say, too.
MORE: dict[str, dict[str, type]] = {
    KERNEL: {"name": str, "algorithms": dict},
    IMAGE: {"containernet": str},
}
# Of an image of 565 MB it makes 167 in two and a half minutes of a processor, once per release.
PACK = "xz -3 -T0"
# What a build's folder has that is of no use elsewhere.
LEFT_BEHIND = ("build.log", ORIGIN, integrity.VERIFIED)


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
    provenance = _read(folder / "provenance.json", PROVENANCE[kind], MORE[kind])
    if not provenance.get("pinned", False) or provenance.get("hash") != folder.name:
        raise LosslabError(
            f"what is packed must be pinned and of today's recipe, found {folder} made of "
            f"{provenance.get('hash')}",
            hint="build it without LOSSLAB_UNPINNED and from Debian's source",
        )
    _verify(kind, folder)
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
        found = digest(archive)
        try:
            unpack(archive, target, name, LIMITS[kind])
            provenance = _read(target / "provenance.json", PROVENANCE[kind], MORE[kind])
            if provenance["hash"] != name or not provenance["pinned"]:
                raise _NotTakenError(f"what is in it was made of {provenance['hash'][:LONGEST]!a}")
            if kind == IMAGE:
                integrity.record_tree(target, name)
            else:
                _verify(kind, target)
        except (OSError, LosslabError) as error:
            raise _NotTakenError(getattr(error, "message", str(error))) from error
    origin = {"from": place, "sha256": found}
    (target / ORIGIN).write_text(json.dumps(origin, indent=1) + "\n")


def _checked(place: str, kind: str, name: str, folder: Path) -> Path:
    """Get an archive and what is said of it into `folder`; return it where that is so."""
    archive, facts = folder / "archive", folder / "facts"
    fetcher = Fetcher(SILENCE_S)
    _get(fetcher, place, f"{kind}-{name}.json", facts, FACTS_BYTES)
    try:
        said = _read(facts, FACTS)
    except LosslabError as error:
        raise _NotTakenError(f"{kind}-{name}.json: {error.message}") from error
    wanted, size = said["sha256"], said["size_bytes"]
    if (said["kind"], said["hash"]) != (kind, name):
        raise _NotTakenError(
            f"it says that it is {said['kind'][:LONGEST]!a} {said['hash'][:LONGEST]!a}"
        )
    if not 0 < size <= LIMITS[kind].packed_bytes:
        raise _NotTakenError(
            f"a packed {kind} must have {LIMITS[kind].packed_bytes} bytes at most, its JSON says "
            f"{size}"
        )
    _get(fetcher, place, f"{kind}-{name}.tar.xz", archive, size)
    found = digest(archive)
    if found != wanted:
        raise _NotTakenError(
            f"the archive has {archive.stat().st_size} of {size} bytes, sha256 {found[:12]}..., "
            f"wanted {wanted[:12]}..."
        )
    pinned = pins().get(f"{kind}-{name}.tar.xz", found)
    if found != pinned:
        raise _NotTakenError(f"sha256 {found[:12]}..., {PINS.name} has {pinned[:12]}...")
    return archive


def _get(fetcher: Fetcher, place: str, name: str, target: Path, max_bytes: int) -> None:
    """Copy a file from an address, or link to a folder's.

    Raises:
        _NotTakenError: it is not there, too large, or too slow.
    """
    if place.startswith(("http://", "https://")):
        problem = fetcher.download(f"{place.rstrip('/')}/{name}", target, max_bytes)
    else:
        source, problem = Path(place).expanduser() / name, ""
        if not source.is_file():
            problem = "not there"
        elif source.stat().st_size > max_bytes:
            problem = f"more than {max_bytes} bytes"
        else:
            target.symlink_to(source.resolve())
    if problem:
        raise _NotTakenError(f"{name}: {problem}")


def _verify(kind: str, folder: Path) -> None:
    """Refuse a kernel or an image that is not what was built.

    Raises:
        HostError: with what differs.
    """
    if kind == KERNEL:
        integrity.require(folder / "linux", [])
    else:
        integrity.require(None, [folder / integrity.TREE_ROOT], whole=True)


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


def _read(
    path: Path, wanted: Mapping[str, type], more: Mapping[str, type] = MappingProxyType({})
) -> dict[str, Any]:
    """Read a JSON object of which every field and its type is known.

    Args:
        path: The file.
        wanted: The fields that it must have.
        more: The fields that it may have.

    Raises:
        LosslabError: it is another.
    """
    try:
        if path.stat().st_size > FACTS_BYTES:
            raise LosslabError(f"{path.name} must have {FACTS_BYTES} bytes at most, found more")
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise LosslabError(f"{path.name} must be JSON, found: {error}") from error
    if not isinstance(data, dict):
        raise LosslabError(f"{path.name} must be a JSON object, found {type(data).__name__}")
    types = {**wanted, **more}
    wrong = [name for name in wanted if name not in data]
    wrong += [name for name, value in data.items() if not _is(value, types.get(name))]
    if wrong:
        raise LosslabError(
            f"{path.name} must say {', '.join(wanted)}, each of its type, found otherwise: "
            f"{ascii(', '.join(wrong))[:LONGEST]}"
        )
    return data


def _is(value: Any, wanted: type | None) -> bool:
    """Tell whether a value of a JSON object is of a type; of none where it should not be there."""
    if wanted is object:
        return True
    texts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    # Not isinstance: in Python, true is an int.
    return type(value) is wanted and all(type(text) is str for text in texts)
