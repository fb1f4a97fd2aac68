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
from losslab.tools.explain.candidates import Setting
from losslab.tools.explain.case import Number
from losslab.tools.explain.search import FRESH_SEED, REPORTED, Found, Search, Trial

# Metrics that authors often have without having published them.
ASKED = ("retransmits", "srtt_mean_ms", "cwnd_median_packets", "rwnd_limited_percent",
         "window_cuts_per_s", "goodput_mbit")  # fmt: skip
ASKED_MAX = 2
# Smallest difference between two settings that an author's number would show.
VISIBLE = math.log(1.2)
PERCENT_MIN = 1.0
# Largest chance of a lucky fit that is not called weak.
WEAK = 0.2
# What no setting of the list is.
NOT_LISTED = "old kernels, slow CPUs, NICs and their drivers, Wi-Fi"


class Verdict(StrEnum):
    """Verdict on a report."""

    NOTHING = "nothing to explain"
    EXPLAINED = "explained"
    CONSISTENT = "consistent"
    AMBIGUOUS = "cannot be told apart"
    NONE = "nothing here explains it"


def verdict(found: Found) -> Verdict:
    """Return the verdict.

    A report is explained only by single settings that change the same, if everything else that
    was tried is excluded or far off, and if a number that was held out agrees.
    """
    agreed = found.agreed
    if REPORTED in agreed:
        return Verdict.NOTHING
    if not agreed:
        return Verdict.NONE
    if len({setting.subject for setting in agreed}) > 1:
        return Verdict.AMBIGUOUS
    strong = found.held_out and len(found.numbers) > 1 and found.luck <= WEAK
    single = all(len(setting.candidates) == 1 for setting in agreed)
    return Verdict.EXPLAINED if single and strong and not rivals(found) else Verdict.CONSISTENT


def rivals(found: Found) -> list[Setting]:
    """Return what was tried and is neither far off nor excluded, without what agrees."""
    subjects = {setting.subject for setting in found.agreed}
    refuted = {s for s, trial in found.confirmed.items() if not trial.fits}
    return [
        trial.setting
        for trial in found.trials
        if not trial.far and not trial.excluded and trial.setting not in refuted
        and trial.setting.subject not in subjects
    ]  # fmt: skip


def headline(found: Found) -> str:
    """Return the verdict in a sentence or two."""
    agreed, said = found.agreed, verdict(found)
    names = " | ".join(setting.label for setting in agreed)
    tried = f"{sum(len(t.setting.candidates) == 1 for t in found.trials)} settings"
    tried += f" and {found.pairs} pairs" if found.pairs else ""
    if said is Verdict.NOTHING:
        return "Nothing to explain: the reported condition agrees with all numbers."
    if said is Verdict.AMBIGUOUS:
        return f"Cannot be told apart: {names}."
    if said is Verdict.EXPLAINED:
        return f"Explained by {names}: of {tried}, nothing else agrees."
    if said is Verdict.CONSISTENT:
        return f"Consistent with {names}, which is no proof: see below."
    refuted = [setting.label for setting in found.confirmed]
    but = (f"; {' | '.join(refuted)} fit at first, but not with fresh seeds or held-out numbers"
           if refuted else "")  # fmt: skip
    nearest = min(found.trials, key=lambda trial: trial.distance).setting.label
    return f"Nothing here explains it: none of {tried} agrees{but}. Nearest: {nearest}."


