"""What becomes of a path while it runs: a condition's `changes`, read. Standard library only.

A word such as `at_s=10,rate_mbit=2+at_s=15,rate_mbit=20`: what a change does not name stays.
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
# Of the condition's own axes.
SET = ("rate_mbit", "rtt_ms", "loss_percent")
KEYS = dict.fromkeys((AT, *SET, OUTAGE), "float")
EXAMPLE = "at_s=10,rate_mbit=2+at_s=15,rate_mbit=20"


@dataclass(frozen=True)
class Phase:
    """A time in which a path stays as it is.

    Attributes:
        begin_s: On the replicate's clock.
        end_s: Where the next begins; infinite of the last.
        values: Of the axes that may change.
        outage: Everything is lost, both ways.
    """

    begin_s: float
    end_s: float
    values: dict[str, float] = field(default_factory=dict)
    outage: bool = False


def word(changes: Iterable[Mapping[str, float]]) -> str:
    """Write a list of changes, each a mapping, as one word."""
    return "+".join(",".join(f"{k}={plain(v)}" for k, v in change.items()) for change in changes)


def parsed(text: str) -> list[dict[str, float]]:
    """Read a word."""
    return [_change(part) for part in text.split("+")] if text != NONE else []


def _change(part: str) -> dict[str, float]:
    found = settings(part.split(","), "changes", KEYS, EXAMPLE)
    if AT not in found or len(found) == 1:
        raise LosslabError(
            f"changes: each must say {AT} and what changes then ({', '.join([*SET, OUTAGE])}), "
            f"found {part!r}"
        )
    if found.get(OUTAGE, 1) <= 0:
        raise LosslabError(f"changes: {OUTAGE} must be above 0, found {found[OUTAGE]:g}")
    return found


def phases(text: str, start: Mapping[str, float]) -> list[Phase]:
    """List the phases of a path.

    `start` has what the axes are at first that may change (`SET`).
    """
    changes = parsed(text)
    times = [change[AT] for change in changes]
    if times != sorted(set(times)) or (times and times[0] <= 0):
        raise LosslabError(
            f"changes must come one after the other, after 0 s, found {AT} "
            + ", ".join(f"{at_s:g}" for at_s in times)
        )
    outages = [(c[AT], c[AT] + c[OUTAGE]) for c in changes if OUTAGE in c]
    for (_, end_s), (begin_s, _) in pairwise(outages):
        if end_s > begin_s:
            raise LosslabError(
                f"outages must not overlap, found one until {end_s:g} s and one from {begin_s:g} s"
            )
    instants = sorted({0.0, *times, *(end_s for _, end_s in outages)})
    found = []
    values = dict(start)
    for begin_s, end_s in zip(instants, [*instants[1:], math.inf], strict=True):
        for change in changes:
            if change[AT] == begin_s:
                values |= {name: change[name] for name in SET if name in change}
        out = any(first <= begin_s < last for first, last in outages)
        found.append(Phase(begin_s, end_s, dict(values), out))
    return found


def until(found: list[Phase], end_s: float) -> list[Phase]:
    """End the last phase with the run."""
    return [*found[:-1], replace(found[-1], end_s=end_s)]
