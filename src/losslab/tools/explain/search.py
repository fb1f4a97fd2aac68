"""The search for the settings with which measured values are the published ones.

Every setting is measured with the same seeds. One that is near after two runs has five, and one
that fits is measured with fresh seeds, and at the held-out numbers. Then come all pairs of the
settings that move a number, or none, whether or not a single setting fits: one that fits need not
be the truth.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from losslab.backends.base import VIRTUAL
from losslab.campaign import cost
from losslab.errors import LosslabError
from losslab.study import metrics
from losslab.study.condition import Condition
from losslab.study.intervals import MIN_RUNS, ratio_interval
from losslab.tools.explain.agreement import Agreement
from losslab.tools.explain.candidates import Setting
from losslab.tools.explain.case import Case, Number, effect

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

Run = tuple[Condition, int]  # with its seed


@dataclass(frozen=True)
class Result:
    """Summary of a run; without one, the violations that make it invalid."""

    summary: Mapping[str, object]
    violations: tuple[str, ...] = ()
    limited_by_buffer: bool = False  # which makes no run invalid here


Measure = Callable[[Sequence[Run]], Mapping[Run, Result]]


@dataclass(frozen=True)
class Trial:
    """What the runs of a setting say."""

    setting: Setting
    agreements: Sequence[Agreement]  # of the numbers that were measured
    far: bool  # at a glance, after the first runs
    fits: bool  # no number contradicts it
    distance: float  # from the numbers, in standard errors
    moves: bool  # a number, compared with the reported condition
    no_difference: bool  # from the reported condition, in any number


@dataclass
class Found:
    """The result of a search."""

    case: Case
    numbers: list[Number]  # that were searched with
    held_out: list[Number]  # that were not
    # Of all settings that were measured, the reported condition first.
    trials: dict[Setting, Trial] = field(default_factory=dict)
    # Finalists with fresh seeds, at all numbers.
    confirmed: dict[Setting, Trial] = field(default_factory=dict)
    joined: bool = False  # the held-out numbers joined the search
    pairs_left_out: str = ""  # why, if the budget is too small for pairs
    not_tried: dict[str, str] = field(default_factory=dict)  # reason by setting

    @property
    def agreed(self) -> list[Setting]:
        """Return the finalists that fit with fresh seeds and at the held-out numbers."""
        return [setting for setting, trial in self.confirmed.items() if trial.fits]

    @property
    def pairs(self) -> list[Trial]:
        """Return the trials of pairs."""
        return [trial for trial in self.trials.values() if len(trial.setting.candidates) > 1]

    def excluded(self, trial: Trial) -> bool:
        """Return whether a number contradicts a setting, for all that was tried (Bonferroni)."""
        count = len(trial.agreements) * len(self.trials)
        return any(each.contradicts(self.case.tolerance, count) for each in trial.agreements)


@dataclass
class Search:
    """Runs, and what they say."""

    case: Case
    measure: Measure
    budget_s: float  # of core time, as estimated
    first_seed: int = 1
    results: dict[Condition, dict[int, Result]] = field(default_factory=dict)
    spent_s: float = 0.0

    def missing(self, settings: Iterable[Setting], numbers: Iterable[Number], count: int,
                fresh: bool = False) -> list[Run]:  # fmt: skip
        """Return the runs of some settings and numbers that are not requested yet."""
        first = self.first_seed + FRESH_SEED * fresh
        conditions = {
            setting.condition(number.condition) for setting in settings for number in numbers
        }
        runs = itertools.product(sorted(conditions, key=Condition.full_name),
                                 range(first, first + count))  # fmt: skip
        return [(c, seed) for c, seed in runs if seed not in self.results.get(c, {})]

    def request(self, settings: Iterable[Setting], numbers: Iterable[Number], count: int,
                fresh: bool = False) -> None:  # fmt: skip
        """Measure what is missing."""
        runs = self.missing(settings, numbers, count, fresh)
        self.spent_s += core_s(runs)
        for (condition, seed), result in self.measure(runs).items():
            self.results.setdefault(condition, {})[seed] = result

    def values(self, setting: Setting, number: Number, fresh: bool = False) -> dict[int, float]:
        """Return the measured values of a metric by seed, counted as the report counts."""
        scale, values = setting.scale(number.metric), {}
        for seed, result in self.results.get(setting.condition(number.condition), {}).items():
            value = metrics.value(result.summary, number.metric)
            is_fresh = seed >= self.first_seed + FRESH_SEED
            if value is not None and is_fresh == fresh and not result.violations:
                values[seed] = scale * value
        return values

    def spread(self, number: Number) -> float:
        """Return the standard deviation of a run's logarithm: the median of the settings'."""
        logs: dict[Condition, list[float]] = {}
        for setting in (REPORTED, *self.case.settings):
            values = self.values(setting, number)
            if len(values) > 1:
                condition = setting.condition(number.condition)
                logs[condition] = [number.log(value) for value in values.values()]
        return math.sqrt(statistics.median(map(statistics.variance, logs.values()))) if logs else 0

    def trials(
        self, settings: Iterable[Setting], numbers: Sequence[Number], found: Found,
        fresh: bool = False,
    ) -> dict[Setting, Trial]:  # fmt: skip
        """Judge settings; those without a valid run are named in `found`."""
        noise = {number: self.spread(number) for number in numbers}
        trials = {}
        for setting in settings:
            try:
                trials[setting] = self._trial(setting, noise, fresh)
            except LosslabError as error:
                found.not_tried[setting.label] = error.message
        return trials

    def _trial(self, setting: Setting, noise: Mapping[Number, float], fresh: bool) -> Trial:
        agreements, far, moves, no_difference, squares = list[Agreement](), False, False, True, 0.0
        tolerance = self.case.tolerance
        for number, spread in noise.items():
            values = self.values(setting, number, fresh)
            if not values:
                raise LosslabError(self._violation(setting, number))
            agreed = Agreement(number, tuple(values.values()))
            agreements.append(agreed)
            scatter = spread if number.cv is None else number.cv
            error = math.hypot(spread / math.sqrt(len(values)), scatter / math.sqrt(number.runs))
            far |= abs(agreed.difference) > tolerance + FAR * error
            squares += (agreed.difference / (math.hypot(tolerance, error) or 1e-3)) ** 2
            reported = self.values(REPORTED, number)
            seeds = sorted(values.keys() & reported.keys())
            ours, theirs = ([each[seed] for seed in seeds] for each in (values, reported))
            effects = [number.log(one) - number.log(other)
                       for one, other in zip(ours, theirs, strict=True)]  # fmt: skip
            if effects:
                limit = max(UNIMPORTANT, NOISE * spread * math.sqrt(2 / len(effects)))
                moves |= abs(fmean(effects)) > limit
                no_difference &= not any(effects) or _within(ours, theirs)
        fits = not any(each.contradicts(tolerance, len(agreements)) for each in agreements)
        enough = min(len(each.values) for each in agreements) >= MIN_RUNS
        return Trial(setting, agreements, far, fits and enough, math.sqrt(squares), moves,
                     no_difference)  # fmt: skip

    def _violation(self, setting: Setting, number: Number) -> str:
        results = self.results.get(setting.condition(number.condition), {})
        lines = [line for result in results.values() for line in result.violations]
        return f"no valid run ({number.title}): {lines[0] if lines else 'no such metric'}"

    def confirm(self, settings: Iterable[Setting], found: Found) -> None:
        """Measure the nearest that fit with fresh seeds, at all numbers."""
        trials = [found.trials[setting] for setting in settings if setting in found.trials]
        fit = sorted((trial for trial in trials if trial.fits), key=lambda each: each.distance)
        finalists = [trial.setting for trial in fit[:FINALISTS_MAX]]
        for trial in fit[FINALISTS_MAX:]:
            found.not_tried[trial.setting.label] = (
                f"fits, but {FINALISTS_MAX} others are nearer: not measured with fresh seeds"
            )
        self.request(finalists, self.case.numbers, FRESH_RUNS, fresh=True)
        found.confirmed |= self.trials(finalists, self.case.numbers, found, fresh=True)

    def run(self) -> Found:
        """Search; LosslabError if the reported condition has no valid run."""
        found = Found(self.case, self.case.search, self.case.held_out)
        found.not_tried |= self.case.not_tried
        self._look_at_reported(found)
        self.confirm([REPORTED], found)
        if found.agreed:
            return found
        if found.confirmed and found.held_out:
            # The reported condition fits but for the held-out numbers: only they can tell.
            found.numbers, found.held_out, found.joined = [*self.case.numbers], [], True
            self._look_at_reported(found)
        singles = self.case.settings
        self.request(singles, found.numbers, SCREEN_RUNS)
        found.trials |= self.trials(singles, found.numbers, found)
        self._look_nearer(singles, found)
        self.confirm(singles, found)
        self._look_at_pairs(found)
        return found

    def _look_at_reported(self, found: Found) -> None:
        self.request([REPORTED], found.numbers, MIN_RUNS)
        found.trials = self.trials([REPORTED], found.numbers, found)
        if REPORTED not in found.trials:
            raise LosslabError(found.not_tried[REPORTED.label])

    def _look_nearer(self, settings: Iterable[Setting], found: Found) -> None:
        near = [s for s in settings if s in found.trials and not found.trials[s].far]
        self.request(near, found.numbers, MIN_RUNS)
        found.trials |= self.trials(near, found.numbers, found)

    def _look_at_pairs(self, found: Found) -> None:
        """Measure all pairs of the settings that move a number, or say why not.

        One condition is measured after another, first that in which most single settings are far
        off, and a pair that is far off in one is not measured in the next.
        """
        pairs, movers = self.pairs(found)
        singles = [trial for trial in found.trials.values() if trial.setting != REPORTED]
        far = {
            number.condition: sum(
                abs(agreed.difference) > self.case.tolerance
                for trial in singles if trial.far
                for agreed in trial.agreements if agreed.number.condition == number.condition
            )
            for number in found.numbers
        }  # fmt: skip
        near, seen, trials = pairs, list[Number](), dict[Setting, Trial]()
        for condition in sorted(far, key=lambda each: -far[each]):
            seen += [number for number in found.numbers if number.condition == condition]
            for count in (
                (SCREEN_RUNS, MIN_RUNS) if len(seen) == len(found.numbers) else (SCREEN_RUNS,)
            ):
                need_s = self.spent_s + core_s(self.missing(near, seen, count))
                if need_s > self.budget_s:
                    found.pairs_left_out = (
                        f"the {len(pairs)} pairs of the {movers} settings that move a number take "
                        f"more than {need_s / 60:.1f} core-minutes in all, and the budget is "
                        f"{self.budget_s / 60:.1f}"
                    )
                    return
                self.request(near, seen, count)
                trials |= self.trials(near, seen, found)
                near = [pair for pair in near if pair in trials and not trials[pair].far]
        found.trials |= trials
        self.confirm(near, found)

    def pairs(self, found: Found) -> tuple[list[Setting], int]:
        """Return all pairs of the settings that move a number, and the number of these.

        A setting that agrees alone is left out: with a second one, it is no simpler.
        """
        movers = [trial.setting for trial in found.trials.values()
                  if trial.moves and trial.setting not in found.agreed]  # fmt: skip
        pairs: dict[object, Setting] = {}
        for one, other in itertools.combinations(movers, 2):
            if one.subject & other.subject:
                continue
            pair = Setting((*one.candidates, *other.candidates))
            try:
                pairs.setdefault(effect(pair, found.numbers), pair)
            except LosslabError as error:
                found.not_tried[pair.label] = error.message
        return [*pairs.values()], len(movers)

    def limited(self, found: Found) -> dict[str, int]:
        """Return how many runs a buffer limited, by setting."""
        counts = {}
        for setting in found.trials:
            conditions = {setting.condition(each.condition) for each in self.case.numbers}
            results = [r for c in conditions for r in self.results.get(c, {}).values()]
            if count := sum(result.limited_by_buffer for result in results):
                counts[setting.label] = count
        return counts


def _within(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether two settings differ by less than 5 %: the whole confidence interval does."""
    ends = ratio_interval(one, other, paired=True).interval
    return ends is not None and max(1 / max(ends[0], 1e-300), ends[1]) < math.exp(UNIMPORTANT)


def core_s(runs: Iterable[Run]) -> float:
    """Estimate the core time of runs in seconds, on an idle core."""
    return sum(cost.replicate_s(condition, VIRTUAL) for condition, _ in runs)


def first_s(search: Search) -> float:
    """Estimate the core time in seconds until pairs: all single settings, and some finalists."""
    case = search.case
    looks = search.missing(case.settings, case.search, SCREEN_RUNS)
    finals = search.missing([REPORTED, *case.settings[:2]], case.numbers, MIN_RUNS + FRESH_RUNS)
    return core_s(looks) + core_s(finals)
