"""Runs of cases with their state, in two passes if the stimulus begins with a phase."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from losslab import cellspec, sweeps
from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign import fingerprint, state
from losslab.campaign.cellrun import finished
from losslab.campaign.criteria import INCONCLUSIVE, NOT_OBSERVABLE
from losslab.campaign.instrument import at_first_use, instrument
from losslab.campaign.results import Replicate
from losslab.emulation import capture
from losslab.emulation.plan import make_plan
from losslab.errors import LosslabError
from losslab.instrument import kernels
from losslab.study import schedule
from losslab.study.condition import Condition
from losslab.study.metrics import Summary
from losslab.tools.conform import judge, suite
from losslab.tools.conform.suite import Case
from losslab.tools.conform.timeline import (
    NotObservableError,
    NotReachedError,
    Timeline,
    rows_of,
    rows_of_qlog,
)

if TYPE_CHECKING:
    import pandas as pd

QUIC = "quic"  # app whose sender has its state in its qlog
DIGITS = 12  # of the fingerprint in a run's folder
Result = dict[str, Any]


@dataclass
class Runs:
    """Runs with their state in a folder; finished ones are kept."""

    out: Path
    cores: int
    files: Path | None = None  # replaced files of the kernel
    captures: Sequence[str] = (capture.STATE,)
    used: dict[Path, None] = field(default_factory=dict)  # folders of all runs, in order
    _rows: dict[Path, pd.DataFrame] = field(default_factory=dict)

    def folder(self, condition: Condition, seed: int) -> Path:
        """Return the folder of a run."""
        digest = fingerprint.of(condition, VIRTUAL, GUEST).digest[:DIGITS]
        return self.out / "runs" / f"{condition.algorithm}-{digest}-{seed}"

    def measure(self, wanted: Iterable[tuple[Condition, int]], title: str) -> None:
        """Measure distinct runs that are not finished."""
        todo = {}
        for condition, seed in dict.fromkeys(wanted):
            at_first_use(condition)
            folder, tools = self.folder(condition, seed), instrument(condition=condition)
            self.used[folder] = None
            captures = self._captures(condition)
            whole = all((folder / capture.name(each)).is_file() for each in captures)
            if not whole or finished(folder, condition, seed, tools) is None:
                todo[folder] = condition, seed
        sweeps.measure_runs(todo, self.cores, title, self._captures)

    def _captures(self, condition: Condition) -> Sequence[str]:
        quic = condition.app == QUIC
        return [each for each in self.captures if not (quic and each == capture.STATE)]

    def violations(self, condition: Condition, seed: int) -> str:
        """Return why a run is invalid; "" if it is valid."""
        return "; ".join(Replicate(self.folder(condition, seed)).manifest["reasons"])

    def captured(self, condition: Condition, seed: int) -> state.Capture:
        """Read the state of a run."""
        return state.read(self.folder(condition, seed) / capture.name(capture.STATE))

    def line(self, case: Case, condition: Condition, seed: int, begin_s: float) -> Timeline:
        """Return the time line of a run for a case."""
        folder = self.folder(condition, seed)
        if folder not in self._rows:
            self._rows[folder] = rows_in(folder, condition, seed)
        summary = Replicate(folder).manifest["summary"]
        return line_of(self._rows[folder], case, condition, begin_s, summary)

    def until(self, condition: Condition, seed: int, at_s: float) -> str:
        """Return a digest of a run's events until a time."""
        if condition.app == QUIC:
            rows = rows_of_qlog(self.folder(condition, seed))
            content = rows[rows["t_s"] < at_s].to_csv().encode()  # several events have one time
        else:
            found = self.captured(condition, seed)
            until_us = (found.origin_ns + round(at_s * 1e9)) // 1000
            content = found.events[found.events["us"] <= until_us].tobytes()
        return hashlib.sha256(content).hexdigest()

    def command(self, condition: Condition, seed: int, name: str) -> str:
        """Return the command that repeats a run."""
        made = cellspec.measure_command(condition, seed, f"case-{name}")
        prefix = f"{kernels.REPLACED_FILES}={shlex.quote(str(self.files))} " if self.files else ""
        return " ".join(
            [prefix + made, *(f"--capture {each}" for each in self._captures(condition))]
        )


def rows_in(folder: Path, condition: Condition, seed: int) -> pd.DataFrame:
    """Read the rows of the flow under test from a run's folder."""
    if condition.app == QUIC:
        return rows_of_qlog(folder)
    port = make_plan(condition, seed).flows[0].source_port
    return rows_of(state.read(folder / capture.name(capture.STATE)), port)


def line_of(
    rows: pd.DataFrame, case: Case, condition: Condition, begin_s: float, summary: Summary
) -> Timeline:
    """Return the time line of rows for a case."""
    phases = suite.phases(condition.algorithm)
    if condition.app == QUIC:
        phases = [*dict.fromkeys(rows.get("phase", ()))]
    return Timeline(rows, condition, phases, case.groups, case.interrupts, begin_s, summary)


def loses_at_random(condition: Condition) -> bool:
    """Return whether a path drops packets at random, which `losslab why` can leave out."""
    drops = condition.loss_percent > 0 or "loss_percent=" in condition.changes
    return drops and schedule.OUTAGE not in condition.changes


