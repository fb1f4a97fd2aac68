"""The workflow's records of kernels and images, and their provenance in the cache.

A record has the provenance of the kernel or image in the cache. If the cache has changed since, the
record is outdated: the workflow removes it at its next start, and builds again.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError
from losslab.instrument import cache, image, kernel, kernels
from losslab.instrument.fetch import UnavailableError
from losslab.instrument.packed import IMAGE, KERNEL, OBJECTS
from losslab.instrument.part import Part
from losslab.reading import UsageError, read_json

FOLDER = Path("results", "instrument")


def path(kind: str, name: str) -> Path:
    """Return the path of the record of a kernel (by its key) or an image."""
    return FOLDER / f"{kind}-{name}.json"


def read(record: Path) -> dict[str, Any]:
    """Read a record; return an empty one if it is missing or malformed."""
    try:
        content = read_json(record)
    except UsageError:
        return {}
    return content if isinstance(content, dict) else {}


def part(kind: str, name: str) -> Part:
    """Return a kernel (by its key), its object files, or an image; UsageError if there is none."""
    if kind == IMAGE:
        return image.part(name)
    spec = kernels.of_key(name)
    return kernel.objects(spec) if kind == OBJECTS else kernel.part(spec)


def in_cache(kind: str, name: str) -> dict[str, Any] | None:
    """Return the provenance of the current recipe's kernel or image in the cache, or None."""
    folder = part(kind, name).existing()
    return None if folder is None else cache.provenance(folder)


def installed() -> list[str]:
    """Describe the default backend's kernel and image, one line each with the hash."""
    lines = []
    for each in (kernel.part(), image.part()):
        folder = each.existing()
        if folder is None:
            lines.append(f"{each.kind} {each.recipe}, not built")
            continue
        origin = cache.provenance(folder)
        linux = each.kind == KERNEL
        version = f"Linux {origin['version']}" if linux else f"Debian {origin['suite']}"
        pinned = "" if origin["pinned"] else ", UNPINNED"
        lines.append(f"{each.kind} {folder.name}, {version}{pinned}")
    return lines


def remove_outdated() -> None:
    """Remove the records of kernels and images that the cache has changed since."""
    for record in [*FOLDER.glob(f"{KERNEL}-*.json"), *FOLDER.glob(f"{IMAGE}-*.json")]:
        kind, _, name = record.stem.partition("-")
        content = read(record)
        complete = "absent" in content or "made_of" in content
        with contextlib.suppress(LosslabError, OSError):  # its recipe was removed
            if not complete or content.get("made_of") != in_cache(kind, name):
                record.unlink()


def absent(record: Path) -> str:
    """Return why a kernel or image is unavailable, or an empty string."""
    return str(read(record).get("absent", ""))


def make(
    kind: str, name: str, build: Callable[[], Path], record: Path | None, optional: bool = False
) -> None:
    """Build a kernel (by its key) or image unless the cache has it.

    Write the record; without `record`, print the folder. If it is `optional` and its sources are
    unavailable, record that instead of failing.
    """
    content: dict[str, Any] = {}
    try:
        folder = build()
        content["made_of"] = in_cache(kind, name)
        if record is None:
            print(folder)
    except UnavailableError as error:
        if not optional:
            raise
        content["absent"] = f"{kind} {name} is not there: its sources are unavailable"
        print(f"losslab: note: no {name} {kind}: {error}", file=sys.stderr)
    if record is not None:
        write(content, record)


def write(content: dict[str, Any], record: Path) -> None:
    """Write a record; LosslabError if it is not writable."""
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise LosslabError(f"{record} must be writable, found: {error}") from error
