"""Judgement of a time line by the checks of a case.

A check has one subject (`SUBJECTS`), a place, and what must hold. A case whose stimulus did not
hold, or whose run is invalid, is inconclusive: a draft says nothing about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from losslab.campaign import state
from losslab.campaign.criteria import FAIL, INCONCLUSIVE, NOT_OBSERVABLE, PASS
from losslab.errors import did_you_mean
from losslab.study import metrics
from losslab.study.studyfiles import as_list
from losslab.tools.conform.timeline import (
    HALF_US,
    POINT,
    SAMPLED,
    SPAN,
    Column,
    NotObservableError,
    NotReachedError,
    Timeline,
)

# From the worst; the verdict of several seeds is the worst of theirs.
VERDICTS = (FAIL, INCONCLUSIVE, NOT_OBSERVABLE, PASS)

WINDOW = ("from", "to", "during", "seconds", "rounds")
COMPARISONS = {
    "is": "", "is_not": "not ", "at_least": "at least ", "at_most": "at most ", "above": "above ",
    "below": "below ", "near": "near ",
}  # fmt: skip
COMPARED = (*COMPARISONS, "share", "set")
ORDER = {
    "at_least": np.greater_equal, "at_most": np.less_equal, "above": np.greater, "below": np.less,
}  # fmt: skip
# Comparisons that only numbers have.
NUMERIC = (*ORDER, "near")
# The keys that each subject may have.
SUBJECTS: dict[str, tuple[str, ...]] = {
    "value": ("at", *COMPARED),
    "age": ("at", *COMPARED),
    "change": ("from", "to", *COMPARED),
    "always": (*WINDOW, *COMPARED),
    "never": (*WINDOW, *COMPARED),
    "sometimes": (*WINDOW, *COMPARED),
    "total": (*WINDOW, *COMPARED),
    "event": (*WINDOW, "in"),
    "next": ("of", "from", "seconds", "rounds"),
    "phase": ("at",),
    "metric": COMPARED,
    "any": (),
}
NOTES = ("step", "ours")  # of every check
WHOLE = 1e6  # numbers above are shown with all digits
POINTS, SPANS = ("at", "from", "to"), ("of", "during")
# Variables that are text, with all their values.
TEXTS = {"event": [*state.EVENTS.values()], "ca_state": [*state.CA_STATES.values()]}
# A number, a variable with a factor, or one at another point: `0.9 rate`, `bw_lo at before loss`.
OPERAND = re.compile(
    r"(?:(?P<factor>\d+(?:\.\d+)?) )?(?P<name>[A-Za-z_][\w.\[\]]*)(?: at (?P<at>.+))?"
)


class Outcome(NamedTuple):
    """Verdict of a check, and a text with the numbers that decide."""

    verdict: str
    text: str


def subject(check: Mapping[str, Any]) -> str:
    """Return the subject of a check."""
    return next(name for name in SUBJECTS if name in check)


def problems(check: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a check that follows the schema."""
    names = [name for name in SUBJECTS if name in check]
    if len(names) != 1:
        yield f"must have one of {', '.join(SUBJECTS)}, found {', '.join(names) or 'none'}"
        return
    name = names[0]
    if other := sorted(check.keys() - {name, *SUBJECTS[name], *NOTES}):
        yield f"{name} must have only {', '.join(SUBJECTS[name]) or 'checks'}, found {other[0]}"
    compared = {*COMPARISONS, "set"} & check.keys()
    if name in ("value", "age", "change", "total", "metric") and not compared:
        yield f"{name} must be compared ({', '.join((*COMPARISONS, 'set'))}), found nothing"
    if ("near" in check) != ("share" in check):
        yield "near and share must be given together"
    for key in {"value": ("at",), "age": ("at",), "change": ("from", "to"), "next": ("of",),
                "phase": ("at",)}.get(name, ()):  # fmt: skip
        if key not in check:
            yield f"{name} must have {key}, found none"
    if name == "metric":
        yield from metrics.problems(check["metric"])
    if "during" in check and (other := [key for key in WINDOW if key in check and key != "during"]):
        yield f"a window must have either during or {other[0]}, found both"
    known = TEXTS.get(str(check[name]), ())
    for text in (check[key] for key in ("is", "is_not") if known and key in check):
        if text not in known and " at " not in str(text):
            yield (
                f"{check[name]} must be compared with one of {', '.join(known)}, found {text}"
                + did_you_mean(str(text), known)
            )
    yield from _place_problems(check)
    yield from _number_problems(check)
    for alternative in check.get("any", ()):
        yield from problems(alternative)