@dataclass
class Attempt:
    """A case with a seed: its run, the time T of its stimulus, and its result once known."""

    case: Case
    seed: int
    axes: Mapping[str, Any]
    begin_s: float | None
    before: str = ""  # digest of the events until T in the first run
    result: Result = field(default_factory=dict)
    line: Timeline | None = None

    @property
    def condition(self) -> Condition:
        """Return the condition of its last run."""
        begin_s = self.begin_s
        if self.case.phase and begin_s is not None:
            begin_s += suite.LATER_S
        return self.case.condition(self.axes, begin_s)

    def end(self, runs: Runs, verdict: str, why: str, **more: Any) -> None:
        """Set the result."""
        command = runs.command(self.condition, self.seed, self.case.name)
        self.result = {"verdict": verdict, "why": why, "command": command, "holds": [], "steps": []}
        self.result |= more

    @property
    def inputs(self) -> str:
        """Return a digest of what T follows from: the first run, and what the phase is."""
        first = self.case.condition(self.axes, None)
        phase = state.declared().get(first.algorithm, {}).get(state.PHASE)
        digest = fingerprint.of(first, VIRTUAL, GUEST).digest
        its = [digest, self.seed, self.case.phase, self.case.groups, phase]
        return hashlib.sha256(json.dumps(its).encode()).hexdigest()

    def take_begin(self, kept: Mapping[str, Result]) -> None:
        """Take the time from an earlier result with the same inputs, if there is one."""
        if self.case.phase and (found := kept.get(self.inputs)):
            self.begin_s, self.before = found["at_s"], found["trigger"]["before"]

    def find_begin(self, runs: Runs) -> None:
        """Set the time at which the phase began in the first run."""
        if invalid := runs.violations(self.condition, self.seed):
            self.end(runs, INCONCLUSIVE, f"the first run is invalid: {invalid}")
            return
        line = runs.line(self.case, self.condition, self.seed, 0.0)
        try:
            begin_s = line.span(self.case.phase).begin_s
        except NotReachedError as error:
            self.end(runs, INCONCLUSIVE, str(error))
            return
        except NotObservableError as error:
            self.end(runs, NOT_OBSERVABLE, str(error))
            return
        if begin_s >= self.case.late_s:
            why = f"{self.case.phase} began at {begin_s:.6g} s, too late in the run"
            self.end(runs, INCONCLUSIVE, why)
            return
        try:
            self.case.condition(self.axes, begin_s + suite.LATER_S)
        except LosslabError as error:
            self.end(runs, INCONCLUSIVE, f"no stimulus can begin at {begin_s:.6g} s: {error}")
            return
        self.begin_s = begin_s
        self.before = runs.until(self.case.condition(self.axes, None), self.seed, begin_s)

    def judge(self, runs: Runs) -> None:
        """Judge the last run."""
        condition, begin_s = self.condition, self.begin_s or 0.0
        if invalid := runs.violations(condition, self.seed):
            self.end(runs, INCONCLUSIVE, f"the run is invalid: {invalid}")
        elif self.before and runs.until(condition, self.seed, begin_s) != self.before:
            why = f"the second run differs from the first before {begin_s:.6f} s"
            self.end(runs, INCONCLUSIVE, why)
        else:
            self.line = runs.line(self.case, condition, self.seed, begin_s)
            held, steps = judge.of_case(self.case.data, self.line)
            self.end(runs, *judge.verdict_of(held, steps), holds=held, steps=steps)
            self.result |= {"at_s": begin_s} if "trigger" in self.case.data else {}
            if self.before:
                self.result["trigger"] = {"inputs": self.inputs, "before": self.before}
        self.result["folder"] = str(runs.folder(condition, self.seed))


def judged(
    cases: Sequence[Case],
    axes: Mapping[str, Any],
    seeds: Iterable[int],
    runs: Runs,
    kept: Mapping[str, Result] = MappingProxyType({}),
) -> list[Attempt]:
    """Run and judge cases with some seeds; `kept` has earlier results by the inputs of their T.

    A case whose stimulus needs a phase that the algorithm does not have is not run.
    """
    attempts = [Attempt(case, seed, axes, case.known_s) for case in cases for seed in seeds]
    for attempt in attempts:
        if axes.get("app") == QUIC:  # its log says which phases it has, after a run
            try:
                attempt.case.condition(axes, attempt.begin_s)
            except LosslabError as error:  # its axes need another app
                attempt.result = {"verdict": NOT_OBSERVABLE, "why": error.message, "command": ""}
                attempt.result |= {"holds": [], "steps": []}
            continue
        algorithm = attempt.condition.algorithm
        if missing := attempt.case.missing_phases(algorithm):
            attempt.end(runs, NOT_OBSERVABLE, f"{algorithm} has no phase {missing[0]}")
    todo = [each for each in attempts if not each.result]
    for attempt in todo:
        attempt.take_begin(kept)
    first = [each for each in todo if not each.before]
    runs.measure(((each.condition, each.seed) for each in first), "first runs")
    for attempt in first:
        if attempt.case.phase:
            attempt.find_begin(runs)
    again = [each for each in todo if each.case.phase and not each.result]
    runs.measure(((each.condition, each.seed) for each in again), "second runs")
    for attempt in todo:
        if not attempt.result:
            attempt.judge(runs)
    return attempts
