"""The clone's own files, as Git lists them."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

from tests.conftest import ROOT


@functools.cache
def tracked(*patterns: str, root: Path = ROOT) -> list[Path]:
    """Return the files that Git tracks, sorted; patterns as `git ls-files` takes them.

    A used clone also has logs, results and campaigns, which are no part of the repository.
    """
    names = _listed(root, *patterns)
    return sorted(root / name for name in names if (root / name).is_file())


def copy(folder: Path, without: str = "tests/") -> Path:
    """Copy the files to a folder, committed or not, without those of a folder; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _listed(ROOT, "-co", "--exclude-standard"):
        if (ROOT / name).is_file() and not (without and name.startswith(without)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return variables with which Python runs the sources of a copy."""
    return os.environ | {"PYTHONPATH": str(folder / "src")}


def _listed(root: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z", *words], cwd=root, capture_output=True, text=True, check=True
    )
    return [name for name in done.stdout.split("\0") if name]
