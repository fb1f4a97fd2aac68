"""What a job gets of this package: what runs where the hosts are, and what that imports."""

from __future__ import annotations

import shutil
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
WING = "emulation"
# What the wing imports besides the standard library and Mininet; see tests/unit/test_floors.py.
MORE = (
    "__init__.py",
    "errors.py",
    *(
        f"study/{name}.py"
        for name in (
            "axes",
            "changes",
            "condition",
            "conflicts",
            "crowd",
            "features",
            "seeds",
        )
    ),
)


def pack(folder: Path) -> None:
    """Copy the parcel into a new folder, from which Python can import it.

    Without byte code: where this machine's Python is of the guest's version, the guest would find
    it from the second run on, and reading differs from compiling by microseconds.
    """
    there = folder / PACKAGE.name
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE / WING, there / WING, ignore=ignored)
    for name in MORE:
        (there / name).parent.mkdir(exist_ok=True)
        shutil.copy(PACKAGE / name, there / name)
