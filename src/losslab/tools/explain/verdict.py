"""What a search means, in careful words, and which further number would decide."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from statistics import fmean
from typing import Any

from losslab import __version__, cellspec
from losslab.study import metrics
from losslab.study.axes import short
from losslab.study.intervals import MIN_RUNS, metric_interval
from losslab.tools.explain.candidates import REPORTED, Setting
from losslab.tools.explain.case import Number
from losslab.tools.explain.search import FRESH_SEED, Search, Trial

# Metrics that authors often have without having published them.
ASKED = ("retransmits", "srtt_mean_ms", "cwnd_median_packets", "rwnd_limited_percent",
         "window_cuts_per_s", "goodput_mbit")  # fmt: skip
ASKED_MAX = 2
OTHERS_MAX = 6  # that the notes name
# Smallest difference between two settings that an author's number would show.
VISIBLE = math.log(1.2)
PERCENT_MIN = 1.0
# What no setting of the list is.
NOT_LISTED = "old kernels, slow CPUs, NICs and their drivers, Wi-Fi"


class Verdict(StrEnum):
    """Verdict on a report."""

    NOTHING = "nothing to explain"
    EXPLAINED = "explained"
    CONSISTENT = "consistent"
    AMBIGUOUS = "cannot be told apart"
    NONE = "nothing here explains it"


def verdict(search: Search) -> Verdict:
    """Return the verdict.

    A report is explained only by single settings that change the same, if all pairs of others were
    tried, if everything else is excluded or far off, and if a number that was held out agrees.
    """
    agreed = search.agreed
    if REPORTED in agreed:
        return Verdict.NOTHING
    if not agreed:
        return Verdict.NONE
    if len({setting.subject for setting in agreed}) > 1:
        return Verdict.AMBIGUOUS
    single = not any(setting.pair for setting in agreed)
    strong = search.held_out and len(search.numbers) > 1 and not search.pairs_left_out
    return Verdict.EXPLAINED if single and strong and not rivals(search) else Verdict.CONSISTENT


def rivals(search: Search) -> list[Setting]:
    """Return what was tried and is neither far off nor excluded, without what agrees."""
    subjects = {setting.subject for setting in search.agreed}
    refuted = {s for s, trial in search.confirmed.items() if not trial.fits}
    return [
        trial.setting
        for trial in nearest_first(search)
        if not trial.far and not search.excluded(trial) and trial.setting not in refuted
        and trial.setting.subject not in subjects
    ]  # fmt: skip


def headline(search: Search) -> str:
    """Return the verdict in a sentence or two."""
    agreed, said = search.agreed, verdict(search)
    names = " | ".join(setting.label for setting in agreed)
    tried = f"{len(search.trials) - 1 - len(search.pairs)} settings"
    tried += f" and {len(search.pairs)} pairs" if search.pairs else ""
    if said is Verdict.NOTHING:
        return "Nothing to explain: the reported condition agrees with all numbers."
    if said is Verdict.AMBIGUOUS:
        untried = "; pairs were not tried" if search.pairs_left_out else ""
        return f"Cannot be told apart: {names}{untried}."
    if said is Verdict.EXPLAINED:
        return f"Explained by {names}: of {tried}, nothing else agrees."
    if said is Verdict.CONSISTENT:
        return f"Consistent with {names}, which is no proof."
    refuted = [setting.label for setting in search.confirmed]
    but = (f"; {' | '.join(refuted)} fit at first, but not with fresh seeds or held-out numbers"
           if refuted else "")  # fmt: skip
    nearest = nearest_first(search)[0].setting.label
    return f"Nothing here explains it: none of {tried} agrees{but}. Nearest: {nearest}."


def nearest_first(search: Search) -> list[Trial]:
    """Return what was tried, in the order of the distance from the numbers."""
    return sorted(search.trials.values(), key=lambda trial: (trial.far, trial.distance))


def notes(search: Search) -> Iterator[str]:
    """Yield what a reader must know to judge the verdict."""
    explains = bool(search.agreed) and REPORTED not in search.agreed
    if len(search.numbers) == 1:
        yield "Weak: only one number was searched with, and almost any gap has an explanation."
    if search.joined:
        yield (
            "The reported condition fits all but the held-out numbers, so these joined the search, "
            "and nothing was held out: a further number of the report must confirm the result."
        )
    elif explains and not search.held_out:
        yield "No number was held out, so nothing has confirmed the result."
    if explains and (others := rivals(search)):
        more = f" and {len(others) - OTHERS_MAX} more" if len(others) > OTHERS_MAX else ""
        names = ", ".join(setting.label for setting in others[:OTHERS_MAX])
        yield f"Not excluded, nearest first: {names}{more}."
    if search.pairs_left_out:
        yield f"Pairs were not tried, and one may agree as well: {search.pairs_left_out}."
    elif search.pairs:
        alone = [setting.label for setting in search.agreed if not setting.pair]
        yield "All pairs of the settings that move a number were tried" + (
            f", without {' | '.join(alone)}: what agrees alone needs no second setting."
            if alone
            else "."
        )
    elif explains:
        yield "No pair was tried: fewer than two other settings move a number."
    if search.impossible_pairs:
        yield f"{search.impossible_pairs} pairs cannot be measured together."
    for label, count in search.limited().items():
        yield f"A buffer limited a flow in {count} runs ({label}); these runs count."
    if verdict(search) is Verdict.NONE:
        yield f"No setting covers {NOT_LISTED}."


def outcome(search: Search, trial: Trial) -> str:
    """Return what the search says of a setting."""
    words = [
        "fits" if trial.fits else "excluded" if search.excluded(trial)
        else "far off" if trial.far else "does not fit"
    ]  # fmt: skip
    if trial.setting != REPORTED and not trial.moves:
        words.append("no visible effect")
    return "; ".join(words)


def questions(search: Search) -> list[dict[str, Any]]:
    """Return the unpublished numbers that would tell apart what agrees, the best first.

    Of a single setting that agrees, these are numbers that differ from the reported condition's.
    """
    settings = list(search.agreed or search.confirmed)[:4]
    if REPORTED in settings or not settings:
        return []
    settings += [REPORTED] if len(settings) == 1 else []
    published = {(each.condition, each.metric) for each in search.case.numbers}
    ranked = []
    for number in search.numbers:
        for name in ASKED:
            other = replace(number, metric=name, held_out=False)
            if (number.condition, name) in published:
                continue
            published.add((number.condition, name))
            values = [[*search.values(setting, other).values()] for setting in settings]
            gap = _gap(values, other)
            if gap > 0:
                means = {s.label: fmean(v) for s, v in zip(settings, values, strict=True)}
                ranked.append((gap, {"metric": name, "title": metrics.declared()[name].title,
                                     "condition": number.name, "means": means}))  # fmt: skip
    ranked.sort(key=lambda each: -each[0])
    return [question for _, question in ranked[:ASKED_MAX]]


def _gap(values: Sequence[Sequence[float]], number: Number) -> float:
    """Return how well a metric tells settings apart; 0 if it does not tell the outer two apart."""
    if min(map(len, values)) < MIN_RUNS:
        return 0.0
    ordered = sorted(values, key=fmean)
    ends = [metric_interval(each, number.metric) for each in (ordered[0], ordered[-1])]
    if metrics.declared()[number.metric].unit == "%" and fmean(ordered[-1]) < PERCENT_MIN:
        return 0.0
    least, most = (number.log(fmean(each)) for each in (ordered[0], ordered[-1]))
    if ends[0] is None or ends[1] is None or ends[0][1] >= ends[1][0] or most - least < VISIBLE:
        return 0.0
    spread = fmean(statistics.stdev(map(number.log, each)) for each in values)
    return (most - least) / max(spread, 0.03)


def result(search: Search) -> dict[str, Any]:
    """Return the result as data."""
    numbers = [
        {"name": each.name, "metric": each.metric, "published": each.mean, "runs": each.runs,
         "held_out": each in search.held_out, "cv_percent": each.cv and 100 * each.cv}
        for each in search.case.numbers
    ]  # fmt: skip
    return {
        "headline": headline(search), "verdict": verdict(search),
        "agreed": [setting.label for setting in search.agreed],
        "notes": [*notes(search)], "ask": questions(search),
        "source": search.case.source,
        "tolerance_percent": 100 * math.expm1(search.case.tolerance), "numbers": numbers,
        "settings": [
            {"setting": trial.setting.label, "pair": bool(trial.setting.pair),
             "outcome": outcome(search, trial), "moves": trial.moves, "numbers": _ratios(trial)}
            for trial in sorted(nearest_first(search), key=lambda trial: trial.setting != REPORTED)
        ],
        "finalists": [
            {"setting": setting.label, "agrees": trial.fits,
             "times_less_probable": search.odds().get(setting), "numbers": _ratios(trial),
             "changes": {axis: short(change) for part in setting.parts
                         for axis, change in part.changes.items()},
             "commands": _commands(search, setting)}
            for setting, trial in search.confirmed.items()
        ],
        "pairs_left_out": search.pairs_left_out, "not_tried": search.not_tried,
        "runs": sum(map(len, search.results.values())), "core_s": search.spent_s,
        "losslab": __version__, "emulated": True,
    }  # fmt: skip


def _ratios(trial: Trial) -> list[dict[str, Any]]:
    """Return measured / published of each number, whose intervals share the 5 % error."""
    rows = []
    for each in trial.agreements:
        ends = each.interval(len(trial.agreements))
        rows.append({
            "name": each.number.name, "metric": each.number.metric, "n": len(each.values),
            "mean": each.mean, "ratio": _exp(each.difference),
            "interval": ends and [_exp(end) for end in ends],
        })  # fmt: skip
    return rows


def _exp(power: float) -> float:
    return math.exp(min(power, 700.0))


def _commands(search: Search, setting: Setting) -> list[str]:
    conditions = dict.fromkeys(setting.condition(each.condition) for each in search.case.numbers)
    seed = search.first_seed + FRESH_SEED
    return [
        cellspec.measure_command(condition, seed, f"explained-{number}")
        for number, condition in enumerate(conditions, 1)
    ]
