"""A campaign's configuration files and software versions, which its plan.json records."""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.campaign import plan
from losslab.campaign.results import replace_json
from losslab.errors import LosslabError
from losslab.instrument import analysis
from losslab.reading import read_json
from losslab.repository import ROOT
from losslab.study import design
from losslab.study.design import Cell, Study

CAMPAIGN_FILE = plan.FILE
# R packages whose versions affect figures.
R_PACKAGES = ("base", "ggplot2", "svglite", "ragg", "knitr", "dplyr")


@dataclass(frozen=True)
class RecordedCampaign:
    """A configuration and its studies."""

    # Paths of its files in the repository; only the names of files outside.
    names: tuple[str, ...]
    config: Mapping[str, Any]  # merged content of the files
    studies: Sequence[Study]
    software: Mapping[str, str]  # versions that drew the figures; empty if not recorded

    @property
    def cells(self) -> list[Cell]:
        """The cells of all studies."""
        return [cell for study in self.studies for cell in study.cells]

    def files(self, repository: Path, folder: Path) -> list[Path]:
        """Return configuration files for the workflow.

        If the campaign has one file and the repository's is the same, return that; otherwise write
        files to `folder`.
        """
        [first, *_] = self.names
        own = repository / first
        if len(self.names) == 1 and own.is_file() and design.load_yaml(own) == self.config:
            return [own]
        written = [folder / Path(name).name for name in self.names]
        for path, content in zip(written, [self.config, *([{}] * len(written))], strict=False):
            replace_json(content, path)
        return written


def facts(files: Iterable[str | Path], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what plan.json says of a campaign besides its cells."""
    root = ROOT.resolve()
    paths = [Path(file).resolve() for file in files]
    names = [str(p.relative_to(root)) if p.is_relative_to(root) else p.name for p in paths]
    return {"files": names, "config": config, "software": software()}


def read(results: Path, repository: Path) -> RecordedCampaign:
    """Read the record of a results folder's campaign.

    Raises LosslabError if the record is missing or invalid, or names studies that the repository
    lacks.
    """
    path = results / CAMPAIGN_FILE
    try:
        data = read_json(path)
        names, config = tuple(map(str, data["files"])), dict(data["config"])
        versions = {str(k): str(v) for k, v in data.get("software", {}).items()}
    except (LosslabError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise LosslabError(
            f"{path} must record the campaign of the results, found: {error}",
            hint="name the configuration file, for example `--campaign config/quick.yaml`",
        ) from error
    return RecordedCampaign(names, config, design.load_studies(config, repository), versions)


def load(
    path: Path, repository: Path, versions: Mapping[str, str] | None = None
) -> RecordedCampaign:
    """Load a campaign from its configuration file; LosslabError if it is none."""
    config = design.load_yaml(path)
    if not isinstance(config, dict):
        raise LosslabError(f"{path} must be a campaign's configuration, found no mapping in it")
    file, root = path.resolve(), repository.resolve()
    name = str(file.relative_to(root)) if file.is_relative_to(root) else file.name
    studies = design.load_studies(config, repository)
    return RecordedCampaign((name,), config, studies, versions or {})


@functools.cache
def software() -> dict[str, str]:
    """Return the versions of the software that draws figures and the report; empty without R."""
    code = "for (name in commandArgs(TRUE)) cat(as.character(packageVersion(name)), '\\n')"
    done = processes.attempt(["Rscript", "--vanilla", "-e", code, *R_PACKAGES])
    lines = done.out.split()
    if not done.good or len(lines) != len(R_PACKAGES):
        return {}
    program = analysis.quarto()
    renderer = analysis.quarto_version(program) if program else "none"
    versions = dict(zip((f"r-{name}" for name in R_PACKAGES), lines, strict=True))
    python = ".".join(platform.python_version_tuple()[:2])
    return versions | {"quarto": renderer, "python": python}
