"""Folders that users bring along for the app `command`: found, digested, and given to jobs."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from losslab.errors import LosslabError
from losslab.study.condition import Condition
from losslab.study.design import ROOT
from losslab.study.programs import NOTHING_BROUGHT

# Byte code that one run leaves would be another one's.
IGNORED = "__pycache__"


def named(folder: Path) -> str:
    """Write a folder as conditions name it: by its path in the repository, where it is in it."""
    whole = folder.resolve()
    return str(whole.relative_to(ROOT) if whole.is_relative_to(ROOT) else whole)


def files(condition: Condition) -> list[Path]:
    """List the files that a condition brings along.

    Raises:
        LosslabError: there is no such folder, or nothing in it.
    """
    if condition.bring == NOTHING_BROUGHT:
        return []
    folder = ROOT / condition.bring
    found = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and IGNORED not in path.parts
    ]
    if not found:
        raise LosslabError(
            f"what is brought along must be a folder with files, found none in {folder}",
            hint="name it as it is called from the project's folder, or by its whole path",
        )
    return found


def digests(condition: Condition) -> dict[str, str]:
    """Return the SHA-256 of each of those files, by its name in the folder, as a manifest has it.

    Whether it may be executed counts, too.
    """
    folder = ROOT / condition.bring
    found = {}
    for path in files(condition):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        executable = bool(path.stat().st_mode & 0o100)
        found[str(path.relative_to(folder))] = digest + (" x" if executable else "")
    return found


def give(condition: Condition, job_folder: Path, name: str) -> None:
    """Copy those files into a folder of a job's."""
    folder = ROOT / condition.bring
    for path in files(condition):
        there = job_folder / name / path.relative_to(folder)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, there)
