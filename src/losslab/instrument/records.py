"""The workflow's records of kernel and images, which themselves lie in the user's cache.

A record says what was built or found there. It is outdated where the cache has something else by
now: its build is then asked for once more, with the next number.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError
from losslab.instrument import image, kernel, packed
from losslab.instrument.archive import UnavailableError
from losslab.reading import UsageError, read_json

KERNEL, IMAGE = packed.KERNEL, packed.IMAGE
FOLDER = Path("results", "instrument")


def path(kind: str, name: str) -> Path:
    """Return where the record of a kernel (`kernel.named`) or of an image lies."""
    return FOLDER / f"{kind}-{name}.json"


def read(record: Path) -> dict[str, Any]:
    """Read a record; nothing where there is none, or something else."""
    try:
        content = read_json(record)
    except UsageError:
        return {}
    return content if isinstance(content, dict) else {}


def in_cache(kind: str, name: str) -> dict[str, Any] | None:
    """Return the provenance of the cache's kernel or image of today's recipe, or None."""
    if kind == KERNEL:
        folder = kernel.existing(*kernel.parsed(name))
        return None if folder is None else kernel.provenance(folder)
    folder = image.existing(name)
    return None if folder is None else image.provenance(folder)


def number(kind: str, name: str) -> int:
    """Return a record's build counter: its own, or the next if it is outdated."""
    record = read(path(kind, name))
    as_recorded = "absent" in record or "made_of" in record
    as_recorded = as_recorded and record.get("made_of") == in_cache(kind, name)
    before = record.get("number", 0)
    return (before if isinstance(before, int) else 0) + (not as_recorded)


def absent(record: Path) -> str:
    """Say why a kernel or image is not available; empty where it is."""
    return str(read(record).get("absent", ""))


def make(
    kind: str,
    name: str,
    build: Callable[[], Path],
    record: Path,
    number: int,
    only_with: Sequence[Path] = (),
    optional: bool = False,
) -> None:
    """Build a kernel (as of `kernel.named`) or image that the cache does not have; record it.

    Args:
        kind: KERNEL or IMAGE.
        name: Its name.
        build: Builds it.
        record: The file to write.
        number: The build counter.
        only_with: Records of other parts, without which this one is of no use.
        optional: If its sources are not available, record that instead of failing.
    """
    content: dict[str, Any] = {"number": number}
    missing = next(filter(None, map(absent, only_with)), "")
    if missing and in_cache(kind, name) is None:
        content["absent"] = missing
    else:
        try:
            build()
            content["made_of"] = in_cache(kind, name)
        except UnavailableError as error:
            if not optional:
                raise
            # The rest is for the terminal.
            content["absent"] = error.message.partition(", found")[0] + ", and could not"
            print(f"losslab: note: no {name} {kind}: {error}", file=sys.stderr)
    write(content, record)


def write(content: dict[str, Any], record: Path) -> None:
    """Write a record; LosslabError if there is no room or right to."""
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise LosslabError(f"{record} must be a file to write to, found: {error}") from error
