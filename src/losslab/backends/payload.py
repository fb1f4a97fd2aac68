"""Guest payload: the part of this package that runs where the hosts are."""

from __future__ import annotations

import shutil
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
EMULATION = "emulation"
# Modules that `emulation` imports, except the standard library and Mininet; see
# tests/unit/repository/test_layers.py.
IMPORTED = (
    "__init__.py",
    "errors.py",
    *(
        f"study/{name}.py"
        for name in (
            "axes",
            "schedule",
            "condition",
            "conflicts",
            "background",
            "features",
            "seeds",
        )
    ),
)


def pack(folder: Path) -> None:
    """Copy the payload into a new folder, from which Python can import it.

    Byte code is not copied. It exists only from the second run on and if this machine's Python has
    the guest's version, and reading it takes some microseconds less than compiling.
    """
    for name in files():
        target = folder / PACKAGE.name / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, target)


def files() -> list[str]:
    """List the payload's files in the package."""
    found = [path for path in (PACKAGE / EMULATION).rglob("*") if path.is_file()]
    return sorted(
        [str(path.relative_to(PACKAGE)) for path in found if path.parent.name != "__pycache__"]
        + list(IMPORTED)
    )
