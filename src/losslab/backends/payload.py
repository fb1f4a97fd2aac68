"""Guest payload: the part of this package that runs where the hosts are."""

from __future__ import annotations

import shutil
from pathlib import Path

from losslab import extensions

PACKAGE = Path(__file__).resolve().parents[1]
EMULATION = "emulation"
# Modules that `emulation` imports, except the standard library and Mininet; see
# tests/unit/repository/test_layers.py.
IMPORTED = (
    "__init__.py",
    "extensions.py",
    "errors.py",
    "study/axes.py",
    "study/background.py",
    "study/condition.py",
    "study/features.py",
    "study/hostsettings.py",
    "study/packetsizes.py",
    "study/parameters.py",
    "study/schedule.py",
)


def pack(folder: Path) -> None:
    """Copy the payload into a new folder, from which Python can import it.

    Byte code is not copied. It exists only from the second run on and if this machine's Python has
    the guest's version, and reading it takes some microseconds less than compiling.
    """
    for name, path in files().items():
        target = folder / PACKAGE.name / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def files() -> dict[str, Path]:
    """Return the payload's files by their path in the package, sorted."""
    found = [path for path in (PACKAGE / EMULATION).rglob("*") if path.is_file()]
    own = [str(path.relative_to(PACKAGE)) for path in found if path.parent.name != "__pycache__"]
    return dict(
        sorted(({name: PACKAGE / name for name in (*own, *IMPORTED)} | extensions.files()).items())
    )
