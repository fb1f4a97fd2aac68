"""A campaign's stages: how many of their jobs there are, and how many are done."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from losslab.reading import read_json
from losslab.study.reading import check_schema

# The workflow's rules by the stage that a reader sees; a rule by itself is its own stage.
RULES = {
    "build_image": "instrument",
    "build_kernel": "instrument",
    "try_instrument": "instrument",
    "measure_cell": "measure",
    "collect_study": "tables",
    "summarise_study": "tables",
    "judge_claims": "tables",
    "check_verdicts": "tables",
    "test_agreement": "tables",
    "trace_origin": "tables",
    "plot_figure": "figures",
    "draw_claims": "figures",
    "draw_path": "figures",
    "render_report": "report",
    "make_explorer": "report",
}
TABULATE = "tabulate_"  # a rule per study
MEASURE = "measure"
# The rule that asks for everything else does nothing itself.
TARGET = "all"
FOLDER = Path(".snakemake", "losslab")
PROGRESS_FILE = "progress.json"


def stage_of(rule: str) -> str:
    """Say which stage a rule belongs to."""
    return "tables" if rule.startswith(TABULATE) else RULES.get(rule, rule)


@dataclass
class Stage:
    """Jobs of one kind; times are seconds since 1970."""

    total: int = 0
    done: int = 0
    failed: int = 0
    began_s: float | None = None
    ended_s: float | None = None

    @property
    def over(self) -> bool:
        """Tell whether nothing of it is left."""
        return self.done >= self.total

    @property
    def under_way(self) -> bool:
        """Tell whether it has begun and is not over."""
        return self.began_s is not None and not self.over

    def wall_s(self, now_s: float) -> float:
        """Return how long it has taken until it ended, or until now."""
        return 0.0 if self.began_s is None else (self.ended_s or now_s) - self.began_s


@dataclass
class Tally:
    """What the workflow has told of its jobs."""

    began_s: float
    process: int = field(default_factory=os.getpid)
    stages: dict[str, Stage] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    ended_s: float | None = None
    # Of jobs that have been told of, until they end.
    jobs: dict[int, str] = field(default_factory=dict)

    def plan(self, counts: Mapping[str, int]) -> None:
        """Note how many jobs of each rule there are to run."""
        order = [*dict.fromkeys(RULES.values())]
        rules = [rule for rule in counts if rule not in (TARGET, "total")]
        known = [rule for rule in rules if stage_of(rule) in order]
        known.sort(key=lambda rule: order.index(stage_of(rule)))
        for rule in [*known, *(rule for rule in rules if rule not in known)]:
            self.stages.setdefault(stage_of(rule), Stage()).total += counts[rule]

    def start(self, job: int, rule: str, now_s: float) -> None:
        """Note that a job starts."""
        if rule != TARGET:
            stage = self.stages.setdefault(stage_of(rule), Stage())
            stage.began_s = stage.began_s or now_s
            self.jobs[job] = stage_of(rule)

    def finish(self, job: int, now_s: float) -> Stage | None:
        """Note that a job has ended well; return its stage where that is over by it."""
        name = self.jobs.pop(job, None)
        if name is None:
            return None
        stage = self.stages[name]
        stage.done += 1
        if stage.over:
            stage.ended_s = now_s
        return stage if stage.over else None

    def fail(self, job: int, rule: str, what: str) -> None:
        """Note that a job failed."""
        self.jobs.pop(job, None)
        self.stages.setdefault(stage_of(rule), Stage()).failed += 1
        self.failures.append(what)

    @property
    def complete(self) -> bool:
        """Tell whether all of it is done."""
        return not self.failures and all(stage.over for stage in self.stages.values())

    def write(self, folder: Path) -> None:
        """Leave it for whoever asks; whole at any time."""
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{PROGRESS_FILE}.partial"
        partial.write_text(json.dumps(asdict(self) | {"jobs": {}}))
        partial.replace(folder / PROGRESS_FILE)

    @classmethod
    def read(cls, folder: Path) -> Tally | None:
        """Read what `write` left; None where there is nothing.

        Raises:
            UsageError: something else is there.
        """
        path = folder / PROGRESS_FILE
        if not path.exists():
            return None
        data: dict[str, Any] = read_json(path)
        check_schema(data, "progress", str(path), "start the campaign again: it writes a new one")
        stages = {name: Stage(**stage) for name, stage in data["stages"].items()}
        return cls(**data | {"stages": stages})
