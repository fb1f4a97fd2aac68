"""R code, figures, tables and chapters of a campaign's studies, as rules name them.

All functions of `analysis/R` and of a study's own folder count for each of its tables and figures;
a figure's own file counts for that figure alone. What code means counts (`campaign.meaning`), not
when its file was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from losslab.campaign import fingerprint, meaning
from losslab.errors import LosslabError
from losslab.study import design, files
from losslab.study.design import Study

# What R files define at their top level.
DEFINITION = re.compile(r"^([A-Za-z.][\w.]*) *<-", re.MULTILINE)
# The page of the run explorer, and the modules that fill it.
OF_EXPLORER = (".html", ".css", ".js", "explorer.py", "series.py")


def require_defined_once(functions: Iterable[Path]) -> None:
    """Refuse R functions that are defined in two files, or two files of one name.

    The report reads all of them into one environment, from one folder.
    """
    home: dict[str, Path] = {}
    for path in functions:
        for name in (path.name, *DEFINITION.findall(path.read_text())):
            other = home.setdefault(name, path)
            if other != path:
                raise LosslabError(
                    f"files of R functions, and what they define, must differ in name, found "
                    f"{name} in {other} and {path}",
                    hint="give the one of the study another name",
                )


class Analysis:
    """Files of the studies of a campaign."""

    def __init__(self, studies: Mapping[str, Study], root: Path = design.ROOT) -> None:
        """Check the studies' R functions."""
        self._studies, self._root = studies, root
        self._scripts = root / "analysis"
        require_defined_once(files.functions(root, studies))

    def functions(self, *studies: str) -> list[str]:
        """List the files of R functions that all studies have, and of those that these have."""
        return [str(path) for path in files.functions(self._root, studies)]

    def meaning(self, script: str, study: str | None = None, code: str | None = None) -> str:
        """Return what the R code of a job means, in place of its files' times.

        Snakemake compares no parameter that depends on `input`. `study`: the study that it is run
        for, if it is one.
        """
        functions = files.functions(self._root, [study] if study else [])
        own = [Path(code)] if code else []
        return meaning.of_files([*functions, self._scripts / script, *own])

    # A study's tables

    def table_code(self, study: str) -> str:
        """Return the R file that makes a study's tables."""
        return str(files.tables(self._root, study))

    def table_files(self, study: str) -> dict[str, str]:
        """Map the names of a study's tables to their files."""
        return {
            table: f"results/tables/{study}_{table}.csv" for table in self._studies[study].tables
        }

    def published(self, study: str) -> list[str]:
        """List the file of a study's published numbers, if it has one."""
        return list(map(str, files.published(self._root, study)))

    def suite(self, study: str) -> list[str]:
        """List the file of the suite that a study runs, if it runs one."""
        return list(map(str, files.suite(self._root, study)))

    def figure_code(self, wildcards: Any) -> str:
        """Return the R file that draws a job's figure."""
        return str(files.figure(self._root, wildcards.study, wildcards.figure))

    def figure_meaning(self, wildcards: Any) -> str:
        """Return what the R code of a job's figure means."""
        return self.meaning("figure.R", wildcards.study, self.figure_code(wildcards))

    # The report

    def chapters(self) -> list[str]:
        """List the chapters: one per study, and the one on what their numbers are worth."""
        chapters = [files.chapter(self._root, study) for study in self._studies]
        return list(map(str, [*chapters, self._root / "report" / "_agreement.qmd"]))

    def figures(self) -> list[str]:
        """List what the report shows of the studies' figures."""
        return [
            f"results/figures/{study.name}_{figure}.{suffix}"
            for study in self._studies.values()
            for figure in study.figures
            for suffix in ("svg", "txt", "cells.csv")
        ]

    def tables(self) -> list[str]:
        """List the studies' tables."""
        return [file for study in self._studies for file in self.table_files(study).values()]

    def scripts(self) -> list[str]:
        """List the scripts that the report leads to."""
        found = [self._scripts / "agreement.R"]
        for study in self._studies.values():
            found.append(files.tables(self._root, study.name))
            found += [files.figure(self._root, study.name, name) for name in study.figures]
        return list(map(str, found))

    def explorer_code(self) -> list[str]:
        """List what the run explorer's page is made of."""
        folders = (self._root / "report" / "explorer", fingerprint.PACKAGE / "screen")
        return [
            str(path)
            for folder in folders
            for path in sorted(folder.rglob("*.*"))
            if path.name.endswith(OF_EXPLORER)
        ]
