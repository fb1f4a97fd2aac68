"""The paths of a study's files, which follow from its name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.errors import LosslabError
from losslab.reading import input_errors
from losslab.repository import find, listed
from losslab.study.suite import load_study, suite_path

if TYPE_CHECKING:
    from losslab.study.design import Study


def study_names(root: Path) -> list[str]:
    """List the names of all studies of the repository `root`."""
    return [path.stem for path in listed("config/studies/*.yaml", root)]


def published(root: Path, study: str) -> list[Path]:
    """List the file of a study's published numbers, if it has one."""
    path = find(f"config/published/{study}.csv", root)
    return [path] if path.exists() else []


def curves(root: Path, study: str) -> list[Path]:
    """List the file of a study's published curves, if it has one."""
    path = find(f"config/published/{study}_curves.csv", root)
    return [path] if path.exists() else []


def suite(root: Path, study: str) -> list[Path]:
    """List the file of the suite that a study runs, if it runs one."""
    named = load_study(study, root).get("suite")
    return [suite_path(named, root)] if named else []


def claims(root: Path, study: str) -> Path:
    """Return the path of a study's claims."""
    return find(f"report/claims/{study}.yaml", root)


def chapter(root: Path, study: str) -> Path:
    """Return the path of a study's chapter of the report."""
    return find(f"report/_{study}.qmd", root)


def tables(root: Path, study: str) -> Path:
    """Return the path of the R file that makes a study's tables."""
    return find(f"analysis/studies/{study}/tables.R", root)


def figure(root: Path, study: str, name: str) -> Path:
    """Return the path of the R file that draws one of a study's figures."""
    return find(f"analysis/studies/{study}/figures/{name}.R", root)


def functions(root: Path, studies: Iterable[str]) -> list[Path]:
    """List the R files with functions: those that all studies share, and the given studies' own."""
    shared = listed("analysis/R/*.R", root)
    own = [path for study in studies for path in listed(f"analysis/studies/{study}/*.R", root)]
    return [*shared, *(path for path in own if path.name != "tables.R")]


@input_errors()
def check(studies: Iterable[Study], root: Path) -> None:
    """Check that studies have all files that their YAML files name, and no other figures."""
    for study in studies:
        yaml = find(f"config/studies/{study.name}.yaml", root)
        drawn = {figure(root, study.name, name) for name in study.figures}
        needed = [chapter(root, study.name), tables(root, study.name), *sorted(drawn)]
        if missing := [str(path.relative_to(root)) for path in needed if not path.is_file()]:
            raise LosslabError(
                f"files of study {study.name} are missing: {', '.join(missing)}",
                hint=f"write them, or remove figures from {yaml}",
            )
        present = listed(f"analysis/studies/{study.name}/figures/*.R", root)
        if unnamed := [path.stem for path in present if path not in drawn]:
            raise LosslabError(
                f"{yaml} must name all of the study's figures, found other files: "
                f"{', '.join(unnamed)}"
            )