def _number_problems(check: Mapping[str, Any]) -> Iterator[str]:
    """Yield comparisons with values that are not numbers, and empty ranges."""
    for key in (key for key in NUMERIC if key in check):
        value = check[key]
        its = OPERAND.fullmatch(value) if isinstance(value, str) else None
        if isinstance(value, bool) or (isinstance(value, str) and its is None):
            yield f"{key} must be a number, or a variable such as `0.9 rate`, found {value!r}"
        elif its and "metric" in check:
            yield f"{key} of a metric must be a number, found {value!r}"
    ends = [check[key] for key in ("at_least", "at_most") if key in check]
    if len(ends) == 2 and all(type(end) in (int, float) for end in ends) and ends[0] > ends[1]:
        yield f"at_least must be at most at_most ({ends[1]:g}), found {ends[0]:g}"


def _place_problems(check: Mapping[str, Any]) -> Iterator[str]:
    for key in POINTS:
        if key in check and not POINT.fullmatch(str(check[key])):
            yield f"{key} must be a point such as T+0.5 or enter UP 2, found {check[key]!r}"
    for key in SPANS:
        if key in check and not SPAN.fullmatch(check[key]):
            yield f"{key} must be a phase such as UP, UP 2 or DOWN after UP, found {check[key]!r}"
    for key in COMPARISONS:
        its = OPERAND.fullmatch(check[key]) if isinstance(check.get(key), str) else None
        if its and its["at"] and not POINT.fullmatch(its["at"]):
            yield f"{key} must name a point after `at`, found {its['at']!r}"


def uses_begin(check: Mapping[str, Any]) -> bool:
    """Return whether a place of a check depends on the time T of the trigger."""
    texts = [*(check.get(key, "") for key in POINTS), *(check.get(key, "") for key in COMPARISONS)]
    return any(re.search(r"(?:^| )T(?:[+-]|$)", str(text)) for text in texts) or any(
        map(uses_begin, check.get("any", ()))
    )


def phases_of(check: Mapping[str, Any]) -> Iterator[str]:
    """Yield the phases in which a check's places are."""
    for key in (*POINTS, *SPANS):
        its = (POINT if key in POINTS else SPAN).fullmatch(str(check.get(key, "")))
        if its and its["phase"]:
            yield its["phase"]
    for each in check.get("any", ()):
        yield from phases_of(each)


def judge(check: Mapping[str, Any], line: Timeline) -> Outcome:
    """Judge one check."""
    try:
        return _JUDGES[subject(check)](check, line)
    except NotReachedError as error:
        return Outcome(INCONCLUSIVE, str(error))
    except NotObservableError as error:
        return Outcome(NOT_OBSERVABLE, str(error))


def of_case(
    case: Mapping[str, Any], line: Timeline
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the outcomes of a case's stimulus and of its steps, as data."""
    held, steps = (
        [
            {key: check[key] for key in NOTES if key in check} | judge(check, line)._asdict()
            for check in checks
        ]
        for checks in (case.get("holds", ()), case["expect"])
    )
    return held, steps


def verdict_of(
    held: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]
) -> tuple[str, str]:
    """Return the verdict of a case and its reason, from those of its checks."""
    for wanted in (NOT_OBSERVABLE, INCONCLUSIVE, FAIL):
        for stimulus in held:
            if stimulus["verdict"] == wanted:
                verdict = NOT_OBSERVABLE if wanted == NOT_OBSERVABLE else INCONCLUSIVE
                return verdict, f"stimulus: {stimulus['text']}"
    verdict = min((each["verdict"] for each in steps), key=VERDICTS.index)
    return verdict, "; ".join(
        (f"step {each['step']}: " if "step" in each else "")
        + each["text"]
        + (f" (ours: {each['ours']})" if "ours" in each else "")
        for each in steps
        if each["verdict"] == verdict
    )


def _any(check: Mapping[str, Any], line: Timeline) -> Outcome:
    """Return the best of several outcomes; FAIL only if all fail."""
    found = [judge(each, line) for each in check["any"]]
    verdict = max((each.verdict for each in found), key=VERDICTS.index)
    if verdict == NOT_OBSERVABLE and any(each.verdict == FAIL for each in found):
        verdict = INCONCLUSIVE
    own = [each.text for each in found if verdict != PASS or each.verdict == PASS]
    return Outcome(verdict, "; ".join(own))


