"""The plan of a campaign: its cells, for each all that decides its results, and what is missing.

It also records the campaign's configuration files and the versions of the software.

The workflow writes it to results/plan.json when it starts. `losslab cell` and `losslab collect`
read it there.

A block with `backend: any` runs in Docker containers where this machine has the image of Docker's
engine, and elsewhere in plain hosts of the same guest. Both leave the same bytes.
"""

from __future__ import annotations

import functools
import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from losslab import analysis, extensions, processes
from losslab.backends.base import CONTAINERNET, VIRTUAL
from losslab.campaign import fingerprint, results
from losslab.campaign.results import RESULTS, Row
from losslab.errors import LosslabError
from losslab.instrument import image
from losslab.reading import UsageError, input_errors, read_json, read_yaml
from losslab.repository import ROOT
from losslab.study import design, metrics
from losslab.study.condition import Condition, seed_of
from losslab.study.design import Cell, Study
from losslab.study.intervals import StoppingRule

FILE = "plan.json"
# R packages whose versions affect figures.
R_PACKAGES = ("base", "ggplot2", "svglite", "ragg", "knitr", "dplyr")
# The kind of hosts that the machine which starts a campaign chose, for jobs on other machines.
HOSTS = "LOSSLAB_HOSTS"

Name = tuple[str, str]  # study and cell


@dataclass(frozen=True)
class Planned:
    """A cell of a campaign."""

    cell: Cell
    fingerprint: str
    recorded: bool  # its numbers are recorded, so it is not measured

    def file(self, folder: Path = RESULTS) -> Path:
        """Return the cell's cell.json in a results folder."""
        return results.cell_file(folder, self.cell.study, self.cell.name)

    def to_json(self) -> dict[str, Any]:
        """Return the cell's entry in the plan."""
        cell = asdict(self.cell) | {"condition": self.cell.condition.to_json()}
        return cell | {"cell": self.cell.name, "fingerprint": self.fingerprint,
                       "recorded": self.recorded}  # fmt: skip

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Planned:
        """Make a cell from its entry in the plan."""
        values = {field.name: entry[field.name] for field in fields(Cell)}
        values["condition"] = Condition.from_json(entry["condition"])
        values["stopping"] = StoppingRule(**entry["stopping"])
        return cls(Cell(**values), entry["fingerprint"], entry["recorded"])


