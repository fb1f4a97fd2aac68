"""Pauses: the bottleneck sends nothing for short, random times, as on a host that is busy.

A pause is a path schedule with random times: packets wait in the bottleneck's buffer, or find it
full.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from losslab.emulation.mechanism import Effect, Mechanism
from losslab.emulation.path import schedule as path_schedule
from losslab.emulation.qdiscs import LinkStep, rate_of
from losslab.emulation.shaping import exact
from losslab.errors import LosslabError
from losslab.study import schedule
from losslab.study.axes import NONE, axis, derived_seed, settings
from losslab.study.schedule import Phase

if TYPE_CHECKING:
    from losslab.study.condition import Condition

PER_S, MIN_MS, MAX_MS = "per_s", "min_ms", "max_ms"
EXAMPLE = "per_s=0.6,min_ms=0.8,max_ms=8"
# Times of a schedule, in seconds.
DIGITS = 6
SHORTEST_MS = 0.1
PAUSES_MAX = 100_000  # in a run, on average


def parse(text: str) -> dict[str, float]:
    """Parse the axis's value: pauses per second, and their minimum and maximum length in ms."""
    values: dict[str, float] = settings(
        text.split(","), "pauses", dict.fromkeys((PER_S, MIN_MS, MAX_MS), "float"), EXAMPLE
    )
    if len(values) < 3:
        raise LosslabError(f"pauses must set {PER_S}, {MIN_MS} and {MAX_MS} (as in {EXAMPLE})")
    if values[PER_S] <= 0 or not SHORTEST_MS <= values[MIN_MS] < values[MAX_MS]:
        raise LosslabError(
            f"pauses must have a positive {PER_S}, and {MIN_MS} between {SHORTEST_MS:g} and "
            f"{MAX_MS}, found {text}"
        )
    return values


def drawn(text: str, end_s: float, seed: int) -> list[tuple[float, float]]:
    """Draw the pauses before `end_s`: begin and end of each, in seconds.

    Pauses come at random: the time between two is exponential with a mean of 1 / `per_s`. Lengths
    have a Pareto distribution with exponent 1, from `min_ms` to `max_ms`: half as many pauses
    exceed twice a length, apart from those above the maximum.
    """
    law = parse(text)
    source = random.Random(derived_seed(seed, "pauses"))
    pauses: list[tuple[float, float]] = []
    now_s = 0.0
    while True:
        begin_s = now_s + source.expovariate(law[PER_S])
        share = source.random() * (1 - law[MIN_MS] / law[MAX_MS])
        now_s = begin_s + law[MIN_MS] / 1e3 / (1 - share)
        if now_s >= end_s:
            return pauses
        # At the precision of a schedule, a pause begins after the last one ended.
        earliest_s = pauses[-1][1] + 10**-DIGITS if pauses else 10**-DIGITS
        pauses.append((round(max(begin_s, earliest_s), DIGITS), round(now_s, DIGITS)))


def _phases(condition: Condition, seed: int) -> list[Phase]:
    """List the phases of an exact link's path: its rate, and 0 in each pause."""
    pauses = drawn(condition.pauses, condition.duration_s, seed)
    begins_s = [0.0, *(at_s for pause in pauses for at_s in pause)]
    values = {name: getattr(condition, name) for name in schedule.SET}
    return [
        Phase(begin_s, end_s, values | {"rate_mbit": 0.0 if number % 2 else condition.rate_mbit})
        for number, (begin_s, end_s) in enumerate(pairwise([*begins_s, condition.duration_s]))
    ]


@dataclass(frozen=True)
class Pauses(Mechanism):
    """Random pauses of the bottleneck, as a path schedule that each replicate draws."""

    pauses: str = NONE

    order = 10
    needs_netem_links = True
    axes = {
        "pauses": axis(
            NONE,
            help="short times in which the bottleneck sends nothing, as on a busy host: "
            f"`{EXAMPLE}`; the time between pauses is exponential with a mean of 1 / `per_s`, and "
            "half as many pauses exceed twice a length, from `min_ms` to `max_ms`",
            pattern="[a-z0-9_=.,]+", named="pauses-{}", commas=True,
        )
    }  # fmt: skip

    def effect(self, condition: Condition) -> Effect:
        """Return the link's rate, which bounds the mean rate."""
        return Effect(mean_rate_mbit=condition.rate_mbit)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.pauses == NONE:
            return
        if not exact(condition):
            yield (
                f"pauses need the shaper link, found {condition.shaper}: after each pause, a token "
                "bucket sends what it holds in no time"
            )
        if condition.changes != NONE or condition.trace != NONE:
            yield "pauses must be none with changes or a trace, which set the rate"
        try:
            per_s = parse(condition.pauses)[PER_S]
        except LosslabError as error:
            yield error.message
            return
        most_per_s = PAUSES_MAX / condition.duration_s
        if per_s > most_per_s:
            yield (
                f"{PER_S} of pauses must be at most {most_per_s:.3g} with duration_s "
                f"{condition.duration_s:g}, found {per_s:g}"
            )

    def link_steps(self, condition: Condition, seed: int) -> list[LinkStep]:
        phases = _phases(condition, seed)
        rates = [rate_of(phase.values["rate_mbit"]) for phase in phases]
        return path_schedule.link_steps(phases, rates)

    def plan(self, condition: Condition, seed: int) -> dict[str, Any]:
        its = type(condition).from_json(condition.to_json() | {"pauses": NONE})
        return {"changes": path_schedule.change_plan(its, seed, _phases(condition, seed))}


FEATURE = Pauses()
