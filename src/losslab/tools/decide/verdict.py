"""Statistics of a decision: comparisons of choices, the answer for each use, what would change it.

A comparison is a ratio of two choices over the same seeds (`losslab.study.intervals`). A difference
of less than 5 % does not matter to users, as in the report (`unimportant_share`,
analysis/R/decisions.R).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from losslab.study.intervals import LEVEL, MIN_RUNS, Ratio, ratio_interval, t_quantile

UNIMPORTANT = math.log(1.05)
# More runs than this decide nothing that is worth the time: the difference is close to 5 %.
RUNS_MAX = 1000

# A metric's values by seed.
Values = Mapping[int, float]


class Verdict(StrEnum):
    """Verdict on a choice compared with another."""

    BETTER = "better"
    WORSE = "worse"
    NO_MATTER = "does not matter"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Measure:
    """A metric that decides a use, or shows a cost."""

    title: str
    unit: str
    more_is_better: bool


@dataclass(frozen=True)
class Comparison:
    """A choice compared with another one in a metric; the ratio is choice / other."""

    choice: str
    other: str
    n: int
    means: tuple[float | None, float | None]  # of the choice and the other
    ratio: Ratio
    verdict: Verdict
    more_runs: int | None = None  # further runs that would decide; None: decided, or too many


@dataclass(frozen=True)
class Answer:
    """The best choices for a use: one, or several that do not differ or are inconclusive."""

    verdict: Verdict  # better than the other choices, does not matter, inconclusive, not measured
    choices: tuple[str, ...]
    more_runs: int | None = None

    def __str__(self) -> str:
        """Return the answer as text."""
        if self.verdict is Verdict.BETTER:
            return " or ".join(self.choices)
        if self.verdict is not Verdict.INCONCLUSIVE:
            return str(self.verdict)
        between = f"inconclusive between {' and '.join(self.choices)}"
        if self.more_runs is None:
            return f"{between}: the difference is too close to 5 % or to none"
        return f"{between}: about {self.more_runs} more runs would decide"


def compare(
    choice: str, other: str, values: Mapping[str, Values], more_is_better: bool, pairs: int = 1
) -> Comparison:
    """Compare two choices over their common seeds; `pairs` comparisons share the 5 % error."""
    seeds = sorted(values[choice].keys() & values[other].keys())
    own, others = ([values[name][seed] for seed in seeds] for name in (choice, other))
    if len(seeds) < MIN_RUNS:
        means = tuple(fmean(each) if each else None for each in (own, others))
        return Comparison(
            choice, other, len(seeds), (means[0], means[1]), Ratio(None), Verdict.NOT_MEASURED
        )
    level = 1 - (1 - LEVEL) / pairs
    ratio = ratio_interval(own, others, paired=True, level=level)
    means_of_both = fmean(own), fmean(others)
    judged = _judged(ratio, means_of_both, more_is_better, len(seeds), level)
    return Comparison(choice, other, len(seeds), means_of_both, ratio, *judged)


def _judged(
    ratio: Ratio, means: tuple[float, float], more_is_better: bool, n: int, level: float
) -> tuple[Verdict, int | None]:
    """Judge a ratio by its confidence interval, or by the test of the means if a mean is zero.

    Also return how many more runs would decide an inconclusive one if ratio and variance stay; None
    if too many.
    """
    above = (means[0] > means[1]) == more_is_better
    side = Verdict.BETTER if above else Verdict.WORSE
    if ratio.value is None or ratio.interval is None or min(*ratio.interval, ratio.value) <= 0:
        if means[0] == means[1]:
            return Verdict.NO_MATTER, None
        significant = ratio.p_value is not None and ratio.p_value < 1 - level
        return side if significant else Verdict.INCONCLUSIVE, None
    low, high = (math.log(end) for end in ratio.interval)
    if max(-low, high) < UNIMPORTANT:
        return Verdict.NO_MATTER, None
    distance = abs(math.log(ratio.value))
    if (low > 0 or high < 0) and distance > UNIMPORTANT:
        return side, None
    # Above 5 %, the interval must exclude 1; below, it must not reach 5 %.
    needed = distance if distance > UNIMPORTANT else UNIMPORTANT - distance
    deviation = (high - low) / 2 * math.sqrt(n) / t_quantile(level, n - 1)
    enough = (
        count - n
        for count in range(n + 1, RUNS_MAX + 1)
        if t_quantile(level, count - 1) * deviation / math.sqrt(count) < needed
    )
    return Verdict.INCONCLUSIVE, next(enough, None)


def answer(choices: Sequence[str], values: Mapping[str, Values], more_is_better: bool) -> Answer:
    """Return the best of the choices in a metric: those that are worse than no other."""
    pairs = [
        compare(one, other, values, more_is_better, math.comb(len(choices), 2))
        for one, other in itertools.permutations(choices, 2)
    ]
    if any(pair.verdict is Verdict.NOT_MEASURED for pair in pairs):
        return Answer(Verdict.NOT_MEASURED, tuple(choices))
    worse = {pair.choice for pair in pairs if pair.verdict is Verdict.WORSE}
    best = tuple(name for name in choices if name not in worse)
    if len(best) == 1:
        return Answer(Verdict.BETTER, best)
    among = [pair for pair in pairs if {pair.choice, pair.other} <= {*best}]
    open_pairs = [pair for pair in among if pair.verdict is Verdict.INCONCLUSIVE]
    if not open_pairs:
        return Answer(Verdict.NO_MATTER if len(best) == len(choices) else Verdict.BETTER, best)
    needed = [pair.more_runs for pair in open_pairs]
    more = None if None in needed else max(each for each in needed if each is not None)
    return Answer(Verdict.INCONCLUSIVE, best, more)


def headline(answers: Mapping[str, Answer], first: str) -> str:
    """Return the decision in a sentence or two; `first` is the choice of today."""
    chosen: dict[str, list[str]] = {}
    rest: dict[str, list[str]] = {}
    for use, answer in answers.items():
        if answer.verdict is Verdict.BETTER:
            chosen.setdefault(str(answer), []).append(use)
        else:
            rest.setdefault(str(answer), []).append(use)
    others = "".join(f" For {_listed(uses)}: {said}." for said, uses in rest.items())
    if not chosen and {its.verdict for its in answers.values()} == {Verdict.NO_MATTER}:
        return f"It does not matter: no choice differs by more than 5 %. Keep {first}."
    if not chosen:
        return f"No decision.{others}"
    if len(chosen) == 1:
        name, uses = next(iter(chosen.items()))
        return f"Use {name} for {_listed(uses)}.{others}"
    parts = ", ".join(f"{name} for {_listed(uses)}" for name, uses in chosen.items())
    return f"It depends on what users do: {parts}.{others}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def change(base: Answer, other: Answer) -> str:
    """Say how an answer on another path changes the decision; "" if it does not."""
    if other.verdict is Verdict.NOT_MEASURED or (other.verdict, other.choices) == (
        base.verdict, base.choices,
    ):  # fmt: skip
        return ""
    if Verdict.INCONCLUSIVE in (base.verdict, other.verdict):
        return "no longer decided" if other.verdict is Verdict.INCONCLUSIVE else "decides"
    return "flips"
