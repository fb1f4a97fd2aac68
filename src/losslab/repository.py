"""Version of losslab, and place of the files that it reads.

They are in a clone, or in the copy that an installed package has. A campaign's folder
(`losslab init`) may have files of its own at the same paths, such as `studies/mine/study.yaml`,
which come first.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Container
from pathlib import Path

from losslab import extensions
from losslab.errors import HostError, LosslabError

__version__ = "1.0.0"
# The version of the results' format: the first number changes if older results are no longer
# readable, the second if something is added. cell.json and host.json contain it; manifests do not,
# so that their bytes stay the same.
FORMAT = "1.2"
PACKAGE = Path(__file__).resolve().parent
# setup.py copies the clone's files here when it builds a wheel.
COPY = PACKAGE / "share"
INSTALLED = COPY.is_dir()
# Names of a user's own kernels and images.
RECIPE = re.compile(r"[a-z0-9][a-z0-9.-]*")
# losslab's own files.
ROOT = COPY if INSTALLED else PACKAGE.parents[1]
# Commands that prepare the machine, measure a campaign, and install the packages of campaigns.
SET_UP = "losslab setup" if INSTALLED else "make setup"
REPORT = "snakemake --cores all" if INSTALLED else "make report"
FOR_CAMPAIGNS = "install losslab with its extra `campaign`" if INSTALLED else SET_UP


def find(path: str | Path, root: Path = ROOT) -> Path:
    """Return a file or folder of the campaign's folder, or else that of `root`, if any."""
    own = extensions.campaign()
    return own / path if own and (own / path).exists() else root / path


def listed(pattern: str, root: Path = ROOT) -> list[Path]:
    """List the files of `root` and of the campaign's folder, which replace those of `root`."""
    folders = [root, *filter(None, [extensions.campaign()])]
    found = {path.relative_to(each): path for each in folders for path in each.glob(pattern)}
    return [found[name] for name in sorted(found)]


def recipes(kind: str, file: str, known: Container[str]) -> dict[str, Path]:
    """Return a user's own kernels or images (`kind`): folders with a `file`, by name.

    Raises LosslabError if a folder lacks the file, or has a `known` name or one not allowed.
    """
    place = extensions.folder()
    folders = sorted((place / kind).glob("*/")) if place else []
    for folder in folders:
        if not (folder / file).is_file():
            raise LosslabError(
                f"{folder} must have a file {file}, found none",
                hint="write it as docs/how-to/modules.md says, or remove the folder",
            )
        if not RECIPE.fullmatch(folder.name) or folder.name in known:
            raise LosslabError(
                f"a folder of {kind} must have a new name of lower-case letters, digits, dots and "
                f"hyphens, found {folder}",
                hint="rename it",
            )
    return {folder.name: folder for folder in folders}


def images(root: Path = ROOT) -> dict[str, Path]:
    """Return the folders of all images' recipes by name, losslab's and a user's own."""
    found = {path.parent.name: path.parent for path in (root / "containers").glob("*/packages.txt")}
    return found | recipes("images", "packages.txt", found)


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
    """Raise HostError if `use` lacks a program of a part of scripts/packages.txt."""
    packages = debian_packages(part)
    absent = [name for name, program in packages.items() if program and not shutil.which(program)]
    if absent:
        raise HostError(
            f"{use} needs programs of Debian packages, found missing: {', '.join(absent)}",
            hint=f"run as root: apt-get install --no-install-recommends {' '.join(packages)}",
        )
