"""Where a study's files lie: each under its name, so that its YAML file alone makes it known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.errors import LosslabError
from losslab.reading import input_errors
from losslab.study.suite import load_study, suite_path

if TYPE_CHECKING:
    from losslab.study.design import Study


def known(root: Path) -> list[str]:
    """Name every study of the repository `root`."""
    return sorted(path.stem for path in (root / "config" / "studies").glob("*.yaml"))


def published(root: Path, study: str) -> list[Path]:
    """Give the file of a study's published numbers, if it has one."""
    path = root / "config" / "published" / f"{study}.csv"
    return [path] if path.exists() else []


def suite(root: Path, study: str) -> list[Path]:
    """Give the file of the suite that a study runs, if it runs one."""
    named = load_study(study, root).get("suite")
    return [suite_path(named, root)] if named else []


def claims(root: Path, study: str) -> Path:
    """Give the file of a study's claims."""
    return root / "report" / "claims" / f"{study}.yaml"


def chapter(root: Path, study: str) -> Path:
    """Give a study's chapter of the report."""
    return root / "report" / f"_{study}.qmd"


def tables(root: Path, study: str) -> Path:
    """Give the R file that makes a study's tables."""
    return root / "analysis" / "studies" / study / "tables.R"


def figure(root: Path, study: str, name: str) -> Path:
    """Give the R file that draws one of a study's figures."""
    return root / "analysis" / "studies" / study / "figures" / f"{name}.R"


def functions(root: Path, studies: Iterable[str]) -> list[Path]:
    """List the R files of functions that all studies have, and of those that these have."""
    folders = [root / "analysis" / "R", *(tables(root, study).parent for study in studies)]
    found = [path for folder in folders for path in sorted(folder.glob("*.R"))]
    return [path for path in found if path.name != "tables.R" or path.parent == folders[0]]


@input_errors()
def check(studies: Iterable[Study], root: Path) -> None:
    """Check that studies have the files that their YAML files name, and no other figures."""
    for study in studies:
        yaml = root / "config" / "studies" / f"{study.name}.yaml"
        drawn = {figure(root, study.name, name) for name in study.figures}
        needed = [chapter(root, study.name), tables(root, study.name), *sorted(drawn)]
        if missing := [str(path.relative_to(root)) for path in needed if not path.is_file()]:
            raise LosslabError(
                f"study {study.name} must have its files, found no {', '.join(missing)}",
                hint=f"write them, or take figures that are not meant out of {yaml}",
            )
        there = figure(root, study.name, "").parent.glob("*.R")
        if unnamed := sorted(path.stem for path in set(there) - drawn):
            raise LosslabError(
                f"figures of {yaml} must be all that the study has, found files of "
                f"{', '.join(unnamed)} besides"
            )
