"""Progress of a campaign: the jobs of each stage, and the runs of measured cells.

Snakemake's messages update a `Tally` in `progress.json`, which `losslab status` reads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from losslab.reading import UsageError, read_json
from losslab.study.schemas import check_schema

# Stage of each rule; any other rule is its own stage.
RULES = {
    "build_image": "instrument",
    "build_kernel": "instrument",
    "smoke_test": "instrument",
    "measure_cell": "measure",
    "collect_study": "tables",
    "summarise_study": "tables",
    "judge_claims": "tables",
    "check_verdicts": "tables",
    "test_agreement": "tables",
    "compare_numbers": "tables",
    "trace_origin": "tables",
    "draw_claims": "figures",
    "draw_path": "figures",
    "render_report": "report",
    "publish_report": "report",
    "make_explorer": "report",
}
PER_STUDY = {"tabulate_": "tables", "plot_": "figures"}  # by prefix of the rule of a study
MODULE = "losslab_"  # prefix that the documentation gives to the rules of a module
MEASURE = "measure"
TARGET = "all"  # the rule that runs nothing itself
FOLDER = Path(".snakemake", "losslab")
PROGRESS_FILE = "progress.json"


def stage_of(rule: str) -> str:
    """Return the stage of a rule, also of a module's (`use rule * from losslab as losslab_*`)."""
    rule = rule.removeprefix(MODULE)
    of_study = (stage for prefix, stage in PER_STUDY.items() if rule.startswith(prefix))
    return next(of_study, RULES.get(rule, rule))


@dataclass
class Stage:
    """Jobs of one kind; times are seconds since 1970."""

    total: int = 0
    done: int = 0
    began_s: float | None = None
    ended_s: float | None = None

    @property
    def over(self) -> bool:
        """Return whether all jobs are done."""
        return self.done >= self.total

    @property
    def under_way(self) -> bool:
        """Return whether jobs have started and some are not done."""
        return self.began_s is not None and not self.over

    def wall_s(self, now_s: float) -> float:
        """Return the seconds from the first job's start to the end, or to now."""
        return 0.0 if self.began_s is None else (self.ended_s or now_s) - self.began_s


@dataclass
class Tally:
    """Jobs of a workflow by stage."""

    began_s: float
    process: int = field(default_factory=os.getpid)
    stages: dict[str, Stage] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    ended_s: float | None = None
    runs: int = 0  # number of runs of measured cells
    invalid: dict[str, int] = field(default_factory=dict)  # invalid runs by cell
    jobs: dict[int, tuple[str, list[str]]] = field(default_factory=dict)  # stage and outputs

    def plan(self, counts: Mapping[str, int]) -> None:
        """Add the number of jobs of each rule, in the order of the stages; others last."""
        order = {stage: place for place, stage in enumerate(dict.fromkeys(RULES.values()))}
        for rule in sorted(counts, key=lambda rule: order.get(stage_of(rule), len(order))):
            if rule not in (TARGET, "total"):
                self.stages.setdefault(stage_of(rule), Stage()).total += counts[rule]

    def start(self, job: int, rule: str, outputs: Sequence[str], now_s: float) -> None:
        """Record that a job starts."""
        if rule != TARGET:
            stage = self.stages.setdefault(stage_of(rule), Stage())
            stage.began_s = stage.began_s or now_s
            self.jobs[job] = stage_of(rule), [*outputs]

    def finish(self, job: int, root: Path, now_s: float) -> str | None:
        """Record that a job succeeded; return its stage's name if that was the last job.

        Measured cells are read from the workflow's folder `root`; `now_s` is seconds since 1970.
        """
        if job not in self.jobs:
            return None
        name, outputs = self.jobs.pop(job)
        if name == MEASURE:
            for output in outputs:
                self._add(root / output, str(Path(output).parent))
        stage = self.stages[name]
        stage.done += 1
        if not stage.over:
            return None
        stage.ended_s = now_s
        return name

    def _add(self, path: Path, cell: str) -> None:
        try:
            runs = [run["valid"] for run in read_json(path)["replicates"]]
        except (KeyError, TypeError, UsageError):
            return  # rules that read the cell report the problem
        self.runs += len(runs)
        if not all(runs):
            self.invalid[cell] = runs.count(False)

    def fail(self, job: int, title: str) -> None:
        """Record that a job failed."""
        self.jobs.pop(job, None)
        self.failures.append(title)

    @property
    def complete(self) -> bool:
        """Return whether all jobs are done without failures."""
        return not self.failures and all(stage.over for stage in self.stages.values())

    def write(self, folder: Path) -> None:
        """Replace the progress file atomically."""
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{PROGRESS_FILE}.partial"
        partial.write_text(json.dumps(asdict(self) | {"jobs": {}}))
        partial.replace(folder / PROGRESS_FILE)

    @classmethod
    def read(cls, folder: Path) -> Tally | None:
        """Read the progress file; return None if there is none; UsageError if it is malformed."""
        path = folder / PROGRESS_FILE
        if not path.exists():
            return None
        data: dict[str, Any] = read_json(path)
        check_schema(data, "progress", str(path), "start the campaign again: it writes a new one")
        stages = {name: Stage(**stage) for name, stage in data["stages"].items()}
        return cls(**data | {"stages": stages})
