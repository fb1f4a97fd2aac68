"""R code, figures, tables and chapters of a campaign's studies, for the workflow's rules.

A study's tables and figures depend on all functions of `analysis/R` and of the study's own folder;
each figure also depends on its own file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from losslab.campaign.codelock import PACKAGE
from losslab.errors import LosslabError
from losslab.instrument import analysis
from losslab.repository import ROOT
from losslab.study import studyfiles
from losslab.study.design import Study

# Top-level definitions of R files.
DEFINITION = re.compile(r"^([A-Za-z.][\w.]*) *<-", re.MULTILINE)
# Output of the rule that renders the report.
RENDERED = ".snakemake/losslab/rendered"
# Name endings of the run explorer's page and of the modules that fill it.
EXPLORER_FILES = (".html", ".css", ".js", "explorer.py", "series.py")


def require_programs(workflow: Any) -> None:
    """Raise HostError if a program is missing that jobs in R, or the report, need.

    Jobs of other machines and of conda environments have programs that this process has not.
    """
    if not workflow.local_exec or workflow.deployment_settings.deployment_method:
        return
    use, jobs = "this campaign", list(workflow.dag.needrun_jobs())
    if any(str(job.rule.script).endswith(".R") for job in jobs):
        analysis.require_r(use)
    if any(RENDERED in job.output for job in jobs):
        analysis.require_renderer(use)


def require_defined_once(functions: Iterable[Path]) -> None:
    """Raise LosslabError if two R files have the same name or define the same function.

    The report copies all files to one folder and reads them into one environment.
    """
    first: dict[str, Path] = {}
    for path in functions:
        for name in (path.name, *DEFINITION.findall(path.read_text())):
            other = first.setdefault(name, path)
            if other != path:
                raise LosslabError(
                    "R files and functions must have unique names, found "
                    f"{name} in {other} and {path}",
                    hint="rename the study's file or function",
                )


class Analysis:
    """The analysis files of a campaign's studies."""

    def __init__(self, studies: Mapping[str, Study], root: Path = ROOT) -> None:
        """Check the studies' R functions."""
        self._studies, self._root = studies, root
        self._scripts = root / "analysis"
        require_defined_once(studyfiles.functions(root, studies))

    def functions(self, *studies: str) -> list[str]:
        """List the R files with functions: the shared ones, and the given studies' own."""
        return [str(path) for path in studyfiles.functions(self._root, studies)]

    # A study's tables

    def table_code(self, study: str) -> str:
        """Return the path of the R file that makes a study's tables."""
        return str(studyfiles.tables(self._root, study))

    def table_files(self, study: str) -> dict[str, str]:
        """Return the files of a study's tables by name."""
        return {
            table: f"results/tables/{study}_{table}.csv" for table in self._studies[study].tables
        }

    def published(self, study: str) -> list[str]:
        """List the file of a study's published numbers, if it has one."""
        return list(map(str, studyfiles.published(self._root, study)))

    def curves(self, study: str) -> list[str]:
        """List the file of a study's published curves, if it has one."""
        return list(map(str, studyfiles.curves(self._root, study)))

    def suite(self, study: str) -> list[str]:
        """List the file of the suite that a study runs, if it runs one."""
        return list(map(str, studyfiles.suite_files(self._root, study)))

    def figure_code(self, study: str) -> list[str]:
        """List the R files that draw a study's figures."""
        figures = self._studies[study].figures
        return [str(studyfiles.figure(self._root, study, figure)) for figure in figures]

    def figure_files(self, study: str, *suffixes: str) -> list[str]:
        """List the files of a study's figures with some suffixes."""
        return [
            f"results/figures/{study}_{figure}.{suffix}"
            for figure in self._studies[study].figures
            for suffix in suffixes
        ]

    # The report

    def chapters(self) -> list[str]:
        """List the chapters: one per study, and the one on the reliability of the numbers."""
        chapters = [studyfiles.chapter(self._root, study) for study in self._studies]
        return list(map(str, [*chapters, self._root / "report" / "_agreement.qmd"]))

    def figures(self) -> list[str]:
        """List the files of the studies' figures that the report shows."""
        shown = ("svg", "narrow.svg", "txt", "cells.csv")
        return [file for study in self._studies for file in self.figure_files(study, *shown)]

    def tables(self) -> list[str]:
        """List the studies' tables."""
        return [file for study in self._studies for file in self.table_files(study).values()]

    def renderer(self) -> list[str]:
        """List the source files of the report's renderer."""
        names = ("report.py", "instrument/quarto.py")
        modules = [PACKAGE / name for name in names]
        return list(map(str, [*modules, *sorted((self._root / "report" / "render").iterdir())]))

    def scripts(self) -> list[str]:
        """List the R scripts that the report links to."""
        found = [self._scripts / "agreement.R", self._scripts / "factors.R"]
        for study in self._studies.values():
            found.append(studyfiles.tables(self._root, study.name))
            found += [studyfiles.figure(self._root, study.name, name) for name in study.figures]
        return list(map(str, found))

    def explorer_code(self) -> list[str]:
        """List the source files of the run explorer's page."""
        folders = (self._root / "report" / "explorer", PACKAGE / "ui")
        return [
            str(path)
            for folder in folders
            for path in sorted(folder.rglob("*.*"))
            if path.name.endswith(EXPLORER_FILES)
        ]
