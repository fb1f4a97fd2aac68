"""Pauses: the bottleneck sends nothing for short, random times, as on a host that is busy.

A pause is a path schedule with random times: packets wait in the bottleneck's buffer, or find it
full.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from losslab.emulation.path import schedule as path_schedule
from losslab.errors import LosslabError
from losslab.study import schedule
from losslab.study.axes import NONE, axis, settings
from losslab.study.seeds import derived_seed

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.emulation.qdiscs import Qdisc
    from losslab.study.condition import Condition

PER_S, MIN_MS, MAX_MS = "per_s", "min_ms", "max_ms"
EXAMPLE = "per_s=0.6,min_ms=0.8,max_ms=8"
# Rate during a pause, the axis's minimum. A full packet takes more than a second.
PAUSED_MBIT = 0.01
# Limit of the expected number of pauses, which the plan lists.
PAUSES_MAX = 5000
# Times of a schedule, in seconds.
DIGITS = 6


def parse(text: str) -> dict[str, float]:
    """Parse the axis's value: pauses per second, and their minimum and maximum length in ms."""
    found: dict[str, float] = settings(
        text.split(","), "pauses", dict.fromkeys((PER_S, MIN_MS, MAX_MS), "float"), EXAMPLE
    )
    if len(found) < 3:
        raise LosslabError(f"pauses must set {PER_S}, {MIN_MS} and {MAX_MS} (as in {EXAMPLE})")
    if found[PER_S] <= 0 or not 0 < found[MIN_MS] < found[MAX_MS]:
        raise LosslabError(
            f"pauses must have a positive {PER_S}, and {MIN_MS} between 0 and {MAX_MS}, found "
            f"{text}"
        )
    return found


def drawn(text: str, end_s: float, seed: int) -> list[tuple[float, float]]:
    """Draw the pauses before `end_s`: begin and end of each, in seconds.

    Pauses come at random: the time between two is exponential with a mean of 1 / `per_s`. Lengths
    have a Pareto distribution with exponent 1, from `min_ms` to `max_ms`: half as many pauses
    exceed twice a length, apart from those above the maximum.
    """
    its = parse(text)
    source = random.Random(derived_seed(seed, "pauses"))
    found: list[tuple[float, float]] = []
    now_s = 0.0
    while True:
        begin_s = now_s + source.expovariate(its[PER_S])
        share = source.random() * (1 - its[MIN_MS] / its[MAX_MS])
        now_s = begin_s + its[MIN_MS] / 1e3 / (1 - share)
        if now_s >= end_s:
            return found
        found.append((round(begin_s, DIGITS), round(now_s, DIGITS)))


@dataclass(frozen=True)
class Pauses(path_schedule.Schedule):
    """Random pauses of the bottleneck, as a path schedule that each replicate draws."""

    pauses: str = NONE

    order = 10
    with_others = False
    needs_netem_links = True
    after = "changes"
    named = {}
    axes = {
        "pauses": axis(
            NONE,
            help="short times in which the bottleneck sends nothing, as on a busy host: "
            f"`{EXAMPLE}`; the time between pauses is exponential with a mean of 1 / `per_s`, and "
            "half as many pauses exceed twice a length, from `min_ms` to `max_ms`",
            pattern="[a-z0-9_=.,]+", named="pauses-{}", commas=True,
        )
    }  # fmt: skip

    def of(self, condition: Condition) -> Self:
        """Return the mechanism; the link's rate bounds the mean rate."""
        return replace(self, pauses=condition.pauses, scheduled_mbit=condition.rate_mbit)

    def specified(self) -> dict[str, Any]:
        return {"pauses": self.pauses}

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.pauses == NONE:
            return
        if condition.changes != NONE or condition.trace != NONE:
            yield "pauses must be none with changes or a trace, which set the rate"
        try:
            its = parse(condition.pauses)
        except LosslabError as error:
            yield error.message
            return
        most = condition.duration_s / (1 / its[PER_S] + its[MIN_MS] / 1e3)
        if most > PAUSES_MAX:
            yield (
                f"pauses must be at most {PAUSES_MAX} in the run's {condition.duration_s:g} s, "
                f"found {condition.pauses}, up to {most:.0f}"
            )

    def plan(self, condition: Condition, seed: int) -> dict[str, Any]:
        changes = []
        for begin_s, end_s in drawn(condition.pauses, condition.duration_s, seed):
            changes += [
                {schedule.AT: begin_s, "rate_mbit": PAUSED_MBIT},
                {schedule.AT: end_s, "rate_mbit": condition.rate_mbit},
            ]
        if not changes:
            return {"changes": path_schedule.change_plan(condition, seed)}
        values = {"changes": schedule.to_text(changes), "pauses": NONE}
        its = type(condition).from_json(condition.to_json() | values)
        return super().plan(its, seed)

    def last_qdiscs(self, plan: Plan) -> list[Qdisc]:
        if plan.parts["changes"].steps:
            return super().last_qdiscs(plan)
        return [qdisc for host in plan.hosts.values() for qdisc in host.qdiscs]


FEATURE = Pauses()
