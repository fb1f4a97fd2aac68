"""Cases that span the cells of scenarios: their runs, and their verdicts (campaign/criteria.py).

The runs have the seeds of a campaign, so the numbers are those of a report with the same form,
unless another family of seeds is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from losslab.backends.base import VIRTUAL
from losslab.campaign import cost, criteria, inputs
from losslab.campaign.criteria import SIDES, Data
from losslab.campaign.results import Replicate, Row
from losslab.campaign.tables import one_second_means
from losslab.emulation.app import apps
from losslab.repository import ROOT
from losslab.study import design, parameters, studyfiles
from losslab.study.axes import NONE
from losslab.study.condition import FIRST_FAMILY, seed_of
from losslab.study.design import Cell
from losslab.tools.conform.judge import verdict_of
from losslab.tools.conform.runs import Result, Runs
from losslab.tools.conform.suite import Case

INTERVALS = "intervals.csv"
NUMBER = ("value", "low", "high", "n", *SIDES)


@dataclass(frozen=True)
class Spans:
    """The cases of a suite that span cells, for an algorithm, with all cells that they need."""

    suite: dict[str, Any]
    cases: Sequence[Case]
    own: Mapping[str, str]  # axes of the algorithm
    cells: Mapping[str, Cell] = field(default_factory=dict)
    seeds: int | None = None  # runs of each cell; None: as the suite says
    family: int = FIRST_FAMILY  # of the seeds

    @staticmethod
    def of(
        suite: dict[str, Any],
        cases: Sequence[Case],
        axes: Mapping[str, str],
        form: str,
        seeds: int | None,
        family: int = FIRST_FAMILY,
    ) -> Spans:
        """Plan the cells of cases in a form of the suite."""
        own = {"algorithm": axes["algorithm"], "parameters": NONE}
        spans = Spans(suite, cases, own | parameters.resolved(axes), seeds=seeds, family=family)
        others = [check.get("against", {}).get("algorithm") for _, check in spans.checks()]
        algorithms = list(dict.fromkeys([axes["algorithm"], *filter(None, others)]))
        blocks = studyfiles.blocks(suite, algorithms, studyfiles.own_kernels(ROOT))
        more = {key: axes[key] for key in ("kernel",) if key in axes}
        study = {
            "study": suite["suite"],
            "defaults": suite["defaults"],
            "blocks": {name: [more | point for point in points] for name, points in blocks.items()},
        }
        wanted = {block for case in cases for block in studyfiles.as_list(case.data["over"])}
        runs = studyfiles.runs(suite, form)
        runs = {name: runs[name] for name in runs if name in wanted and blocks[name]}
        planned = design.study_cells(study, runs, design.load_names(ROOT))
        spans = replace(spans, cells={cell.name: cell for cell in planned})
        needed = {
            each["cell"]
            for case, check in spans.checks()
            for pair in criteria.pairs(case.data, check, spans.own, spans.rows())
            for each in pair
            if each
        }
        planned_spans = replace(spans, cells={name: spans.cells[name] for name in needed})
        inputs.require(cell.condition for cell in planned_spans.cells.values())
        return planned_spans

    def checks(self) -> Iterator[tuple[Case, Row]]:
        """Yield the checks of all cases."""
        yield from ((case, check) for case in self.cases for check in case.data["expect"])

    def rows(self) -> list[Row]:
        """Return the cells as rows of a table, without results."""
        return [
            {"block": cell.block, "cell": name, **cell.condition.to_json(), "reasons": ""}
            | {"n_valid": 0, "n_replicates": 0}
            for name, cell in self.cells.items()
        ]

    def seeds_of(self, name: str) -> list[int]:
        """Return the seeds of a cell's runs."""
        cell = self.cells[name]
        count = self.seeds or cell.stopping.minimum
        return [seed_of(cell.condition, number, self.family) for number in range(count)]

    def minutes(self, cores: int) -> float:
        """Return the estimated time of all runs in min."""
        seconds = sum(
            cost.CELL_S[VIRTUAL]
            + len(self.seeds_of(name)) * cost.replicate_s(cell.condition, VIRTUAL)
            for name, cell in self.cells.items()
        )
        slowdown = cost.SIDE_BY_SIDE if cores > 1 else 1.0
        return seconds * slowdown / cores / 60

    def judged(self, runs: Runs) -> dict[str, list[Result]]:
        """Measure the cells; return the only result of each case by name."""
        plain = replace(runs, captures=())
        plain.measure(
            ((cell.condition, seed) for name, cell in self.cells.items()
             for seed in self.seeds_of(name)),
            "runs",
        )  # fmt: skip
        cells = self.rows()
        data = Data(self.suite, cells, {row["cell"]: self._valid_runs(row, plain) for row in cells})
        return {case.name: [self._result(case, data, plain)] for case in self.cases}

    def _valid_runs(self, row: Row, runs: Runs) -> list[Row]:
        """Return the valid runs of a cell, and count them in its row."""
        condition = self.cells[row["cell"]].condition
        valid_runs: list[Row] = []
        reasons: dict[str, None] = {}
        for number, seed in enumerate(self.seeds_of(row["cell"])):
            replicate = Replicate(runs.folder(condition, seed))
            row["n_replicates"] += 1
            if why := replicate.manifest["reasons"]:
                reasons |= dict.fromkeys(why)
                continue
            seconds = []
            if apps()[condition.app].per_second:
                times = condition.warmup_s, condition.duration_s
                means = one_second_means(replicate.samples(INTERVALS), *times)
                seconds = [mean for _, mean in means]
            summary = replicate.manifest["summary"] | condition.to_json()
            valid_runs.append(summary | {"replicate": number, "seed": seed, "seconds": seconds})
        row |= {"n_valid": len(valid_runs), "reasons": "; ".join(reasons)}
        return valid_runs

    def _result(self, case: Case, data: Data, runs: Runs) -> Result:
        rows = [criteria.judge(case.name, check, self.own, data) for check in case.data["expect"]]
        steps = [
            {key: check[key] for key in ("step", "ours") if key in check}
            | {"verdict": row["verdict"], "text": text(row)}
            | {"number": {key: row[key] for key in NUMBER if row[key] is not None}}
            for check, row in zip(case.data["expect"], rows, strict=True)
        ]
        verdict, why = verdict_of([], steps)
        result = {"verdict": verdict, "why": why, "holds": [], "steps": steps}
        worst = next(row for row in rows if row["verdict"] == verdict)
        cell = worst["worst"] or worst["cells"].partition(" ")[0]
        if not cell:
            return result | {"seed": 0, "command": ""}
        condition, seed = self.cells[cell].condition, self.seeds_of(cell)[0]
        command = runs.command(condition, seed, case.name)
        folder = str(runs.folder(condition, seed))
        return result | {"seed": seed, "command": command, "folder": folder}


def family_of(words: str) -> int:
    """Draw a family of seeds from a text, such as a commit; without one, return the first."""
    if not words:
        return FIRST_FAMILY
    return FIRST_FAMILY + 1 + int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big")


def text(row: Row) -> str:
    """Return the number that decides, with its confidence interval and cell."""
    if row["value"] is None:
        return f"{row['metric']} has no value: {row['absent']}"
    ends = [row["low"], row["high"]]
    within = "" if None in ends else f" [{ends[0]:.3g}, {ends[1]:.3g}]"
    count = len(row["cells"].split())
    cells = f", worst of {count} cells: {row['worst']}" if count > 1 else ""
    unit = f" {row['unit']}" if row["unit"] else ""
    number = f"{row['metric']} is {row['value']:.3g}{within}{unit}"
    absent = f", {row['absent']}" if row["absent"] else ""
    return f"{number}, must be {row['limit']} (n = {row['n']}{cells}{absent})"
