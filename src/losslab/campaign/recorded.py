"""Which campaign a results folder is of: its configuration, as the workflow left it there."""

from __future__ import annotations

import functools
import platform
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.campaign.folder import read_json, replace_json
from losslab.errors import LosslabError
from losslab.study import design
from losslab.study.design import Cell, Study

# In a results folder, the configuration that made it, and the software that drew its figures.
CAMPAIGN_FILE = "campaign.json"
# R packages whose versions decide how figures look.
R_PACKAGES = ("base", "ggplot2", "svglite", "ragg", "knitr", "dplyr")


@dataclass(frozen=True)
class RecordedCampaign:
    """A configuration and the studies that it measures."""

    # Its files, by their paths in the repository; others by their names alone.
    names: tuple[str, ...]
    config: Mapping[str, Any]  # what they say together
    studies: Sequence[Study]  # the studies
    software: Mapping[str, str]  # the versions that drew the figures; empty if not recorded

    @property
    def cells(self) -> list[Cell]:
        """List the cells of its studies."""
        return [cell for study in self.studies for cell in study.cells]

    def files(self, repository: Path, folder: Path) -> list[Path]:
        """Give configuration files for the workflow; those of the repository where they agree."""
        [first, *_] = self.names
        there = repository / first
        if len(self.names) == 1 and there.is_file() and design.load_yaml(there) == self.config:
            return [there]
        written = [folder / Path(name).name for name in self.names]
        for path, content in zip(written, [self.config, *([{}] * len(written))], strict=False):
            replace_json(content, path)
        return written


def record(results: Path, files: Iterable[str | Path], config: Mapping[str, Any]) -> None:
    """Note in a results folder which campaign it is of.

    Raises HostError if the file cannot be written.
    """
    root = design.ROOT.resolve()
    paths = [Path(file).resolve() for file in files]
    names = [str(p.relative_to(root)) if p.is_relative_to(root) else p.name for p in paths]
    results.mkdir(exist_ok=True)
    replace_json(
        {"files": names, "config": config, "software": software()}, results / CAMPAIGN_FILE
    )


def read(results: Path, repository: Path) -> RecordedCampaign:
    """Read the campaign that a results folder is of.

    Raises LosslabError if the folder does not say it, or names studies that the repository lacks.
    """
    path = results / CAMPAIGN_FILE
    try:
        data = read_json(path)
        names, config = tuple(map(str, data["files"])), dict(data["config"])
        versions = {str(k): str(v) for k, v in data.get("software", {}).items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise LosslabError(
            f"{path} must say which campaign the results are of, found: {error}",
            hint="name the configuration file: `--campaign config/quick.yaml`",
        ) from error
    return RecordedCampaign(names, config, design.load_studies(config, repository), versions)


def load(
    path: Path, repository: Path, versions: Mapping[str, str] | None = None
) -> RecordedCampaign:
    """Read a campaign from its configuration file.

    Raises LosslabError if it is not a campaign's configuration.
    """
    config = design.load_yaml(path)
    if not isinstance(config, dict):
        raise LosslabError(f"{path} must be a campaign's configuration, found no mapping in it")
    whole, root = path.resolve(), repository.resolve()
    name = str(whole.relative_to(root)) if whole.is_relative_to(root) else whole.name
    studies = design.load_studies(config, repository)
    return RecordedCampaign((name,), config, studies, versions or {})


@functools.cache
def software() -> dict[str, str]:
    """Return the versions of what draws figures and renders the report; empty without R."""
    code = "for (name in commandArgs(TRUE)) cat(as.character(packageVersion(name)), '\\n')"
    done = processes.attempt(["Rscript", "--vanilla", "-e", code, *R_PACKAGES])
    lines = done.out.split()
    if not done.good or len(lines) != len(R_PACKAGES):
        return {}
    quarto = shutil.which("quarto")
    renderer = processes.attempt([quarto, "--version"]).out.strip() if quarto else "none"
    versions = dict(zip((f"r-{name}" for name in R_PACKAGES), lines, strict=True))
    python = ".".join(platform.python_version_tuple()[:2])
    return versions | {"quarto": renderer, "python": python}
