"""Files of an unpacked archive, and the list of their digests."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from losslab.backends.base import CONSOLE_FILE
from losslab.campaign import verification
from losslab.campaign.recorded import CAMPAIGN_FILE, RecordedCampaign
from losslab.campaign.results import (
    CELL_FILE,
    HOST_FILE,
    LOST_FILE,
    MANIFEST_FILE,
    differences,
    read_cell,
)
from losslab.errors import LosslabError
from losslab.instrument.archive import digest

RESULTS = Path("results")
# List of all files, in the format of sha256sum(1).
DIGESTS = Path("SHA256SUMS")
LINE = re.compile(r"([0-9a-f]{64})  (.+)")
# File with the name of the sources' commit.
COMMIT = Path("COMMIT")
INSTRUMENTS = Path("instruments")
# Folders: Python packages by version of Python, and configuration files of single studies.
WHEELS, EXPERIMENTS = Path("wheels"), Path("experiments")
# Folder of the results: the records of kernels and images.
INSTRUMENT = "instrument"
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


def result_files(work: Path, campaign: RecordedCampaign) -> list[Path]:
    """List the files of a campaign's results, relative to the folder where it was measured.

    Files of other campaigns or of a killed workflow in the same folder are omitted.
    """
    results = work / RESULTS
    found = [results / CAMPAIGN_FILE, *(results / name for name in verification.files(results))]
    found += (results / INSTRUMENT).glob("*.json")
    for place in map(verification.path_of, campaign.cells):
        found.append(results / place / CELL_FILE)
        lost = results / place / LOST_FILE
        found += [lost] if lost.is_file() else []
        for each in read_cell(results / place / CELL_FILE).replicates:
            found += [path for path in each.folder.rglob("*") if path.is_file()]
    return sorted(path.relative_to(work) for path in found)


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


def write_digests(root: Path, names: Iterable[str]) -> None:
    """Write the list of files with their digests; `sha256sum --check` reads it, too."""
    lines = [f"{digest(root / name)}  {name}\n" for name in sorted(names)]
    (root / DIGESTS).write_text("".join(lines))


def read_digests(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each file by path, from the list of `write_digests`."""
    path = root / DIGESTS
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise LosslabError(
            f"{path} must list the artifact's files, found: {error}",
            hint="unpack the archive of `make artifact`, and run this in the unpacked folder",
        ) from error
    found: dict[str, str] = {}
    for line in lines:
        match = LINE.fullmatch(line)
        if match is None or not _inside(match[2]) or match[2] in found:
            raise LosslabError(
                f"{path} must list each file once, by its relative path, found {line!r}"
            )
        found[match[2]] = match[1]
    return found


def _inside(name: str) -> bool:
    """Return whether a path is normalised and stays inside its folder."""
    path = PurePosixPath(name)
    return str(path) == name and not path.is_absolute() and ".." not in path.parts and name != "."


def wrong_files(root: Path, digests: dict[str, str]) -> dict[str, str]:
    """Return the problems of missing, changed and unlisted files by path."""
    return differences(root, digests, {*contents(root)} - {str(DIGESTS)})
