"""What a results folder holds: its files with their digests, and its replicates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.campaign.folder import HOST_FILE, MANIFEST_FILE, read_json
from losslab.errors import LosslabError
from losslab.instrument.archive import digest

RESULTS = Path("results")
DIGESTS = Path("digests.tsv")
HEAD = "sha256\tsize_bytes\tpath"
# What a campaign leaves for others; its other folders are its own.
PARTS = ("cells", "summary", "figures", "tables", "report", "claims.csv", "instrument")


@dataclass(frozen=True)
class Replicate:
    """A valid replicate of a campaign: its folder's path from the root, and what its cell says."""

    path: str
    instrument: dict[str, Any]
    backend: str
    wall_s: float


@dataclass(frozen=True)
class Digest:
    """What a file should be."""

    sha256: str
    size_bytes: int


def files(root: Path) -> list[Path]:
    """List the files of the results below a root, relative to it."""
    found = []
    for part in PARTS:
        place = root / RESULTS / part
        within = [place] if place.is_file() else place.rglob("*")
        found += [path for path in within if path.is_file() and _whole(path.relative_to(root))]
    return sorted(path.relative_to(root) for path in found)


def _whole(path: Path) -> bool:
    """Tell whether it is no leftover of a run that was killed."""
    return not any(part.startswith(".") for part in path.parts)


def write_digests(root: Path, paths: Iterable[Path], target: Path) -> None:
    """List files with their digests."""
    rows = [f"{digest(root / p)}\t{(root / p).stat().st_size}\t{p}" for p in paths]
    target.write_text("\n".join([HEAD, *rows]) + "\n")


def read_digests(root: Path) -> dict[str, Digest]:
    """Read what `write_digests` wrote, by path.

    Raises:
        LosslabError: it is not there, or is no such list.
    """
    path = root / DIGESTS
    try:
        head, *lines = path.read_text().splitlines()
        rows = [line.split("\t") for line in lines]
        found = {name: Digest(sha256, int(size)) for sha256, size, name in rows}
    except (OSError, ValueError) as error:
        raise LosslabError(
            f"{path} must list the artifact's files, found: {error}",
            hint="unpack what `make artifact` wrote, and run this in the folder that is in it",
        ) from error
    if head != HEAD:
        raise LosslabError(f"{path} must begin with {HEAD!r}, found {head!r}")
    return found


def replicates(root: Path) -> Iterator[Replicate]:
    """List the valid replicates below a root, in the order of their paths."""
    for cell in sorted((root / RESULTS / "cells").glob("*/*/cell.json")):
        for number, row in enumerate(read_json(cell)["replicates"]):
            folder = cell.parent / str(number)
            if row["valid"]:
                manifest = json.loads((folder / MANIFEST_FILE).read_text())
                host = read_json(folder / HOST_FILE)
                yield Replicate(
                    str(folder.relative_to(root)),
                    manifest["instrument"],
                    manifest["backend"],
                    float(host["wall_s"] or 0.0),
                )