def _phase(check: Mapping[str, Any], line: Timeline) -> Outcome:
    wanted = as_list(check["phase"])
    members = line.members(wanted)
    found = str(line.rows["phase"].iloc[line.point(check["at"]).row])
    return _outcome(found in members, f"phase at {check['at']} is {found}", " or ".join(wanted))


def _outcome(good: bool, text: str, wanted: str) -> Outcome:
    return Outcome(PASS, text) if good else Outcome(FAIL, f"{text}, must be {wanted}")


def _next(check: Mapping[str, Any], line: Timeline) -> Outcome:
    """Judge which phase follows a span, and when."""
    names = as_list(check["next"])
    wanted = line.members(names)
    span = line.span(check["of"])
    begin = line.point(check["from"]) if "from" in check else line.point(span.begin_s)
    limit_s = line.limit(check, begin)
    after = line.following(span)
    length_s = span.end_s - begin.at_s
    rounds = ""  # a QUIC sender's log does not say them
    if "sample_packets" in line.rows.columns:
        count = sum(begin.row < row <= span.last for row in line.round_starts)
        rounds = f", {count} rounds"
    text = f"{check['of']} -> {after.phase if after else 'the end of the run'} after "
    text += f"{length_s:.4g} s{rounds}"
    expected = " or ".join(names)
    if limit_s is not None and span.end_s > limit_s + HALF_US:
        limits = (f"{check[key]:g} {key}" for key in ("seconds", "rounds") if key in check)
        return Outcome(FAIL, f"{text}, must be {expected} within {' and '.join(limits)}")
    if after is None:
        return Outcome(INCONCLUSIVE, text)
    if after.phase in line.interrupts and after.phase not in wanted:
        return Outcome(INCONCLUSIVE, f"{text}, which cut it off")
    return _outcome(after.phase in wanted, text, expected)


def _event(check: Mapping[str, Any], line: Timeline) -> Outcome:
    window = line.window(check)
    its = line.column("event") == check["event"]
    if "in" in check:
        its &= line.column("ca_state") == check["in"]
    rows = np.flatnonzero(its[window.first : window.stop]) + window.first
    what = check["event"] + (f" in {check['in']}" if "in" in check else "")
    if not len(rows):
        return Outcome(FAIL, f"no {what} {_place(check)}")
    return Outcome(PASS, f"{what} at {line.times[rows[0]]:.6g} s")


def _quantified(check: Mapping[str, Any], line: Timeline) -> Outcome:
    """Judge a variable at all rows of a window; a window without rows decides nothing."""
    word = subject(check)
    name = check[word]
    values, window = line.column(name), line.window(check)
    kept = np.arange(window.first, window.stop)
    if name in SAMPLED:
        kept = kept[(line.rows["event"] == "ack").to_numpy()[kept]]
    if not len(kept):
        return Outcome(INCONCLUSIVE, f"no event {_place(check)}")
    holds, wanted = _compared(check, values[kept], line, kept)
    count = int(holds.sum())
    good = {"always": count == len(kept), "never": count == 0, "sometimes": count > 0}[word]
    text = f"{name} {_place(check)} is {_extremes(values[kept])}"
    if count and word == "sometimes":
        text += f", first at {line.times[kept[holds.argmax()]]:.6g} s"
    if not good and word != "sometimes":
        broken = kept[(holds if word == "never" else ~holds).argmax()]
        text += f", {_shown(values[broken])} at {line.times[broken]:.6g} s"
    return _outcome(good, text, f"{word} {wanted}")


def _extremes(values: Column) -> str:
    if values.dtype.kind not in "biuf":
        return ", ".join(dict.fromkeys(map(str, values)))
    set_values = values[~np.isnan(values.astype(float))]
    if not len(set_values):
        return "not set"
    low, high = _shown(set_values.min()), _shown(set_values.max())
    return low if low == high else f"{low} to {high}"


def _metric(check: Mapping[str, Any], line: Timeline) -> Outcome:
    """Judge a metric of the run; one without a value fails: a download did not end in the run."""
    name = check["metric"]
    found = line.summary.get(name)
    value, last = np.array([np.nan if found is None else found]), np.array([len(line.times) - 1])
    its, wanted = _compared(check, value, line, last)
    text = f"{name} has no value" if found is None else f"{name} is {found:.4g}"
    return _outcome(bool(its.all()), text, wanted)