def notes(found: Found) -> Iterator[str]:
    """Yield what a reader must know to judge the verdict."""
    if len(found.case.search) == 1 and not found.joined:
        yield "Weak: only one number was searched with, and almost any gap has an explanation."
    if found.joined:
        yield (
            "The reported condition fits all but the held-out numbers, so these joined the search, "
            "and nothing was held out: a further number of the report must confirm the result."
        )
    elif not found.held_out and found.agreed:
        yield "No number was held out, so nothing has confirmed the result."
    if found.luck > WEAK and found.agreed:
        yield "Weak: the numbers would fit some setting by chance."
    if len(found.trials) > 1:
        yield (
            f"Chance of a lucky fit: {100 * found.luck:.0f} % of random differences of this size "
            f"would fit one of the {len(found.trials) - 1} settings and pairs tried."
        )
    others = rivals(found) if found.agreed and REPORTED not in found.agreed else []
    if others:
        yield f"Not excluded: {', '.join(setting.label for setting in others)}."
    if found.pairs_left_out:
        yield f"No pair was tried: {found.pairs_left_out}."
    elif not found.pairs and found.agreed and REPORTED not in found.agreed:
        yield "No pair was tried, because a single setting fits."
    for label, count in found.limited.items():
        yield f"A buffer limited a flow in {count} runs ({label}); these runs count."
    if verdict(found) is Verdict.NONE:
        yield f"No setting covers {NOT_LISTED}."


def outcome(trial: Trial) -> str:
    """Return what the search says of a setting."""
    words = [
        "fits" if trial.fits else "excluded" if trial.excluded
        else "far off" if trial.far else "does not fit"
    ]  # fmt: skip
    if trial.setting != REPORTED and trial.no_difference:
        words.append("makes no difference")
    return "; ".join(words)


def questions(search: Search, found: Found) -> list[dict[str, Any]]:
    """Return the unpublished numbers that would tell apart what agrees, the best first.

    Of a single setting that agrees, these are numbers that differ from the reported condition's.
    """
    settings = list(found.agreed or found.confirmed)[:4]
    if REPORTED in settings or not settings:
        return []
    settings += [REPORTED] if len(settings) == 1 else []
    published = {(each.condition, each.metric) for each in found.case.numbers}
    ranked = []
    for number in found.numbers:
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


def result(search: Search, found: Found) -> dict[str, Any]:
    """Return the result as data."""
    numbers = [
        {"name": each.name, "metric": each.metric, "published": each.mean, "runs": each.runs,
         "held_out": each in found.held_out, "cv_percent": each.cv and 100 * each.cv}
        for each in found.case.numbers
    ]  # fmt: skip
    trials = sorted(found.trials, key=lambda t: (t.setting != REPORTED, t.far, t.distance))
    return {
        "headline": headline(found), "verdict": verdict(found),
        "agreed": [setting.label for setting in found.agreed],
        "notes": [*notes(found)], "ask": questions(search, found), "source": found.case.source,
        "tolerance_percent": 100 * math.expm1(found.case.tolerance), "numbers": numbers,
        "settings": [
            {"setting": trial.setting.label, "outcome": outcome(trial), "moves": trial.moves,
             "p_value": trial.p_value, "p_value_holm": trial.adjusted,
             "numbers": _agreements(trial)}
            for trial in trials
        ],
        "finalists": [
            {"setting": setting.label, "agrees": trial.fits, "numbers": _agreements(trial),
             "changes": {axis: short(change) for each in setting.candidates
                         for axis, change in each.changes.items()},
             "commands": _commands(search, setting)}
            for setting, trial in found.confirmed.items()
        ],
        "chance_of_lucky_fit": found.luck, "pairs": found.pairs, "not_tried": found.not_tried,
        "limited_by_buffer": found.limited, "runs": len(search.results),
        "core_s": search.spent_s, "losslab": __version__, "emulated": True,
    }  # fmt: skip


def _agreements(trial: Trial) -> list[dict[str, Any]]:
    return [
        {"name": each.number.name, "metric": each.number.metric, "n": each.n, "mean": each.mean,
         "ratio": each.ratio, "interval": each.interval and list(each.interval)}
        for each in trial.agreements
    ]  # fmt: skip


def _commands(search: Search, setting: Setting) -> list[str]:
    conditions = dict.fromkeys(setting.condition(each.condition) for each in search.case.numbers)
    seed = search.first_seed + FRESH_SEED
    return [
        cellspec.measure_command(condition, seed, f"explained-{number}")
        for number, condition in enumerate(conditions, 1)
    ]
