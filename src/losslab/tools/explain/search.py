"""The search for the settings with which measured values are the published ones.

Every setting is measured with the same seeds. A setting that is near after two runs has five, and
one that fits is measured with fresh seeds, and at the held-out numbers. If no single setting is
left, all pairs of those that move a number are measured, or none.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from losslab.backends.base import VIRTUAL
from losslab.campaign import cost
from losslab.errors import LosslabError
from losslab.study import metrics
from losslab.study.condition import Condition
from losslab.study.intervals import MIN_RUNS, holm, ratio_interval
from losslab.tools.explain.agreement import ALPHA, Agreement, agreement
from losslab.tools.explain.candidates import Setting
from losslab.tools.explain.case import Case, Number

REPORTED = Setting()
# Runs of a first look, and with fresh seeds; in between are `MIN_RUNS`.
SCREEN_RUNS, FRESH_RUNS = 2, 8
# Fresh seeds are those of the search and this number.
FRESH_SEED = 1000
# A setting is far off if a mean of its first runs is off by so many standard errors of all
# settings' runs, beyond the tolerance. Metrics with two modes have large standard errors.
FAR = 5.0
# Smallest effect that matters, as in `losslab decide`, and the noise in standard errors.
UNIMPORTANT, NOISE = math.log(1.05), 2.0
FINALISTS_MAX = 6
LUCK_DRAWS = 1000

Run = tuple[Condition, int]  # with its seed


@dataclass(frozen=True)
class Result:
    """Summary of a run; without one, the violations that make it invalid."""

    summary: Mapping[str, object]
    violations: tuple[str, ...] = ()
    limited_by_buffer: bool = False  # which makes no run invalid here


Measure = Callable[[Sequence[Run]], Mapping[Run, Result]]


@dataclass
class Trial:
    """What the runs of a setting say."""

    setting: Setting
    agreements: list[Agreement]
    p_value: float | None  # of all numbers together; None: too few runs
    far: bool  # at a glance, after the first runs
    moves: bool  # a number, compared with the reported condition
    no_difference: bool  # from the reported condition, in any number
    adjusted: float | None = None  # the p-value for all settings that were tried (Holm)

    @property
    def fits(self) -> bool:
        """Return whether no number contradicts the setting."""
        return self.p_value is not None and self.p_value >= ALPHA

    @property
    def excluded(self) -> bool:
        """Return whether the numbers contradict the setting, for all that was tried."""
        return self.adjusted is not None and self.adjusted < ALPHA

    @property
    def distance(self) -> float:
        """Return how far it is from the numbers: the root of the squared logarithms of ratios."""
        return math.hypot(*(math.log(max(each.ratio, 1e-300)) for each in self.agreements))


@dataclass
class Found:
    """The result of a search."""

    case: Case
    trials: list[Trial]  # of all settings that were measured, the reported condition first
    confirmed: dict[Setting, Trial]  # finalists with fresh seeds, at all numbers
    numbers: list[Number]  # that were searched with
    held_out: list[Number]  # that were not
    joined: bool  # the held-out numbers joined the search
    pairs: int  # that were tried
    pairs_left_out: str  # why no pair was tried; "" if pairs were, or need not be
    luck: float
    not_tried: dict[str, str]  # reason by setting
    limited: dict[str, int]  # runs that a buffer limited, by setting

    @property
    def agreed(self) -> list[Setting]:
        """Return the finalists that fit with fresh seeds and at the held-out numbers."""
        return [setting for setting, trial in self.confirmed.items() if trial.fits]


@dataclass
class Search:
    """Runs, and what they say."""

    case: Case
    measure: Measure
    budget_s: float  # of core time, as estimated
    first_seed: int = 1
    results: dict[Run, Result] = field(default_factory=dict)
    spent_s: float = 0.0
    not_tried: dict[str, str] = field(default_factory=dict)

    def runs(self, settings: Iterable[Setting], numbers: Iterable[Number], count: int,
             fresh: bool = False) -> list[Run]:  # fmt: skip
        """Return the runs of some settings and numbers that are not requested yet."""
        first = self.first_seed + (FRESH_SEED if fresh else 0)
        conditions = {
            setting.condition(number.condition) for setting in settings for number in numbers
        }
        runs = itertools.product(sorted(conditions, key=Condition.full_name),
                                 range(first, first + count))  # fmt: skip
        return [run for run in runs if run not in self.results]

    def request(self, settings: Iterable[Setting], numbers: Iterable[Number], count: int,
                fresh: bool = False) -> None:  # fmt: skip
        """Measure what is missing."""
        todo = self.runs(settings, numbers, count, fresh)
        self.spent_s += core_s(todo)
        self.results |= self.measure(todo)

    def values(self, setting: Setting, number: Number, fresh: bool = False) -> dict[int, float]:
        """Return the measured values of a metric by seed, counted as the report counts."""
        condition, scale = setting.condition(number.condition), setting.scale(number.metric)
        found = {}
        for (measured, seed), result in self.results.items():
            is_fresh = seed >= self.first_seed + FRESH_SEED
            if measured != condition or is_fresh != fresh or result.violations:
                continue
            value = metrics.value(result.summary, number.metric)
            if value is not None:
                found[seed] = scale * value
        return found

    def spread(self, number: Number) -> float:
        """Return the standard deviation of a run's logarithm: the median of the settings'."""
        logs: dict[Condition, list[float]] = {}
        for setting in (REPORTED, *self.case.settings):
            values = self.values(setting, number)
            if len(values) > 1:
                condition = setting.condition(number.condition)
                logs[condition] = [number.log(value) for value in values.values()]
        return math.sqrt(statistics.median(map(statistics.variance, logs.values()))) if logs else 0

    def trial(self, setting: Setting, numbers: Sequence[Number], fresh: bool = False) -> Trial:
        """Judge a setting; LosslabError if a number has no valid run."""
        agreements, far, moves, no_difference = list[Agreement](), False, False, True
        for number in numbers:
            values = self.values(setting, number, fresh)
            if not values:
                raise LosslabError(self._violation(setting, number))
            noise = self.spread(number)
            agreed = agreement([*values.values()], number, self.case.tolerance, len(numbers))
            agreements.append(agreed)
            error = noise * math.sqrt(1 / len(values) + 1 / number.runs)
            off = abs(number.log(agreed.mean) - number.log(number.mean))
            far |= off > self.case.tolerance + FAR * error
            reported = self.values(REPORTED, number)
            seeds = values.keys() & reported.keys()
            effects = [number.log(values[seed]) - number.log(reported[seed]) for seed in seeds]
            if effects:
                limit = max(UNIMPORTANT, NOISE * noise * math.sqrt(2 / len(effects)))
                moves |= abs(fmean(effects)) > limit
                no_difference &= not any(effects) or _within(values, reported, seeds)
        p_values = [each.p_value for each in agreements if each.p_value is not None]
        complete = len(p_values) == len(numbers)
        p_value = min(1.0, len(numbers) * min(p_values)) if complete else None
        return Trial(setting, agreements, p_value, far, moves, no_difference)

    def _violation(self, setting: Setting, number: Number) -> str:
        condition = setting.condition(number.condition)
        lines = [line for (measured, _), result in self.results.items() if measured == condition
                 for line in result.violations]  # fmt: skip
        return f"no valid run ({number.title}): {lines[0] if lines else 'no such metric'}"

    def look(self, settings: Sequence[Setting], numbers: Sequence[Number]) -> dict[Setting, Trial]:
        """Measure settings, those that are not far off with more runs; return what they say."""
        self.request(settings, numbers, SCREEN_RUNS)
        trials = self._trials(settings, numbers)
        near = [setting for setting, trial in trials.items() if not trial.far]
        self.request(near, numbers, MIN_RUNS)
        return trials | self._trials(near, numbers)

    def _trials(
        self, settings: Iterable[Setting], numbers: Sequence[Number], fresh: bool = False
    ) -> dict[Setting, Trial]:
        trials = {}
        for setting in settings:
            try:
                trials[setting] = self.trial(setting, numbers, fresh)
            except LosslabError as error:
                self.not_tried[setting.label] = error.message
        return trials

    def confirm(self, trials: Mapping[Setting, Trial]) -> dict[Setting, Trial]:
        """Measure the nearest that fit with fresh seeds, at all numbers."""
        fit = sorted((trial for trial in trials.values() if trial.fits), key=lambda t: t.distance)
        finalists = [trial.setting for trial in fit[:FINALISTS_MAX]]
        for trial in fit[FINALISTS_MAX:]:
            self.not_tried[trial.setting.label] = (
                f"fits, but {FINALISTS_MAX} others are nearer: not measured with fresh seeds"
            )
        self.request(finalists, self.case.numbers, FRESH_RUNS, fresh=True)
        return self._trials(finalists, self.case.numbers, fresh=True)

    def run(self) -> Found:
        """Search; LosslabError if the reported condition has no valid run."""
        numbers, held_out = self.case.search, self.case.held_out
        self.request([REPORTED], numbers, MIN_RUNS)
        reported = self.trial(REPORTED, numbers)
        confirmed = self.confirm({REPORTED: reported})
        trials = {REPORTED: reported}
        pairs, pairs_left_out, joined = 0, "", False
        if not any(trial.fits for trial in confirmed.values()):
            if confirmed and held_out:
                # The reported condition fits but for the held-out numbers: only they can tell.
                numbers, held_out, joined = [*self.case.numbers], [], True
                self.request([REPORTED], numbers, MIN_RUNS)
                trials = {REPORTED: self.trial(REPORTED, numbers)}
            trials |= self.look(self.case.settings, numbers)
            singles = {s: t for s, t in trials.items() if s != REPORTED}
            confirmed |= self.confirm(singles)
            if not any(trial.fits for trial in confirmed.values()):
                chosen, pairs_left_out = self.pairs(singles, numbers)
                pairs = len(chosen)
                of_pairs = self.look(chosen, numbers)
                trials |= of_pairs
                confirmed |= self.confirm(of_pairs)
        adjust(trials.values())
        luck = chance(trials, numbers, self.case.tolerance, self.spread)
        limited = {s.label: count for s in trials if (count := self._limited(s))}
        return Found(
            self.case, [*trials.values()], confirmed, numbers, held_out, joined, pairs,
            pairs_left_out, luck, dict(self.case.not_tried) | self.not_tried, limited,
        )  # fmt: skip

    def pairs(
        self, singles: Mapping[Setting, Trial], numbers: Sequence[Number]
    ) -> tuple[list[Setting], str]:
        """Return all pairs of the settings that move a number, or none and why."""
        movers = [setting for setting, trial in singles.items() if trial.moves]
        pairs, seen = [], set()
        for one, other in itertools.combinations(movers, 2):
            if one.subject & other.subject:
                continue
            pair = Setting((*one.candidates, *other.candidates))
            try:
                conditions = tuple(
                    (pair.condition(each.condition), pair.scale(each.metric)) for each in numbers
                )
            except LosslabError as error:
                self.not_tried[pair.label] = error.message
                continue
            if conditions not in seen:
                seen.add(conditions)
                pairs.append(pair)
        if not pairs:
            return [], "fewer than two settings move a number"
        need_s = core_s(self.runs(pairs, numbers, SCREEN_RUNS))
        if self.spent_s + need_s > self.budget_s:
            return [], (
                f"the {len(pairs)} pairs of the {len(movers)} settings that move a number take "
                f"about {(self.spent_s + need_s) / 60:.1f} core-minutes in all, more than the "
                f"budget of {self.budget_s / 60:.1f}"
            )
        return pairs, ""

    def _limited(self, setting: Setting) -> int:
        conditions = {setting.condition(each.condition) for each in self.case.numbers}
        return sum(
            result.limited_by_buffer
            for (condition, _), result in self.results.items()
            if condition in conditions
        )


def _within(one: Mapping[int, float], other: Mapping[int, float], seeds: Collection[int]) -> bool:
    """Return whether two settings differ by less than 5 %: the whole confidence interval does."""
    ends = ratio_interval(
        [one[seed] for seed in seeds], [other[seed] for seed in seeds], paired=True
    ).interval
    return ends is not None and max(1 / max(ends[0], 1e-300), ends[1]) < math.exp(UNIMPORTANT)


def core_s(runs: Iterable[Run]) -> float:
    """Estimate the core time of runs in seconds, on an idle core."""
    return sum(cost.replicate_s(condition, VIRTUAL) for condition, _ in runs)


def first_s(search: Search) -> float:
    """Estimate the core time in seconds until pairs: all single settings, and some finalists."""
    case = search.case
    looks = search.runs(case.settings, case.search, SCREEN_RUNS)
    finals = search.runs([REPORTED, *case.settings[:2]], case.numbers, MIN_RUNS + FRESH_RUNS)
    return core_s(looks) + core_s(finals)


def adjust(trials: Iterable[Trial]) -> None:
    """Adjust the p-values for all settings that were tried; those far off come first."""
    tried = [trial for trial in trials if trial.p_value is not None or trial.far]
    p_values = [0.0 if trial.p_value is None else trial.p_value for trial in tried]
    for trial, adjusted in zip(tried, holm(p_values), strict=True):
        trial.adjusted = None if trial.p_value is None else adjusted


def chance(
    trials: Mapping[Setting, Trial],
    numbers: Sequence[Number],
    tolerance: float,
    spread: Callable[[Number], float],
) -> float:
    """Return the chance of a lucky fit.

    It is the share of random differences between the reported condition and a report, as large as
    the one found, that a setting of those tried would fit.
    """
    reported = trials[REPORTED].agreements
    size = trials[REPORTED].distance
    others = []
    for setting, trial in trials.items():
        if setting == REPORTED:
            continue
        reach = []
        for own, base, number in zip(trial.agreements, reported, numbers, strict=True):
            effect = number.log(own.mean) - number.log(base.mean)
            if own.interval is None:
                half = FAR * spread(number) * math.sqrt(1 / own.n + 1 / number.runs)
                reach.append((effect - half, effect + half))
            else:
                low, high = (math.log(max(end / own.ratio, 1e-300)) for end in own.interval)
                reach.append((effect + low, effect + high))
        others.append(reach)
    rng, hits = random.Random(1), 0
    for _ in range(LUCK_DRAWS):
        draw = [rng.gauss(0, 1) for _ in numbers]
        scale = size / (math.hypot(*draw) or 1.0)
        hits += any(
            all(low - tolerance <= scale * at <= high + tolerance
                for at, (low, high) in zip(draw, reach, strict=True))
            for reach in others
        )  # fmt: skip
    return hits / LUCK_DRAWS
