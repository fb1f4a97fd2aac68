"""The plan of a campaign: its cells, and for each all that decides its results.

The workflow writes it to results/plan.json when it starts. `losslab cell`, `losslab collect` and
`losslab status` read it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.campaign import fingerprint, hosts
from losslab.campaign.folder import replace_json
from losslab.errors import LosslabError
from losslab.reading import UsageError, read_json
from losslab.study import design
from losslab.study.condition import Condition
from losslab.study.design import Cell, Study
from losslab.study.intervals import StoppingRule

RESULTS, FILE = Path("results"), "plan.json"

Name = tuple[str, str]  # study and cell


@dataclass(frozen=True)
class Planned:
    """A cell of a campaign."""

    cell: Cell
    fingerprint: str
    recorded: bool  # its numbers are recorded, so it is not measured

    @property
    def folder(self) -> Path:
        """The cell's folder in a results folder."""
        return Path("cells", self.cell.study, self.cell.name)

    def to_json(self) -> dict[str, Any]:
        """Return the cell's entry in the plan."""
        cell, rule = self.cell, self.cell.stopping
        return {
            "study": cell.study,
            "cell": cell.name,
            "block": cell.block,
            "condition": cell.condition.to_json(),
            "backend": cell.backend,
            "where": cell.where,
            "any_backend": cell.any_backend,
            "stopping": [rule.minimum, rule.maximum, rule.half_width_percent],
            "seed_family": cell.seed_family,
            "fingerprint": self.fingerprint,
            "recorded": self.recorded,
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Planned:
        """Make a cell from its entry in the plan."""
        cell = Cell(
            study=entry["study"],
            block=entry["block"],
            condition=Condition.from_json(entry["condition"]),
            stopping=StoppingRule(*entry["stopping"]),
            backend=entry["backend"],
            where=entry["where"],
            seed_family=entry["seed_family"],
            any_backend=entry["any_backend"],
        )
        return cls(cell, entry["fingerprint"], entry["recorded"])


@dataclass(frozen=True)
class Plan:
    """The cells of a campaign.

    Attributes:
        cells: The cells by study and name, in the campaign's order.
        series: The cells of each study whose time series go into its tables.
        left_out: For each study, the number of cells by block that the campaign does not measure.
        record: The folder of recorded numbers, if the campaign names one.
    """

    cells: Mapping[Name, Planned]
    series: Mapping[str, list[str]]
    left_out: Mapping[str, dict[str, int]]
    record: Path | None

    def of_study(self, study: str) -> list[Planned]:
        """List the cells of a study."""
        return [planned for name, planned in self.cells.items() if name[0] == study]

    def to_json(self, study: str | None = None) -> dict[str, Any]:
        """Return the plan of a study or of all studies as JSON."""
        named = self.series if study is None else (study,)
        return {
            "cells": [each.to_json() for name in named for each in self.of_study(name)],
            "series": {name: self.series[name] for name in named},
            "left_out": {name: self.left_out[name] for name in named},
            "record": self.record and str(self.record),
        }

    def write(self, results: Path = RESULTS) -> None:
        """Write the plan to a results folder; HostError if that fails."""
        results.mkdir(parents=True, exist_ok=True)
        replace_json(self.to_json(), results / FILE)

    @classmethod
    def read(cls, results: Path = RESULTS) -> Plan:
        """Read the plan of a results folder; UsageError if there is none."""
        hint = "start `snakemake` in the campaign's folder: it writes this file"
        try:
            data = read_json(results / FILE)
            cells = {(each["study"], each["cell"]): each for each in data["cells"]}
            return cls(
                {name: Planned.from_json(each) for name, each in cells.items()},
                {study: list(names) for study, names in data["series"].items()},
                {study: dict(counts) for study, counts in data["left_out"].items()},
                data["record"] and Path(data["record"]),
            )
        except (AttributeError, LookupError, LosslabError, TypeError, ValueError) as error:
            raise UsageError(
                f"{results / FILE} must be the plan of a campaign, found: {error}", hint=hint
            ) from error


def make(config: Mapping[str, Any], root: Path) -> tuple[list[Study], Plan]:
    """Return a configuration's studies and plan; LosslabError if it is invalid."""
    from losslab.campaign import recorded_numbers  # `losslab cell` does not need it

    studies = design.load_studies(hosts.chosen(config), root)
    cells = [cell for study in studies for cell in study.cells]
    record = Path(config["recorded"]) if config.get("recorded") else None
    known = recorded_numbers.available(record, cells) if record else set()
    return studies, Plan(
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
    )
