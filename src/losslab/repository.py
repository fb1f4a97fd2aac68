"""Place of the files that losslab reads: a clone, or the copy in an installed package."""

from __future__ import annotations

import shutil
from pathlib import Path

from losslab.errors import HostError

PACKAGE = Path(__file__).resolve().parent
# setup.py copies the clone's files here when it builds a wheel.
COPY = PACKAGE / "share"
INSTALLED = COPY.is_dir()
ROOT = COPY if INSTALLED else PACKAGE.parents[1]
# Commands that prepare the machine, and that install the packages of campaigns.
SET_UP = "losslab setup" if INSTALLED else "make setup"
FOR_CAMPAIGNS = "install losslab with its extra `campaign`" if INSTALLED else SET_UP


def debian_packages(part: str) -> dict[str, str | None]:
    """Return a part of scripts/packages.txt: packages, and a program of each, if named."""
    lines = (ROOT / "scripts" / "packages.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {row[1]: row[2] if len(row) > 2 else None for row in rows if row[0] == part}


def install_command(part: str) -> str:
    """Return the command that installs a part of scripts/packages.txt; in a clone it is SET_UP."""
    packages = " ".join(debian_packages(part))
    return f"apt-get install --no-install-recommends {packages}" if INSTALLED else SET_UP


def require_programs(part: str, use: str) -> None:
    """Raise HostError if a program of a part of scripts/packages.txt is missing.

    Args:
        part: The part.
        use: What needs the programs, for the message.
    """
    packages = debian_packages(part)
    absent = [name for name, program in packages.items() if program and not shutil.which(program)]
    if absent:
        raise HostError(
            f"{use} needs programs of Debian packages, found missing: {', '.join(absent)}",
            hint=f"run as root: apt-get install --no-install-recommends {' '.join(packages)}",
        )
