"""Path schedules: the syntax of the axis `changes`, such as `EXAMPLE`.

A parameter that a change does not name keeps its value. Use only the standard library: the guest
imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from losslab.errors import LosslabError
from losslab.study.axes import plain, settings

NONE = "none"
AT, OUTAGE = "at_s", "outage_s"
# Axes of the condition that a change may set.
SET = ("rate_mbit", "rtt_ms", "loss_percent")
KEYS = dict.fromkeys((AT, *SET, OUTAGE), "float")
EXAMPLE = "at_s=10,rate_mbit=2+at_s=15,rate_mbit=20"


@dataclass(frozen=True)
class Phase:
    """A period in which the path's parameters are constant."""

    begin_s: float  # on the replicate's clock
    end_s: float  # start of the next phase; infinite for the last phase
    values: dict[str, float] = field(default_factory=dict)  # of the axes in `SET`
    outage: bool = False  # whether all packets are dropped in both directions


def to_text(changes: Iterable[Mapping[str, float | str]]) -> str:
    """Convert a list of changes to the axis's value; values with units stay as they are."""
    return "+".join(
        ",".join(f"{k}={v if isinstance(v, str) else plain(v)}" for k, v in change.items())
        for change in changes
    )


def parse(text: str) -> list[dict[str, float]]:
    """Parse the axis's value to a list of changes."""
    return [_parse_change(part) for part in text.split("+")] if text != NONE else []


def _parse_change(part: str) -> dict[str, float]:
    change = settings(part.split(","), "changes", KEYS, EXAMPLE)
    if AT not in change or len(change) == 1:
        raise LosslabError(
            f"each of the changes must set {AT} and at least one of {', '.join([*SET, OUTAGE])}, "
            f"found {part!r}"
        )
    if change.get("rate_mbit") == 0:
        raise LosslabError(
            f"rate_mbit of changes must be above 0, found 0 in {part!r}; for a time in which no "
            f"packet arrives, write {OUTAGE}=SECONDS"
        )
    if change.get(OUTAGE, 1) <= 0:
        raise LosslabError(f"{OUTAGE} of changes must be positive, found {change[OUTAGE]:g}")
    return change


def phases(text: str, start: Mapping[str, float]) -> list[Phase]:
    """List the phases of a path schedule; `start` has the initial values of the axes in `SET`."""
    changes = parse(text)
    times = [change[AT] for change in changes]
    if times != sorted(set(times)) or (times and times[0] <= 0):
        raise LosslabError(
            f"changes must be in ascending order of time and after 0 s, found {AT} "
            + ", ".join(f"{at_s:g}" for at_s in times)
        )
    outages = [(c[AT], c[AT] + c[OUTAGE]) for c in changes if OUTAGE in c]
    for (_, end_s), (begin_s, _) in pairwise(outages):
        if end_s > begin_s:
            raise LosslabError(
                f"outages must not overlap, found one until {end_s:g} s and one from {begin_s:g} s"
            )
    begins_s = sorted({0.0, *times, *(end_s for _, end_s in outages)})
    planned = []
    values = dict(start)
    for begin_s, end_s in zip(begins_s, [*begins_s[1:], math.inf], strict=True):
        for change in changes:
            if change[AT] == begin_s:
                values |= {name: change[name] for name in SET if name in change}
        outage = any(first_s <= begin_s < last_s for first_s, last_s in outages)
        planned.append(Phase(begin_s, end_s, dict(values), outage))
    return planned


def until(phases: list[Phase], end_s: float) -> list[Phase]:
    """Set the end of the last phase to the end of the run."""
    return [*phases[:-1], replace(phases[-1], end_s=end_s)]
