"""Suites: the test cases of a draft, and the conditions that run them.

The time T of a stimulus is known before the run, or it is the entry of a phase. Then a first run
has the same mechanisms, with their changes shortly before its end, and shows when the phase begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from losslab import cellspec
from losslab.campaign import inputs, state
from losslab.errors import did_you_mean
from losslab.reading import UsageError, number
from losslab.repository import ROOT
from losslab.study import studyfiles, units
from losslab.study.condition import AXES, Condition
from losslab.study.studyfiles import as_list
from losslab.tools.conform import judge
from losslab.tools.conform.timeline import SPAN

# A place for the time T in the value of an axis, also with an offset.
PLACE = re.compile(r"\{T([+-]\d+(?:\.\d+)?)?\}")
# A share of a default, so that the case also suits other cells: `{0.9 rate_mbit}`.
SHARE = re.compile(r"\{(\d+(?:\.\d+)?) ([a-z_]+)\}")
# The stimulus of a first run is at least so long before its end.
MARGIN_S = 1.0
# T is the time of an event, which is over when the change happens.
LATER_S = 1e-6
DIGITS = 6  # of times in s


@dataclass(frozen=True, eq=False)
class Case:
    """A case of a suite."""

    name: str
    data: Mapping[str, Any]
    settings: Mapping[str, Any]  # axes
    groups: Mapping[str, list[str]]
    interrupts: list[str]

    @property
    def spans(self) -> bool:
        """Return whether it spans cells of scenarios."""
        return "over" in self.data

    @property
    def phase(self) -> str:
        """Return the span with whose begin the stimulus begins; "" if T is known."""
        text = self.data.get("trigger", "")
        return text.removeprefix("enter ") if isinstance(text, str) else ""

    @property
    def known_s(self) -> float | None:
        """Return the time T of a stimulus if it does not depend on a phase; 0 without any."""
        return None if self.phase else float(self.data.get("trigger", 0))

    @property
    def late_s(self) -> float:
        """Return a time T with which no stimulus acts before the last second of the run."""
        texts = [str(value) for value in self.settings.values()]
        offsets = [float(o or 0) for text in texts for o in PLACE.findall(text)]
        given = self.settings.get("duration_s", AXES["duration_s"].default)
        length_s = number(str(units.value("duration_s", given)), "duration_s")
        return round(length_s - max([MARGIN_S, *offsets]) - 0.1, DIGITS)

    def condition(self, axes: Mapping[str, Any], at_s: float | None) -> Condition:
        """Return the condition of a run with its stimulus at a time; None: in the first run."""
        begin_s = self.late_s if at_s is None else at_s

        def filled(value: Any) -> Any:
            if not isinstance(value, str):
                return value
            return PLACE.sub(
                lambda match: f"{round(begin_s + float(match[1] or 0), DIGITS):.12g}", value
            )

        try:
            condition = cellspec.condition(
                {k: filled(v) for k, v in self.settings.items()} | dict(axes)
            )
            inputs.require([condition])
        except UsageError as error:
            raise UsageError(f"case {self.name}: {error.message}", hint=error.hint) from error
        return condition

    def missing_phases(self, algorithm: str) -> list[str]:
        """Return the phases that the stimulus needs and an algorithm does not have."""
        known = {*phases(algorithm)}
        checks = self.data.get("holds", ())
        found = [its["phase"]] if (its := SPAN.fullmatch(self.phase)) else []
        found += [each for check in checks for each in judge.phases_of(check)]
        return [each for each in found if not {each, *self.groups.get(each, ())} & known]


def phases(algorithm: str) -> list[str]:
    """Return the names of an algorithm's phases, which config/states.toml declares."""

    def names(its: Mapping[str, Any]) -> Iterator[str]:
        for each in its.get("names", ()):
            yield from names(each) if isinstance(each, Mapping) else [each]

    return [*names(state.declared().get(algorithm, {}).get(state.PHASE, {}))]


def load(name: str) -> dict[str, Any]:
    """Load a suite, and check what its schema cannot express."""
    suite = studyfiles.load_suite(name)
    if "cases" not in suite:
        raise UsageError(
            f"the suite must have cases, found none in {name}", hint="`losslab check` uses it"
        )
    faults = [
        f"case {case}: {problem}"
        for case, its in suite["cases"].items()
        if "over" not in its
        for problem in _problems(its, suite["defaults"])
    ]
    faults += [
        f"cell {name}: cases must be some of the suite's, found {case}"
        for name, its in suite.get("cells", {}).items()
        for case in its["cases"]
        if case not in suite["cases"]
    ]
    if faults:
        path = studyfiles.suite_path(name, ROOT)
        raise UsageError(f"{path} is not consistent:\n    " + "\n    ".join(faults))
    return suite


def _problems(case: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    trigger = str(case.get("trigger", "enter X"))
    if trigger.startswith("enter ") and not SPAN.fullmatch(trigger.removeprefix("enter ")):
        yield f"trigger must be such as `enter UP 2`, found {trigger!r}"
    for axis, value in case.get("set", {}).items():
        if isinstance(value, str) and "{" in PLACE.sub("", SHARE.sub("", value)):
            yield f"{axis} must have T as {{T}} or {{T+0.5}}, found {value!r}"
        for _, name in SHARE.findall(str(value)):
            if name not in defaults:
                yield f"{axis} must have a share of one of the defaults, found {value!r}"
        if isinstance(value, str) and "{T" in value and "trigger" not in case:
            yield f"{axis} has {{T}}, which needs a trigger, found none"
    if "algorithm" in {*defaults, *case.get("set", {})}:
        yield "its axes must have no algorithm, which the command names, found one"
    for check in (*case.get("holds", ()), *case["expect"]):
        yield from judge.problems(check)
        if judge.uses_begin(check) and "trigger" not in case:
            yield "a check has a place with T, which needs a trigger, found none"


def cases(suite: Mapping[str, Any], names: list[str], cell: str = "") -> list[Case]:
    """Return the cases of a suite, all or some: at its defaults, or at another of its cells."""
    cells = suite.get("cells", {})
    if cell and cell not in cells:
        raise UsageError(
            f"--cell must be one of the suite's cells ({', '.join(cells) or 'none'}), found {cell}"
            + did_you_mean(cell, cells)
        )
    selected_cell = cells[cell] if cell else {"set": {}, "cases": [*suite["cases"]]}
    known = {name: suite["cases"][name] for name in selected_cell["cases"]}
    defaults: dict[str, Any] = suite["defaults"] | selected_cell["set"]

    def settings(case: Mapping[str, Any]) -> dict[str, Any]:
        def share(match: re.Match[str]) -> str:
            whole = number(str(units.value(match[2], defaults[match[2]])), match[2])
            return f"{float(match[1]) * whole:.12g}"

        settings_of_case = case.get("set", {}).items()
        return defaults | {
            k: SHARE.sub(share, v) if isinstance(v, str) else v for k, v in settings_of_case
        }

    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f"--case must be one of {', '.join(known)}, found {unknown[0]}"
            + did_you_mean(unknown[0], known)
        )

    groups = {name: as_list(its) for name, its in suite.get("groups", {}).items()}
    interrupts = as_list(suite.get("interrupts", []))
    return [
        Case(name, its, settings(its), groups, interrupts)
        for name, its in known.items()
        if not names or name in names
    ]
