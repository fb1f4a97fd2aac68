"""Record of the files that the workflow made, by content.

While results have the content of this record, they follow from their cells, so packing need not
make them again. The record does not depend on times of files. `losslab verify` ignores it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from losslab.campaign import recorded
from losslab.campaign.folder import CELL_FILE, digest_of, replace_json
from losslab.campaign.verification import MADE, RESULTS, files
from losslab.instrument.archive import digest

FILE = Path(".snakemake", "losslab-made.json")
# Files and folders of the repository that the workflow's rules read or run.
SOURCES = ("Snakefile", "algorithms", "analysis", "config", "report", "src", "workflow")
# Folders with files that programs add.
ADDED = ("__pycache__", "losslab.egg-info")
# Snakemake marks folders that it made with this file, which is empty.
MARK = ".snakemake_timestamp"


@dataclass(frozen=True)
class Made:
    """Files that the workflow made, and cells from which it made them."""

    by: str = ""  # digest of the sources, configuration and software that made them
    # SHA-256 by path from the campaign's folder.
    files: Mapping[str, str] = field(default_factory=dict)
    # Whether the workflow had made or checked every file at the end of its last run.
    whole: bool = False


def maker(config: Mapping[str, Any], root: Path) -> str:
    """Return the digest of all that decides the content of files made from cells."""
    paths = [path for name in SOURCES for path in _below(root / name)]
    sources = {str(path.relative_to(root)): digest(path) for path in paths}
    return digest_of({"config": config, "software": recorded.software(), "sources": sources})


def _below(path: Path) -> list[Path]:
    """List a file, or the files below a folder or a link to it."""
    found = [path] if path.is_file() else []
    for place, folders, names in os.walk(path, followlinks=True):
        folders[:] = [name for name in folders if name not in ADDED]
        found += [Path(place, name) for name in names if Path(place, name).is_file()]
    return found


def present(work: Path, cells: Iterable[str], by: str) -> Made:
    """Return the record that would declare all present files of a campaign's folder current.

    `cells`: paths of the campaign's cells.
    """
    results = work / RESULTS
    paths = [*(results / name for name in files(results)), *(work / cell for cell in cells)]
    found = (path for path in paths if path.is_file() and not _is_mark(path))
    return Made(by, {str(path.relative_to(work)): digest(path) for path in found}, True)


def _is_mark(path: Path) -> bool:
    return path.name == MARK and path.stat().st_size == 0


def read(work: Path) -> Made:
    """Read a campaign's record; an empty one if there is none."""
    try:
        data = json.loads((work / FILE).read_text())
        return Made(str(data["by"]), dict(data["files"]), data["whole"] is True)
    except (OSError, ValueError, LookupError, TypeError):
        return Made()


def write(made: Made, work: Path) -> None:
    """Write a campaign's record; HostError if it cannot be written."""
    (work / FILE).parent.mkdir(parents=True, exist_ok=True)
    replace_json(asdict(made), work / FILE)


def after_run(before: Made, now: Made, ran: Collection[str], outputs: set[str] | None) -> Made:
    """Return the record after a run of the workflow.

    `now`: what is present; `ran`: outputs of the jobs that ran; `outputs`: those of all jobs that
    the run needed, or None if some of them failed. A file that no job of this run made must be as
    recorded, and so must the cells.
    """
    here, known = now.files, before.files if before.by == now.by else {}
    same = {path for path, it in here.items() if known.get(path) == it}
    cells = {path for path in here if path.endswith(f"/{CELL_FILE}")}
    made = {path for path in here if path in ran}
    kept = same if cells <= same | made else set()
    if {*here} == cells | made | kept == outputs:
        return now
    # Without the jobs that follow, files made from earlier versions of these may be outdated.
    if any(known.get(path, it) != it for path, it in here.items()):
        kept = set()
    return Made(now.by, {path: here[path] for path in sorted(cells | made | kept)})


def expanded(outputs: Iterable[str], cells: Collection[str]) -> set[str]:
    """Return the files of jobs' outputs that the record lists; an output may be a folder."""
    found = set()
    for output in map(Path, outputs):
        inside = [path for path in output.rglob("*") if path.is_file() and not _is_mark(path)]
        found |= {*map(str, inside if output.is_dir() else [output])}
    made = tuple(f"{RESULTS}/{part}" for part in MADE)
    return {path for path in found if path in cells or path.startswith(made)}
