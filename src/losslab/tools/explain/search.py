"""The search for the settings with which measured values are the published ones.

Every setting is measured with the same seeds. One that is near after two runs has five, and one
that fits is measured with fresh seeds, and at the held-out numbers. Then come all pairs of the
settings that move a number, or none, whether or not a single setting fits: one that fits need not
be the truth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from losslab.backends.base import VIRTUAL
from losslab.campaign import cost
from losslab.errors import LosslabError
from losslab.study import metrics
from losslab.study.condition import Condition
from losslab.study.intervals import MIN_RUNS
from losslab.tools.explain.agreement import Agreement
from losslab.tools.explain.candidates import REPORTED, Setting
from losslab.tools.explain.case import Case, Number, effect

# Runs of a first look at a setting and at a pair, and with fresh seeds; in between are `MIN_RUNS`.
SCREEN_RUNS, PAIR_RUNS, FRESH_RUNS = 2, 1, 8
# Fresh seeds are those of the search and this number.
FRESH_SEED = 1000
# Standard errors by which a setting is far off, in all numbers together.
FAR = 4.0
# Added to each standard error, so that equal runs have one.
LEAST_ERROR = 1e-3
# Smallest effect of a setting that needs a second one, twice the usual tolerance, and the noise in
# standard errors.
SMALL, NOISE = math.log(1.1), 2.5
# Shares of the settings that scatter less than is usual, and than is assumed for what is far off.
# Of two values of a normal distribution, 0.67 have a smaller standard deviation than the true one.
USUAL, LARGE = 0.67, 0.9
# A finalist that is more times less probable than another is not named.
ODDS_MAX = 20.0
# The nearest pairs that have more runs, and the nearest settings and pairs with fresh seeds.
PAIRS_NEAR, FINALISTS_MAX = 8, 6

Run = tuple[Condition, int]  # with its seed


@dataclass(frozen=True)
class Result:
    """Summary of a run; without one, the violations that make it invalid."""

    summary: Mapping[str, object]
    violations: tuple[str, ...] = ()
    limited_by_buffer: bool = False  # which makes no run invalid here


Measure = Callable[[Sequence[Run]], Mapping[Run, Result]]


@dataclass(frozen=True)
class Noise:
    """How much the runs of settings scatter in a number."""

    scatters: Sequence[float]  # of each setting, sorted: standard deviation of a run / mean
    freedom: int  # of all together

    def of(self, share: float) -> float:
        """Return the scatter below which a share of the settings is."""
        return self.scatters[int(share * (len(self.scatters) - 1))]


@dataclass(frozen=True)
class Trial:
    """What the runs of a setting say."""

    setting: Setting
    agreements: Sequence[Agreement]  # of the numbers that were measured
    deviations: Sequence[float]  # from these numbers, in standard errors
    fits: bool  # no number contradicts it
    moves: bool  # a number, compared with the reported condition

    @property
    def distance(self) -> float:
        """Return the deviation from all numbers together."""
        return math.hypot(*self.deviations)

    @property
    def far(self) -> bool:
        """Return whether it is far off, even after a few runs."""
        return self.distance > FAR


@dataclass
class Search:
    """Runs, what they say of each setting, and what was left out."""

    case: Case
    measure: Measure
    budget_s: float  # of core time, as estimated
    first_seed: int = 1
    results: dict[Condition, dict[int, Result]] = field(default_factory=dict)
    spent_s: float = 0.0
    # Of all settings that were measured, the reported condition first.
    trials: dict[Setting, Trial] = field(default_factory=dict)
    # Finalists with fresh seeds, at all numbers.
    confirmed: dict[Setting, Trial] = field(default_factory=dict)
    joined: bool = False  # the held-out numbers joined the search
    pairs_left_out: str = ""  # why, if the budget is too small for pairs
    impossible_pairs: int = 0
    numbers: list[Number] = field(init=False)  # to search with
    held_out: list[Number] = field(init=False)
    not_tried: dict[str, str] = field(init=False)  # reason by setting

    def __post_init__(self) -> None:
        """Begin with what the case holds out and leaves out."""
        self.numbers = [each for each in self.case.numbers if not each.held_out]
        self.held_out = [each for each in self.case.numbers if each.held_out]
        self.not_tried = dict(self.case.not_tried)

    @property
    def agreed(self) -> list[Setting]:
        """Return the finalists that fit with fresh seeds and at the held-out numbers.

        Of these, those that are not much less probable than another.
        """
        return [setting for setting, odds in self.odds().items() if odds <= ODDS_MAX]

    def odds(self) -> dict[Setting, float]:
        """Return how many times less probable each finalist that fits is than the most probable.

        Errors are taken as normal. A priori, one setting is as probable as two, so each of the
        n (n - 1) / 2 pairs is (n - 1) / 2 times less probable than each of n settings.
        """
        count = sum(not setting.pair for setting in self.trials) - 1  # without `REPORTED`
        powers = {
            setting: trial.distance**2 / 2 + math.log(max(1, (count - 1) / 2)) * bool(setting.pair)
            for setting, trial in self.confirmed.items() if trial.fits
        }  # fmt: skip
        return {
            setting: math.exp(power - min(powers.values())) for setting, power in powers.items()
        }

    @property
    def pairs(self) -> list[Setting]:
        """Return the pairs that were measured."""
        return [setting for setting in self.trials if setting.pair]

    def excluded(self, trial: Trial) -> bool:
        """Return whether a number contradicts a setting, for all that was tried (Bonferroni)."""
        count = len(trial.agreements) * len(self.trials)
        return any(each.contradicts(self.case.tolerance, count) for each in trial.agreements)

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
        factor, values = setting.factor(number.metric), {}
        for seed, result in self.results.get(setting.condition(number.condition), {}).items():
            value = metrics.value(result.summary, number.metric)
            is_fresh = seed >= self.first_seed + FRESH_SEED
            if value is not None and is_fresh == fresh and not result.violations:
                values[seed] = factor * value
        return values

    def noise(self, settings: Iterable[Setting], number: Number) -> Noise:
        """Return how much the runs of settings scatter."""
        samples = [
            [*self.values(each, number).values(), *self.values(each, number, fresh=True).values()]
            for each in settings
        ]
        several = [values for values in samples if len(values) > 1]
        return Noise(
            sorted(map(number.scatter_of, several)) or [0.0],
            max(1, sum(len(values) - 1 for values in several)),
        )

    def judged(
        self, settings: Iterable[Setting], numbers: Sequence[Number], fresh: bool = False
    ) -> dict[Setting, Trial]:
        """Judge settings by some numbers, without those that have no valid run."""
        singles = (REPORTED, *self.case.settings)
        noise = {number: self.noise(singles, number) for number in numbers}
        trials = {}
        for setting in settings:
            try:
                trials[setting] = self._trial(setting, noise, fresh)
            except LosslabError as error:
                self.not_tried[setting.label] = error.message
        return trials

    def _trial(self, setting: Setting, noise: Mapping[Number, Noise], fresh: bool) -> Trial:
        agreements, deviations, moves = list[Agreement](), list[float](), False
        tolerance = self.case.tolerance
        for number, common in noise.items():
            values = self.values(setting, number, fresh)
            if not values:
                raise LosslabError(self._violation(setting, number))
            # With the same seeds, few runs of all settings may happen to scatter little.
            own = self.noise({setting, *setting.parts}, number)
            larger = own if own.of(1.0) > common.of(LARGE) else common
            scatter = max(common.of(LARGE), number.count_scatter, own.of(1.0))
            agreed = Agreement(number, tuple(values.values()), scatter, larger.freedom)
            agreements.append(agreed)
            error = math.sqrt(tolerance**2 + sum(agreed.variances) + LEAST_ERROR**2)
            deviations.append(abs(agreed.difference) / error)
            reported = self.values(REPORTED, number)
            if both := values.keys() & reported.keys():
                ours, theirs = (fmean(each[seed] for seed in both) for each in (values, reported))
                limit = max(SMALL, NOISE * common.of(USUAL) * math.sqrt(2 / len(both)))
                moves |= abs(number.log(ours) - number.log(theirs)) > limit
        fits = not any(each.contradicts(tolerance, len(agreements)) for each in agreements)
        enough = min(len(each.values) for each in agreements) >= MIN_RUNS
        near = math.hypot(*deviations) <= FAR
        return Trial(setting, agreements, deviations, fits and enough and near, moves)

    def _violation(self, setting: Setting, number: Number) -> str:
        results = self.results.get(setting.condition(number.condition), {})
        lines = [line for result in results.values() for line in result.violations]
        return f"no valid run ({number.title}): {lines[0] if lines else 'no such metric'}"

    def run(self) -> None:
        """Search; LosslabError if the reported condition has no valid run."""
        self._look_at_reported()
        self.confirm([REPORTED])
        if self.agreed:
            return
        if self.confirmed and self.held_out:
            # The reported condition fits but for the held-out numbers: only they can tell.
            self.numbers, self.held_out, self.joined = [*self.case.numbers], [], True
            self._look_at_reported()
        singles = self.case.settings
        self.request(singles, self.numbers, SCREEN_RUNS)
        trials = self.judged(singles, self.numbers)
        near = [setting for setting, trial in trials.items() if not trial.far]
        self.request(near, self.numbers, MIN_RUNS)
        # Only now the usual scatter is known, by which the reported condition may fit after all.
        self.trials |= trials | self.judged([REPORTED, *near], self.numbers)
        self.confirm([REPORTED])
        if REPORTED in self.agreed:
            return
        self.confirm(singles)
        self._look_at_pairs()

    def _look_at_reported(self) -> None:
        self.request([REPORTED], self.numbers, MIN_RUNS)
        self.trials = self.judged([REPORTED], self.numbers)
        if not self.trials:
            raise LosslabError(self.not_tried[REPORTED.label])

    def confirm(self, settings: Iterable[Setting]) -> None:
        """Measure what fits with fresh seeds, at all numbers: the nearest, until some agree."""
        fit = sorted((self.trials[setting] for setting in settings
                      if setting in self.trials and self.trials[setting].fits),
                     key=lambda trial: trial.distance)  # fmt: skip
        for first in range(0, len(fit), FINALISTS_MAX):
            finalists = [trial.setting for trial in fit[first : first + FINALISTS_MAX]]
            self.request(finalists, self.case.numbers, FRESH_RUNS, fresh=True)
            judged = self.judged(finalists, self.case.numbers, fresh=True)
            self.confirmed |= judged
            if any(trial.fits for trial in judged.values()):
                break

    def _look_at_pairs(self) -> None:
        """Measure all pairs of the settings that move a number, or say why not.

        One condition is measured after another, first that in which most single settings are far
        off, and a pair that is far off in one is not measured in the next.
        """
        pairs, movers = self._pairs()
        conditions = sorted({number.condition for number in self.numbers}, key=self._far_off)
        near, seen, trials = pairs, list[Number](), dict[Setting, Trial]()
        for condition in (*conditions, None):
            numbers = [n for n in self.numbers if condition in (n.condition, None)]
            seen += [number for number in numbers if number not in seen]
            if condition is None:
                near = sorted(near, key=lambda pair: trials[pair].distance)[:PAIRS_NEAR]
            count = PAIR_RUNS if condition else MIN_RUNS
            need_s = self.spent_s + core_s(self.missing(near, numbers, count))
            if need_s > self.budget_s:
                self.pairs_left_out = (
                    f"the {len(pairs)} pairs of the {movers} settings that move a number take more "
                    f"than {need_s / 60:.1f} core-minutes in all, and the budget is "
                    f"{self.budget_s / 60:.1f}"
                )
                return
            self.request(near, numbers, count)
            trials |= self.judged(near, seen)
            near = [pair for pair in near if pair in trials and not trials[pair].far]
        self.trials |= trials
        self.confirm(near)

    def _far_off(self, condition: Condition) -> tuple[int, str]:
        """Return a key to sort conditions by how many settings are far off in them, most first."""
        count = 0
        for trial in self.trials.values():
            by_number = zip(trial.agreements, trial.deviations, strict=True)
            own = [off for agreed, off in by_number if agreed.number.condition == condition]
            count += math.hypot(*own) > FAR
        return -count, condition.full_name()

    def _pairs(self) -> tuple[list[Setting], int]:
        """Return all pairs of the settings that move a number, and the number of these.

        A setting that agrees alone is left out: with a second one, it is no simpler.
        """
        movers = [setting for setting, trial in self.trials.items()
                  if trial.moves and setting not in self.agreed]  # fmt: skip
        pairs: dict[object, Setting] = {}
        for one, other in itertools.combinations(movers, 2):
            if one.subject & other.subject:
                continue
            pair = one + other
            try:
                pairs.setdefault(effect(pair, self.numbers), pair)
            except LosslabError:
                self.impossible_pairs += 1
        return [*pairs.values()], len(movers)

    def limited(self) -> dict[str, int]:
        """Return how many runs a buffer limited, by setting."""
        counts = {}
        for setting in self.trials:
            conditions = {setting.condition(each.condition) for each in self.case.numbers}
            results = [r for c in conditions for r in self.results.get(c, {}).values()]
            if count := sum(result.limited_by_buffer for result in results):
                counts[setting.label] = count
        return counts

    def first_s(self) -> float:
        """Estimate the core time in seconds until pairs: all settings, and some finalists."""
        settings, numbers = self.case.settings, self.case.numbers
        finals = self.missing([REPORTED, *settings[:2]], numbers, MIN_RUNS + FRESH_RUNS)
        return core_s(self.missing(settings, self.numbers, SCREEN_RUNS)) + core_s(finals)


def core_s(runs: Iterable[Run]) -> float:
    """Estimate the core time of runs in seconds, on an idle core."""
    return sum(cost.replicate_s(condition, VIRTUAL) for condition, _ in runs)