def _number(check: Mapping[str, Any], line: Timeline) -> Outcome:
    """Judge one number: a value, its age, its change, or a total."""
    name = subject(check)
    variable = check[name]
    if name == "total":
        window = line.window(check)
        row = min(window.stop, len(line.times)) - 1
        number, text = line.total(variable, window), f"{variable} {_place(check)}"
    elif name == "change":
        values = line.column(variable)
        first, last = line.point(check["from"]).row, line.point(check["to"]).row
        if last < first:
            raise NotReachedError(f"{check['to']} is before {check['from']}")
        row, text = last, f"change of {variable} {_place(check)}"
        if np.isnan(values[first]) or values[first] == 0:
            return Outcome(INCONCLUSIVE, f"{variable} at {check['from']} is 0 or not set")
        text += f" ({_shown(values[first])} to {_shown(values[last])})"
        number = values[last] / values[first] - 1
    else:
        row = line.point(check["at"]).row
        number, text = line.column(variable)[row], f"{variable} at {check['at']}"
        if name == "age":
            values = line.column(variable)
            changes = np.flatnonzero(values[: row + 1] != values[row])
            changed = int(changes[-1]) + 1 if len(changes) else 0
            number, text = line.times[row] - line.times[changed], f"age of {text}"
    holds, wanted = _compared(check, np.array([number]), line, np.array([row]))
    return _outcome(bool(holds.all()), f"{text} is {_shown(number)}", wanted)


def _compared(
    check: Mapping[str, Any], values: Column, line: Timeline, rows: Column
) -> tuple[Column, str]:
    """Compare values; return whether each holds, and what was asked for. No value is "not set"."""
    texts = values.dtype.kind not in "biuf"
    missing = np.zeros(len(values), bool) if texts else np.isnan(values.astype(float))
    holds, wanted = np.ones(len(values), bool), []
    if "set" in check:
        holds &= missing != check["set"]
        wanted.append("set" if check["set"] else "not set")
    for key, word in COMPARISONS.items():
        if key not in check:
            continue
        if texts and not key.startswith("is"):
            raise NotObservableError(f"{check[subject(check)]} is text, which has no {key}")
        operand, shown = _operand(check[key], line, rows, texts)
        if check[subject(check)] == state.PHASE and operand is check[key]:
            operand = [*line.members([operand])]  # a group stands for its phases
        holds &= _holds(key, values, operand, missing, check.get("share", 0))
        share = f" within {100 * check['share']:g} %" if key == "near" else ""
        wanted.append(f"{word}{shown}{share}")
    if not wanted:
        holds, wanted = ~missing & (values != 0), ["set"]
    return holds, " and ".join(wanted)


def _holds(key: str, values: Column, other: Any, missing: Column, share: float) -> Column:
    if key in ("is", "is_not"):
        none = np.isnan(other) if np.asarray(other).dtype.kind == "f" else False
        equal = np.isin(values, other) if isinstance(other, list) else values == other
        same = np.asarray(equal | (missing & none))
        return same if key == "is" else ~same
    if key == "near":
        return np.asarray(np.abs(values - other) <= share * np.abs(other))
    return np.asarray(ORDER[key](values, other))


def _operand(value: Any, line: Timeline, rows: Column, text: bool) -> tuple[Any, str]:
    """Return what values are compared with, at their rows, and how it is shown."""
    its = OPERAND.fullmatch(value) if isinstance(value, str) else None
    if its is None or (text and not its["at"]):
        return value, value if isinstance(value, str) else _shown(value)
    column = line.column(its["name"])
    found = column[line.point(its["at"]).row] if its["at"] else column[rows]
    if its["factor"]:
        found = found * float(its["factor"])
    numbers = np.unique(np.asarray(found)) if not text else np.array([])
    return found, f"{value} ({_shown(numbers[0])})" if len(numbers) == 1 else value


def _shown(number: Any) -> str:
    if isinstance(number, str):
        return number
    if isinstance(number, bool | np.bool_):
        return "yes" if number else "no"
    if np.isnan(number):
        return "not set"
    return f"{number:.0f}" if abs(number) > WHOLE else f"{number:.4g}"


def _place(check: Mapping[str, Any]) -> str:
    """Return the words of a check's place."""
    words = [f"{key} {check[key]}" for key in ("during", "from", "to") if key in check]
    words += [f"in {check[key]:g} {key}" for key in ("seconds", "rounds") if key in check]
    return " ".join(words) or "in the run"


_JUDGES = {
    "any": _any,
    "next": _next,
    "phase": _phase,
    "event": _event,
    "metric": _metric,
    **dict.fromkeys(("always", "never", "sometimes"), _quantified),
    **dict.fromkeys(("value", "age", "change", "total"), _number),
}
