"""Files of an archive's folder, and the list of their digests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from losslab.backends.base import CONSOLE_FILE
from losslab.campaign import integrity
from losslab.campaign.folder import HOST_FILE, MANIFEST_FILE
from losslab.errors import LosslabError
from losslab.instrument.archive import digest

RESULTS = Path("results")
DIGESTS, SIGNATURE = Path("digests.tsv"), Path("digests.tsv.sig")
HEAD = "sha256\tsize_bytes\tpath"
# Which commit the sources are, its text as git has it, and the campaign's configuration file.
COMMIT, COMMIT_TEXT, CAMPAIGN = Path("COMMIT"), Path("COMMIT.text"), Path("campaign")
INSTRUMENTS = Path("instruments")
# Below the results, the records of kernels and images.
INSTRUMENT = "instrument"
# What `artifact pack` adds to the commit's files.
ADDED = frozenset(map(str, (
    RESULTS, INSTRUMENTS, DIGESTS, SIGNATURE, COMMIT, COMMIT_TEXT, CAMPAIGN, "APPENDIX.md",
    "ro-crate-metadata.json",
)))  # fmt: skip
# Of a replicate's folder, what is no raw file: two runs of a seed have other consoles.
NOT_RAW = (MANIFEST_FILE, HOST_FILE, CONSOLE_FILE)
# What setting up and verifying leave in the archive's folder: folders anywhere, and at its root.
BYTE_CODE = "__pycache__"
MADE_THERE = frozenset({".venv", "src/losslab.egg-info"})


@dataclass(frozen=True)
class Run:
    """A valid replicate: its folder's path from the root, what measured it, and for how long."""

    path: str
    instrument: dict[str, Any]
    wall_s: float


def is_source(name: str) -> bool:
    """Tell whether a file of an archive is one of the commit's."""
    return PurePosixPath(name).parts[0] not in ADDED


def is_raw(path: Path) -> bool:
    """Tell whether it is a file of a replicate that its manifest does not replace."""
    in_replicate = path.parts[:2] == (str(RESULTS), "cells") and len(path.parts) >= 6
    return in_replicate and path.name not in NOT_RAW


def link(source: Path, target: Path) -> None:
    """Hard-link, or copy across file systems."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def contents(root: Path) -> Iterator[str]:
    """List every file, link and device below a folder, but for what setting up leaves there."""
    for place, folders, names in os.walk(root):
        inside = Path(place).relative_to(root)
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if name not in (BYTE_CODE, *links) and str(inside / name) not in MADE_THERE
        )
        yield from (str(inside / name) for name in sorted([*names, *links]))


def write_digests(root: Path, paths: Iterable[Path], target: Path) -> None:
    """List files with their digests."""
    rows = [f"{digest(root / p)}\t{(root / p).stat().st_size}\t{p}" for p in sorted(paths)]
    target.write_text("\n".join([HEAD, *rows]) + "\n")


def read_digests(root: Path) -> dict[str, str]:
    """Read the SHA-256 of each file, by path, as `write_digests` wrote it.

    Raises LosslabError if it is not there, or is no such list.
    """
    path = root / DIGESTS
    try:
        head, *lines = path.read_text().splitlines()
        rows = [line.split("\t") for line in lines]
        found = {name: sha256 for sha256, size, name in rows if int(size) >= 0}
    except (OSError, ValueError) as error:
        raise LosslabError(
            f"{path} must list the artifact's files, found: {error}",
            hint="unpack what `make artifact` wrote, and run this in the folder that is in it",
        ) from error
    if head != HEAD:
        raise LosslabError(f"{path} must begin with {HEAD!r}, found {head!r}")
    bad = [name for name in found if not _inside(name)] or (
        ["a path twice"] if len(found) < len(rows) else []
    )
    if bad:
        raise LosslabError(f"{path} must list each file once, by its path inside, found {bad[0]!r}")
    return found


def _inside(name: str) -> bool:
    """Tell whether a path is written in the one way that stays inside its folder."""
    path = PurePosixPath(name)
    return str(path) == name and not path.is_absolute() and ".." not in path.parts and name != "."


def wrong_files(root: Path, digests: dict[str, str]) -> dict[str, str]:
    """Say which files are missing, changed or not listed; by path, what is wrong."""
    return integrity.differences(root, digests, {*contents(root)} - {str(DIGESTS), str(SIGNATURE)})
