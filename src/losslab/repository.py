"""Place of the files that losslab reads: a clone, or the copy in an installed package.

A campaign's folder (`losslab init`) may have algorithms, studies and traces of its own, at the
paths that they have in a clone. losslab then reads a tree of links to its own files and to the
folder's.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from losslab.doors import MARK, VARIABLE
from losslab.errors import HostError, LosslabError

PACKAGE = Path(__file__).resolve().parent
# setup.py copies the clone's files here when it builds a wheel.
COPY = PACKAGE / "share"
INSTALLED = COPY.is_dir()
# losslab's own files.
BASE = COPY if INSTALLED else PACKAGE.parents[1]
TREE = Path(".snakemake", "losslab", "sources")
ALGORITHMS = "config/algorithms.tsv"
# Files that a campaign's folder may add.
ADDED = (
    ALGORITHMS, "algorithms/*/*.c", "analysis/studies/*/**/*.R", "config/columns/*.tsv",
    "config/published/*.csv", "config/studies/*.yaml", "config/traces/[a-z0-9]*", "report/_*.qmd",
    "report/claims/*.yaml",
)  # fmt: skip
# Folders with files that others name by relative paths, which must not leave the tree by a link.
RELATIVE = ("workflow/rules/",)


def _place() -> Path:
    """Return the folder of files to read: losslab's own, or a tree of links.

    Every command needs it before it can print an error, so an error ends the program here.
    """
    try:
        folder = Path(os.environ.get(VARIABLE) or Path.cwd()).resolve()
    except OSError:  # the current folder was removed
        return BASE
    if folder == BASE or not (folder / MARK).is_file():
        return BASE
    try:
        added = sorted({path.relative_to(folder) for each in ADDED for path in folder.glob(each)})
        if not added:
            return BASE
        os.environ[VARIABLE] = str(folder)
        return linked(BASE, folder, added)
    except LosslabError as error:
        print(f"losslab: error: {error}", file=sys.stderr)
    except OSError as error:
        print(
            f"losslab: error: {folder} must be readable and writable, found: {error}\n"
            f"  -> change its permissions, or remove {MARK} there",
            file=sys.stderr,
        )
    sys.exit(2)


def linked(base: Path, folder: Path, added: list[Path]) -> Path:
    """Return a tree of links to the files of `base` and to files that a campaign's folder adds.

    `added` has their paths in the folder; an algorithms.tsv has only rows of its own algorithms.
    Jobs that start at the same time may write the tree together. Raises LosslabError if losslab has
    a file of the same path.
    """
    tree = folder / TREE
    # Real folders; all others are links.
    fixed = [Path(each.partition("*")[0], "x") for each in (*ADDED, *RELATIVE)]
    real = {each for path in fixed for each in path.parents if (base / each).is_dir()}
    wanted = {
        place / path.name: path
        for place in real
        for path in (base / place).iterdir()
        if place / path.name not in real and not path.name.startswith(".")
    }
    for path in added:
        target = next(p for p in (path, *path.parents) if p.parent in real)
        if str(path) != ALGORITHMS and wanted.get(target, folder / target) != folder / target:
            raise LosslabError(
                f"a file of {folder} must not replace losslab's, found {path}",
                hint="rename it",
            )
        wanted[target] = folder / target
    for place in real:
        (tree / place).mkdir(parents=True, exist_ok=True)
        for path in (tree / place).iterdir():
            if path.is_symlink() and path.relative_to(tree) not in {*wanted, *real}:
                path.unlink(missing_ok=True)
    for path, target in wanted.items():
        if str(path) == ALGORITHMS and target == folder / path:
            own = target.read_text().partition("\n")[2]
            _replace(tree / path, (base / path).read_text() + own)
        elif not (tree / path).is_symlink() or (tree / path).readlink() != target:
            _replace(tree / path, target)
    return tree


def _replace(path: Path, content: str | Path) -> None:
    """Write a file with a text, or a link, in one step and only if it differs."""
    written = isinstance(content, str) and path.is_file() and not path.is_symlink()
    if written and path.read_text() == content:
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    if isinstance(content, str):
        partial.write_text(content)
    else:
        partial.symlink_to(content)
    partial.replace(path)


ROOT = _place()
# Commands that prepare the machine, measure a campaign, and install the packages of campaigns.
SET_UP = "losslab setup" if INSTALLED else "make setup"
REPORT = "snakemake --cores all" if INSTALLED else "make report"
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
    """Raise HostError if `use` lacks a program of a part of scripts/packages.txt."""
    packages = debian_packages(part)
    absent = [name for name, program in packages.items() if program and not shutil.which(program)]
    if absent:
        raise HostError(
            f"{use} needs programs of Debian packages, found missing: {', '.join(absent)}",
            hint=f"run as root: apt-get install --no-install-recommends {' '.join(packages)}",
        )
