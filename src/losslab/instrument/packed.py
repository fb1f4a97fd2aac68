"""Kernels and images as archives, so that set-up takes them instead of building them.

An archive is called `KIND-HASH.tar.xz` after the hash of its recipe, and has beside it
`KIND-HASH.json`: its SHA-256, its size, and the provenance of its content.
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
from losslab.reading import read_rows

PLACE = "LOSSLAB_INSTRUMENTS"
KERNEL, IMAGE = "kernel", "image"
# The archives that this repository vouches for: rows of the file's name and its SHA-256.
PINS = ROOT / "containers" / "instruments.tsv"
# In a folder that was taken from an archive: which one.
ORIGIN = "fetched.json"
# A server that is silent for so long is given up.
SILENCE_S = 30.0
# Several times what kernels (3 MB, 9 unpacked) and images (170 MB, 600 unpacked, 9,000 files) have.
LIMITS = {
    KERNEL: Limits(packed_bytes=64 * 2**20, unpacked_bytes=256 * 2**20, members=100),
    IMAGE: Limits(packed_bytes=2**30, unpacked_bytes=4 * 2**30, members=100_000),
}
FACTS_BYTES = 2**18  # of a JSON file
LONGEST = 200  # letters that an error quotes
# The fields of the JSON beside an archive, and of the provenance in it: each of these, some of
# `MORE`, and no others; lists and objects have texts. The provenance beside an archive is for
# readers only: that in the archive counts.
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
MORE: dict[str, dict[str, type]] = {
    KERNEL: {"name": str, "algorithms": dict},
    IMAGE: {"containernet": str},
}
# It makes 167 MB of an image of 565 in two and a half minutes of a processor, once per release.
PACK = "xz -3 -T0"
# Files of a build's folder that are of no use elsewhere.
LEFT_BEHIND = ("build.log", ORIGIN, integrity.VERIFIED)


def pack(folder: Path, kind: str, out: Path) -> Path:
    """Write an archive of a kernel's or image's folder in the cache, and its JSON; return it.

    LosslabError: it is not pinned, is not what was built, or cannot be written.
    """
    provenance = _read(folder / "provenance.json", PROVENANCE[kind], MORE[kind])
    if not provenance.get("pinned", False) or provenance.get("hash") != folder.name:
        raise LosslabError(
            f"what is packed must be pinned and of today's recipe, found {folder} made of "
            f"{provenance.get('hash')}",
            hint="build it without LOSSLAB_UNPINNED and from Debian's source",
        )
    if kind == KERNEL:
        integrity.require(folder / "linux", [])
    else:
        integrity.require(None, [folder / integrity.TREE_ROOT], whole=True)
    out.mkdir(parents=True, exist_ok=True)
    archive = out / f"{kind}-{folder.name}.tar.xz"
    with tempfile.TemporaryDirectory(prefix=".losslab-", dir=out) as name:
        partial = Path(name) / archive.name
        # Times to the nanosecond, nobody's names, and one order whatever the file system's.
        command: list[str | Path] = [
            "tar", "--create", "--file", partial, "--use-compress-program", PACK,
            "--format", "pax", "--pax-option", "delete=atime,delete=ctime", "--sort", "name",
            "--owner", "0", "--group", "0", "--numeric-owner",
            *(f"--exclude={folder.name}/{name}" for name in LEFT_BEHIND),
            "--directory", folder.parent, folder.name,
        ]  # fmt: skip
        processes.run(command)
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
    """Take a kernel or image from where LOSSLAB_INSTRUMENTS names; tell whether it is there now.

    If not, a note on stderr says why, and the caller builds it. `target` is the folder in the
    cache, named after the hash of its recipe.
    """
    place = os.environ.get(PLACE, "")
    if not place:
        return False
    try:
        with building(target) as partial:
            if partial is not None:
                _take(place, kind, target.name, partial)
    except (OSError, LosslabError) as error:
        words = getattr(error, "message", str(error))
        print(
            f"losslab: note: {kind} {target.name} is not taken from {place}: {words}",
            file=sys.stderr,
        )
        return False
    return True


def _take(place: str, kind: str, name: str, target: Path) -> None:
    """Get an archive, check it, and unpack it into `target`."""
    limits, fetcher = LIMITS[kind], Fetcher(SILENCE_S)
    # In the cache, which has room, and under a name that the next build removes.
    with tempfile.TemporaryDirectory(prefix=f"{target.name}-", dir=target.parent) as temporary:
        folder = Path(temporary)
        facts = _read(_get(fetcher, place, folder / f"{kind}-{name}.json", FACTS_BYTES), FACTS)
        wanted, size = facts["sha256"], facts["size_bytes"]
        if (facts["kind"], facts["hash"]) != (kind, name):
            raise LosslabError(
                f"it says that it is {facts['kind'][:LONGEST]!a} {facts['hash'][:LONGEST]!a}"
            )
        if not 0 < size <= limits.packed_bytes:
            raise LosslabError(
                f"a packed {kind} must have {limits.packed_bytes} bytes at most, its JSON says "
                f"{size}"
            )
        archive = _get(fetcher, place, folder / f"{kind}-{name}.tar.xz", size)
        found = digest(archive)
        if found != wanted:
            raise LosslabError(
                f"the archive has {archive.stat().st_size} of {size} bytes, sha256 "
                f"{found[:12]}..., wanted {wanted[:12]}..."
            )
        pinned = pins().get(archive.name, found)
        if found != pinned:
            raise LosslabError(f"sha256 {found[:12]}..., {PINS.name} has {pinned[:12]}...")
        unpack(archive, target, name, limits)
    provenance = _read(target / "provenance.json", PROVENANCE[kind], MORE[kind])
    if provenance["hash"] != name or not provenance["pinned"]:
        raise LosslabError(f"what is in it was made of {provenance['hash'][:LONGEST]!a}")
    if kind == IMAGE:
        integrity.record_tree(target, name)
    else:
        integrity.require(target / "linux", [])
    origin = {"from": place, "sha256": found}
    (target / ORIGIN).write_text(json.dumps(origin, indent=1) + "\n")


def _get(fetcher: Fetcher, place: str, target: Path, max_bytes: int) -> Path:
    """Copy the file of target's name from an address, or link to a folder's; return `target`."""
    if place.startswith(("http://", "https://")):
        problem = fetcher.download(f"{place.rstrip('/')}/{target.name}", target, max_bytes)
    else:
        source, problem = Path(place).expanduser() / target.name, ""
        if not source.is_file():
            problem = "not there"
        elif source.stat().st_size > max_bytes:
            problem = f"more than {max_bytes} bytes"
        else:
            target.symlink_to(source.resolve())
    if problem:
        raise LosslabError(f"{target.name}: {problem}")
    return target


def pins() -> dict[str, str]:
    """Read which archives this repository vouches for, by name."""
    rows = read_rows(PINS, "\t", ("archive", "sha256")) if PINS.is_file() else []
    return {row["archive"]: row["sha256"] for row in rows}


def write_pins(archives: Sequence[Path]) -> None:
    """Vouch for archives; those of other names stay as they are."""
    rows = pins() | {path.name: digest(path) for path in archives}
    lines = ["archive\tsha256", *(f"{name}\t{rows[name]}" for name in sorted(rows))]
    PINS.write_text("\n".join(lines) + "\n")


def _read(
    path: Path, wanted: Mapping[str, type], more: Mapping[str, type] = MappingProxyType({})
) -> dict[str, Any]:
    """Read a JSON object that has the fields `wanted`, may have those of `more`, and no others."""
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
