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

    A report is explained only by single settings that change the same, if all pairs of others were
    tried, if everything else is excluded or far off, and if a number that was held out agrees.
    """
    agreed = found.agreed
    if REPORTED in agreed:
        return Verdict.NOTHING
    if not agreed:
        return Verdict.NONE
    if len({setting.subject for setting in agreed}) > 1:
        return Verdict.AMBIGUOUS
    single = all(len(setting.candidates) == 1 for setting in agreed)
    strong = found.held_out and len(found.numbers) > 1 and not found.pairs_left_out
    return Verdict.EXPLAINED if single and strong and not rivals(found) else Verdict.CONSISTENT


def rivals(found: Found) -> list[Setting]:
    """Return what was tried and is neither far off nor excluded, without what agrees."""
    subjects = {setting.subject for setting in found.agreed}
    refuted = {s for s, trial in found.confirmed.items() if not trial.fits}
    return [
        setting
        for setting, trial in found.trials.items()
        if not trial.far and not found.excluded(trial) and setting not in refuted
        and setting.subject not in subjects
    ]  # fmt: skip


def headline(found: Found) -> str:
    """Return the verdict in a sentence or two."""
    agreed, said = found.agreed, verdict(found)
    names = " | ".join(setting.label for setting in agreed)
    tried = f"{len(found.trials) - 1 - len(found.pairs)} settings"
    tried += f" and {len(found.pairs)} pairs" if found.pairs else ""
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
    nearest = nearest_first(found)[0].setting.label
    return f"Nothing here explains it: none of {tried} agrees{but}. Nearest: {nearest}."


def nearest_first(found: Found) -> list[Trial]:
    """Return what was tried, in the order of the distance from the numbers."""
    return sorted(found.trials.values(), key=lambda trial: (trial.far, trial.distance))


def notes(search: Search, found: Found) -> Iterator[str]:
    """Yield what a reader must know to judge the verdict."""
    explains = bool(found.agreed) and REPORTED not in found.agreed
    if len(found.case.search) == 1 and not found.joined:
        yield "Weak: only one number was searched with, and almost any gap has an explanation."
    if found.joined:
        yield (
            "The reported condition fits all but the held-out numbers, so these joined the search, "
            "and nothing was held out: a further number of the report must confirm the result."
        )
    elif explains and not found.held_out:
        yield "No number was held out, so nothing has confirmed the result."
    if explains and (others := rivals(found)):
        yield f"Not excluded: {', '.join(setting.label for setting in others)}."
    if found.pairs_left_out:
        yield f"Pairs were not tried, and one may agree as well: {found.pairs_left_out}."
    elif found.pairs:
        alone = [setting.label for setting in found.agreed if len(setting.candidates) == 1]
        yield "All pairs of the settings that move a number were tried" + (
            f", without {' | '.join(alone)}: what agrees alone needs no second setting."
            if alone
            else "."
        )
    elif explains:
        yield "No pair was tried: fewer than two other settings move a number."
    for label, count in search.limited(found).items():
        yield f"A buffer limited a flow in {count} runs ({label}); these runs count."
    if verdict(found) is Verdict.NONE:
        yield f"No setting covers {NOT_LISTED}."


def outcome(found: Found, trial: Trial) -> str:
    """Return what the search says of a setting."""
    words = [
        "fits" if trial.fits else "excluded" if found.excluded(trial)
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
    return {
        "headline": headline(found), "verdict": verdict(found),
        "agreed": [setting.label for setting in found.agreed],
        "notes": [*notes(search, found)], "ask": questions(search, found),
        "source": found.case.source,
        "tolerance_percent": 100 * math.expm1(found.case.tolerance), "numbers": numbers,
        "settings": [
            {"setting": trial.setting.label, "pair": len(trial.setting.candidates) > 1,
             "outcome": outcome(found, trial), "moves": trial.moves, "numbers": _ratios(trial)}
            for trial in sorted(nearest_first(found), key=lambda trial: trial.setting != REPORTED)
        ],
        "finalists": [
            {"setting": setting.label, "agrees": trial.fits, "numbers": _ratios(trial),
             "changes": {axis: short(change) for each in setting.candidates
                         for axis, change in each.changes.items()},
             "commands": _commands(search, setting)}
            for setting, trial in found.confirmed.items()
        ],
        "pairs_left_out": found.pairs_left_out, "not_tried": found.not_tried,
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
