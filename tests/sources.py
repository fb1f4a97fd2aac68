"""A copy of the clone's files, committed or not."""

import shutil
import subprocess
from pathlib import Path

from tests.conftest import ROOT


def copy(folder: Path, without: str = "tests/") -> Path:
    """Copy the files to a folder, without those of a folder; return it."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (ROOT / name).is_file() and not (without and name.startswith(without)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder
