"""Repeat a replicate from its manifest and say whether the bytes agree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.campaign.documents import read_host, read_manifest
from losslab.campaign.folder import HOST_FILE, MANIFEST_FILE
from losslab.errors import LosslabError

# A console log exists only for invalid replicates and ends with the host's own words.
NOT_COMPARED = (HOST_FILE, "console.log")
# Of a line that differs; a manifest's may have a megabyte.
SHOWN_BYTES = 200


@dataclass(frozen=True)
class Agreement:
    """How two folders of a replicate compare, file by file."""

    same: list[str]
    different: dict[str, str]  # file: what differs

    @property
    def whole(self) -> bool:
        """Tell whether there are files, and every one has the same bytes."""
        return bool(self.same) and not self.different


def load_manifest(path: Path) -> dict[str, Any]:
    """Read a manifest, given by its file or its folder.

    Raises UsageError if it is not there or is no manifest.
    """
    file = path / MANIFEST_FILE if path.is_dir() else path
    beside = file.parent / HOST_FILE
    if beside.exists():  # a manifest may stand alone
        read_host(beside)
    return read_manifest(file)


def changes(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Name what another manifest was measured with, where that differs, with both values."""
    whats = ("instrument", "fingerprint")
    old, new = ({what: manifest.get(what, {}) for what in whats} for manifest in (then, now))
    return instrument_differences(old, new)


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


def require_result(manifest: dict[str, Any], which: str) -> None:
    """Refuse a run that measured nothing, which agrees with nothing.

    Raises LosslabError if its guest was lost.
    """
    if manifest.get("lost"):
        raise LosslabError(
            f"{which} must have measured something to compare, found a lost guest: "
            + "; ".join(manifest["reasons"]),
            hint="measure it again; `losslab doctor` says what this machine lacks",
        )


def compare(first: Path, second: Path) -> Agreement:
    """Compare two replicate folders, but for the files that describe the host."""
    same, different = [], {}
    for name in sorted(names(first) | names(second)):
        a, b = first / name, second / name
        if not (a.is_file() and b.is_file()):
            different[name] = f"only in {second if b.is_file() else first}"
        elif (bytes_a := a.read_bytes()) == (bytes_b := b.read_bytes()):
            same.append(name)
        else:
            different[name] = _first_difference(bytes_a, bytes_b)
    return Agreement(same, different)


def names(folder: Path) -> set[str]:
    """Return the paths below a replicate's folder of the files that are compared."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    return {str(path) for path in found} - {*NOT_COMPARED}


def _first_difference(a: bytes, b: bytes) -> str:
    """Describe the first line in which two files differ."""
    lines = [content.split(b"\n") for content in (a, b)]
    for number, (one, other) in enumerate(zip(*lines, strict=False), start=1):
        if one != other:
            return f"line {number}: {_shown(one)}, {_shown(other)}"
    return f"{len(lines[0]) - 1} and {len(lines[1]) - 1} lines"


def _shown(line: bytes) -> str:
    """Quote the start of a line, with escapes for what is no text."""
    text = line[:SHOWN_BYTES].decode(errors="backslashreplace")
    return repr(text) + ("..." if len(line) > SHOWN_BYTES else "")
