"""Files of an unpacked archive, and the list of their digests."""

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
# Files: the sources' commit, the commit's text in git, and the name of the configuration file.
COMMIT, COMMIT_TEXT, CAMPAIGN = Path("COMMIT"), Path("COMMIT.text"), Path("campaign")
INSTRUMENTS = Path("instruments")
# Folders: Python packages by version of Python, and configuration files of single studies.
WHEELS, EXPERIMENTS = Path("wheels"), Path("experiments")
# Folder of the results: the records of kernels and images.
INSTRUMENT = "instrument"
# Files and folders that `artifact pack` adds to the commit's files.
ADDED = frozenset(map(str, (
    RESULTS, INSTRUMENTS, WHEELS, EXPERIMENTS, DIGESTS, SIGNATURE, COMMIT, COMMIT_TEXT, CAMPAIGN,
    "APPENDIX.md", "datapackage.json", "ro-crate-metadata.json",
)))  # fmt: skip
# Files of a replicate that are not raw files. Consoles of two runs of a seed differ.
NOT_RAW = (MANIFEST_FILE, HOST_FILE, CONSOLE_FILE)
# Folders that set-up and verification add to the archive's folder: anywhere, and at its root.
BYTE_CODE = "__pycache__"
MADE_THERE = frozenset({".venv", "src/losslab.egg-info"})


@dataclass(frozen=True)
class Run:
    """Valid replicate of a campaign."""

    path: str  # its folder, from the root
    algorithm: str
    instrument: dict[str, Any]
    started_utc: str  # as 2026-01-31T12:00:00+00:00
    wall_s: float
    virtual: bool = True  # in virtual time: the same seed gives the same bytes


def is_source(name: str) -> bool:
    """Return whether a file of an archive belongs to the commit."""
    return PurePosixPath(name).parts[0] not in ADDED


def is_raw(path: Path) -> bool:
    """Return whether a path is a replicate's raw file."""
    in_replicate = path.parts[:2] == (str(RESULTS), "cells") and len(path.parts) >= 6
    return in_replicate and path.name not in NOT_RAW


def link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it across file systems."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def contents(root: Path) -> Iterator[str]:
    """Yield every file, link and device below a folder, except those that set-up adds."""
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
    """Write the list of files with their digests."""
    rows = [f"{digest(root / p)}\t{(root / p).stat().st_size}\t{p}" for p in sorted(paths)]
    target.write_text("\n".join([HEAD, *rows]) + "\n")


def read_digests(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each file by path, from the list of `write_digests`."""
    path = root / DIGESTS
    try:
        head, *lines = path.read_text().splitlines()
        rows = [line.split("\t") for line in lines]
        found = {name: sha256 for sha256, size, name in rows if int(size) >= 0}
    except (OSError, ValueError) as error:
        raise LosslabError(
            f"{path} must list the artifact's files, found: {error}",
            hint="unpack the archive of `make artifact`, and run this in the unpacked folder",
        ) from error
    if head != HEAD:
        raise LosslabError(f"{path} must begin with {HEAD!r}, found {head!r}")
    bad = [name for name in found if not _inside(name)] or (
        ["a path twice"] if len(found) < len(rows) else []
    )
    if bad:
        raise LosslabError(
            f"{path} must list each file once, by its relative path, found {bad[0]!r}"
        )
    return found


def _inside(name: str) -> bool:
    """Return whether a path is normalised and stays inside its folder."""
    path = PurePosixPath(name)
    return str(path) == name and not path.is_absolute() and ".." not in path.parts and name != "."


def wrong_files(root: Path, digests: dict[str, str]) -> dict[str, str]:
    """Return the problems of missing, changed and unlisted files by path."""
    return integrity.differences(root, digests, {*contents(root)} - {str(DIGESTS), str(SIGNATURE)})
