"""Repeat a replicate from its manifest and say whether the bytes agree."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.campaign.folder import HOST_FILE, MANIFEST_FILE, read_json
from losslab.errors import LosslabError
from losslab.study.condition import Condition

# A console log exists only for invalid replicates and ends with the host's own words.
NOT_COMPARED = (HOST_FILE, "console.log")


@dataclass(frozen=True)
class Agreement:
    """How two folders of a replicate compare, file by file."""

    same: list[str]
    different: dict[str, str]  # file: what differs

    @property
    def whole(self) -> bool:
        """Tell whether every file has the same bytes."""
        return not self.different


def load_manifest(path: Path) -> dict[str, Any]:
    """Read a manifest, given by its file or its folder.

    Raises:
        LosslabError: it is not there or is no manifest.
    """
    file = path / MANIFEST_FILE if path.is_dir() else path
    beside = file.parent / HOST_FILE
    with contextlib.suppress(OSError, ValueError):  # a manifest may stand alone
        read_json(beside)
    try:
        manifest: dict[str, Any] = json.loads(file.read_text())
        Condition.from_json(manifest["cell"])
        int(manifest["seed"])
    except (OSError, KeyError, TypeError, ValueError, LosslabError) as error:
        raise LosslabError(
            f"{file} must be the manifest.json of a replicate, found: {error}",
            hint="name a folder of results/cells/STUDY/CELL/ or of `losslab measure --out`",
        ) from error
    return manifest


def instrument_differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Name the parts of the instrument that are not what they were, with both values."""
    found = []
    for part in sorted(then.keys() | now.keys()):
        old, new = then.get(part), now.get(part)
        if isinstance(old, dict) and isinstance(new, dict):
            found += [f"{part}: {line}" for line in instrument_differences(old, new)]
        elif old != new:
            found.append(f"{part} was {_said(old)}, is {_said(new)}")
    return found


def _said(value: Any) -> str:
    """Put a value of a manifest into words."""
    return "not there" if value is None else str(value)


def compare(first: Path, second: Path) -> Agreement:
    """Compare two replicate folders, but for the files that describe the host."""
    names = sorted({p.name for folder in (first, second) for p in folder.iterdir()})
    same, different = [], {}
    for name in names:
        if name in NOT_COMPARED:
            continue
        a, b = first / name, second / name
        if not (a.exists() and b.exists()):
            different[name] = f"only in {(a if a.exists() else b).parent}"
        elif a.read_bytes() == b.read_bytes():
            same.append(name)
        else:
            different[name] = _first_difference(a, b)
    return Agreement(same, different)


def _first_difference(a: Path, b: Path) -> str:
    """Describe the first line in which two text files differ."""
    lines = [path.read_text(errors="replace").splitlines() for path in (a, b)]
    for number, (one, other) in enumerate(zip(*lines, strict=False), start=1):
        if one != other:
            return f"line {number}: {one.strip()!r}, {other.strip()!r}"
    return f"{len(lines[0])} and {len(lines[1])} lines"