@dataclass(frozen=True)
class CampaignPlan:
    """The cells of a campaign, by study and name, in the campaign's order."""

    cells: Mapping[Name, Planned]
    series: Mapping[str, list[str]]  # by study: cells whose time series go into its tables
    left_out: Mapping[str, dict[str, int]]  # by study and block: number of cells not measured
    record: Path | None  # the folder of recorded numbers, if the campaign names one
    measures: bool = True  # whether cells without recorded numbers are measured

    def of_study(self, study: str) -> list[Planned]:
        """List the cells of a study."""
        return [planned for name, planned in self.cells.items() if name[0] == study]

    def require_recorded(self) -> None:
        """Raise UsageError if no cell has recorded numbers."""
        if not any(planned.recorded for planned in self.cells.values()):
            record = self.record or "a folder of recorded numbers (`recorded`)"
            raise UsageError(
                f"with measure: false, {record} must have cells measured with today's sources, "
                f"found none of {len(self.cells)}",
                hint="measure the campaign and record it: losslab record results RECORD --numbers "
                "FOLDER",
            )

    def not_recorded(self) -> list[Planned]:
        """List the cells that stay without numbers, because the campaign does not measure."""
        return [
            planned for planned in self.cells.values() if not (self.measures or planned.recorded)
        ]

    def to_json(self, study: str | None = None) -> dict[str, Any]:
        """Return the plan of a study or of all studies as JSON."""
        named = self.series if study is None else (study,)
        return {
            "cells": [each.to_json() for name in named for each in self.of_study(name)],
            "series": {name: self.series[name] for name in named},
            "left_out": {name: self.left_out[name] for name in named},
            "record": self.record and str(self.record),
            "measures": self.measures,
        }

    def write(self, folder: Path = RESULTS, more: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Write the plan to a results folder, and `facts`."""
        folder.mkdir(parents=True, exist_ok=True)
        results.replace_json({**self.to_json(), **more}, folder / FILE)

    @classmethod
    def read(cls, folder: Path = RESULTS) -> CampaignPlan:
        """Read the plan of a results folder; UsageError if there is none."""
        path = folder / FILE
        changed_ns = path.stat().st_mtime_ns if path.exists() else 0
        return cls._read(path, changed_ns)

    @classmethod
    @functools.lru_cache(1)  # a process and its forks read hundreds of cells once
    def _read(cls, path: Path, changed_ns: int) -> CampaignPlan:
        try:
            data = read_json(path)
            cells = {(each["study"], each["cell"]): each for each in data["cells"]}
            return cls(
                {name: Planned.from_json(each) for name, each in cells.items()},
                {study: list(names) for study, names in data["series"].items()},
                {study: dict(counts) for study, counts in data["left_out"].items()},
                data["record"] and Path(data["record"]),
                data["measures"],
            )
        except (AttributeError, LookupError, LosslabError, TypeError, ValueError) as error:
            raise UsageError(
                f"{path} must be the plan of a campaign, found: {error}",
                hint="start `snakemake` in the campaign's folder: it writes this file",
            ) from error


def make(
    config: Mapping[str, Any], root: Path, available: Callable[[Path, list[Cell]], set[Name]]
) -> tuple[list[Study], CampaignPlan]:
    """Return a configuration's studies and plan; `available` is `records.available`."""
    studies = design.load_studies(with_hosts(config), root)
    cells = [cell for study in studies for cell in study.cells]
    record = Path(config["recorded"]) if config.get("recorded") else None
    known = available(record, cells) if record else set()
    return studies, CampaignPlan(
        {
            (cell.study, cell.name): Planned(
                cell,
                fingerprint.of(cell.condition, cell.backend, cell.where).digest,
                (cell.study, cell.name) in known,
            )
            for cell in cells
        },
        {study.name: study.series for study in studies},
        {study.name: study.left_out for study in studies},
        record,
        config.get("measure", True),
    )


def with_hosts(config: Any) -> Any:
    """Return a campaign's configuration with the kind of hosts for `backend: any`."""
    if not isinstance(config, Mapping):
        return config  # the configuration's schema refuses it
    here = VIRTUAL if image.part(image.ENGINE).existing() is None else CONTAINERNET
    return {"hosts": os.environ.get(HOSTS, here)} | dict(config)


def contradictions(content: Row, cell: Cell) -> list[str]:
    """List the values of a cell.json that are not the planned cell's.

    Such a folder was copied from another campaign: the name has no durations and no seeds. The
    stopping rule does not hold for a cell that ends with a lost guest, or lacks its instrument.
    """
    rows = content["replicates"]
    pairs = [(name, content[name], getattr(cell, name)) for name in ("study", "block")]
    pairs += [
        (f"seed of replicate {number}", row["seed"],
         seed_of(cell.condition, number, cell.seed_family))
        for number, row in enumerate(rows)
    ]  # fmt: skip
    lines = results.other_values(Condition.from_json(content["condition"]), cell.condition)
    lines += [f"{name} {then} instead of {now}" for name, then, now in pairs if then != now]
    lost = any(row.get("lost", False) for row in rows[-1:])
    if not lost and "absent" not in content and not _stopped(rows, cell.stopping):
        rule = f"those after which the stopping rule {cell.stopping} ends"
        lines.append(f"{len(rows)} replicates instead of {rule}")
    return lines


def _stopped(rows: Sequence[Row], rule: StoppingRule) -> bool:
    """Return whether the rule ends a cell after its last replicate, and not before."""
    values: list[float] = []
    for number, row in enumerate(rows):
        if rule.enough(number, values):
            return False
        value = metrics.primary_value(row["summary"])
        if row["valid"] and value is not None:
            values.append(value)
    return rule.enough(len(rows), values)


def reasons(cell: Cell, folder: Path) -> list[str]:
    """List why the next start will measure a cell; empty if it will not."""
    path = results.cell_file(folder, cell.study, cell.name)
    if not path.is_file():
        return ["not measured yet"]
    measured = results.read_cell(path).checked()
    if others := contradictions(measured.content, cell):
        return others
    now = fingerprint.of(cell.condition, cell.backend, cell.where).parts
    reasons: list[str] = []
    for manifest in (replicate.manifest for replicate in measured.replicates):
        then = manifest.get("fingerprint", {}).get("parts", {})
        reasons += [f"{part} changed" for part in fingerprint.differences(then, now)]
        if manifest.get("lost"):
            reasons.append("a guest was lost")
    return list(dict.fromkeys(reasons))


@input_errors()
def to_measure(cells: Iterable[Cell], folder: Path) -> list[str]:
    """Return a line for each cell that will be measured: study, cell and reasons."""
    found = ((cell, reasons(cell, folder)) for cell in cells)
    return [f"{cell.study}\t{cell.name}\t{'; '.join(why)}" for cell, why in found if why]


@dataclass(frozen=True)
class RecordedCampaign:
    """A configuration and its studies."""

    # Paths of its files in the campaign's folder or the repository; only the names of others.
    names: tuple[str, ...]
    config: Mapping[str, Any]  # merged content of the files
    studies: Sequence[Study]
    software: Mapping[str, str]  # versions that drew the figures; empty if not recorded

    @property
    def cells(self) -> list[Cell]:
        """The cells of all studies."""
        return [cell for study in self.studies for cell in study.cells]


def facts(files: Iterable[str | Path], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what plan.json says of a campaign besides its cells."""
    roots = [*filter(None, [extensions.campaign()]), ROOT]
    names = [_name(Path(file), *roots) for file in files]
    return {"files": names, "config": config, "software": software()}


def overrides(files: Iterable[str | Path], config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what `--config` adds to a campaign's files; None if they are of another campaign."""
    from snakemake.utils import update_config  # slow, and only campaigns have it

    merged: dict[str, Any] = {}
    for file in files:
        update_config(merged, read_yaml(Path(file)))
    more = {key: value for key, value in config.items() if merged.get(key) != value}
    update_config(merged, more)
    return more if merged == config else None


def options(overrides: Mapping[str, Any]) -> list[str]:
    """Return Snakemake's options for `overrides`."""
    values = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in overrides.items()]
    return ["--config", *values] if values else []


def _name(file: Path, *roots: Path) -> str:
    """Return a file's path in the first of these folders that has it, or else its name."""
    path = file.resolve()
    found = [root.resolve() for root in roots if path.is_relative_to(root.resolve())]
    return str(path.relative_to(found[0])) if found else path.name


def read_campaign(folder: Path, repository: Path) -> RecordedCampaign:
    """Read the record of a results folder's campaign; UsageError if it is invalid."""
    path = folder / FILE
    try:
        data = read_json(path)
        names, config = (str(data["files"][0]), *map(str, data["files"][1:])), dict(data["config"])
        versions = {str(k): str(v) for k, v in data.get("software", {}).items()}
    except (LosslabError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} must record the campaign of the results, found: {error}",
            hint="start the workflow in the campaign's folder again, which writes it",
        ) from error
    return RecordedCampaign(names, config, design.load_studies(config, repository), versions)


def load_campaign(
    path: Path, repository: Path, versions: Mapping[str, str] = MappingProxyType({})
) -> RecordedCampaign:
    """Load a campaign from its configuration file."""
    config = read_yaml(path)
    if not isinstance(config, dict):
        raise LosslabError(f"{path} must be a campaign's configuration, found no mapping in it")
    studies = design.load_studies(config, repository)
    return RecordedCampaign((_name(path, repository),), config, studies, versions)


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
