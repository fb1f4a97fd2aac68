"""Parameters of the kernel's congestion controls: the syntax of the axis `parameters`.

    ALGORITHM.PARAMETER=VALUE+...             the axis, as in EXAMPLE; sorted
    ALGORITHM,PARAMETER=VALUE,...             the short form, in place of an algorithm's name

An algorithm has the same parameters for all flows of a cell, because all hosts share a kernel. They
are on its command line, so an algorithm's init function sees them, too.

The guest imports this module: use only the standard library.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from losslab.errors import LosslabError
from losslab.study.axes import NONE
from losslab.study.background import KEYS, SAME, refuse_pools

EXAMPLE = "cubic.hystart=0+mine.gain=3"
# An array's elements are joined by commas.
VALUE = r"[A-Za-z0-9._-]+(,[0-9-][A-Za-z0-9]*)*"
ELEMENTS = r"-?[0-9]+(\|-?[0-9]+)*"  # of an array, or the last of one and the first of another
SETTING = rf"[A-Za-z0-9][A-Za-z0-9_-]*\.[A-Za-z_][A-Za-z0-9_]*={VALUE}"
PATTERN = rf"{NONE}|{SETTING}(\+{SETTING})*"
# Axes that name one algorithm.
ROLES = ("algorithm", "competitor")
WAY_OUT = "a copy has its own, `losslab new algorithm {0}2 --from {0}`"

Parameters = dict[str, dict[str, str]]  # values by algorithm and name


def parse(text: str) -> Parameters:
    """Parse the axis's value, which matches `PATTERN`."""
    parameters: Parameters = {}
    for setting in text.split("+") if text != NONE else ():
        place, _, value = setting.partition("=")
        algorithm, _, name = place.partition(".")
        _add(parameters, algorithm, {name: value})
    return parameters


def to_text(parameters: Parameters) -> str:
    """Return the axis's value."""
    settings = (
        f"{algorithm}.{name}={value}"
        for algorithm, values in sorted(parameters.items())
        for name, value in sorted(values.items())
    )
    return "+".join(settings) or NONE


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split an algorithm's short form into its name and parameters."""
    algorithm, *words = text.split(",")
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in values:
            raise LosslabError(f"{text:.80} must set each parameter once, found a second {name}")
        if equals:
            values[name] = value
        elif values and re.fullmatch(r"[0-9-][A-Za-z0-9]*", word):
            values[next(reversed(values))] += f",{word}"
        else:
            raise LosslabError(
                f"an algorithm must be NAME or NAME,PARAMETER=VALUE,..., found {text!r:.80}"
            )
    return algorithm, values


def expanded(form: str) -> list[str]:
    """Return the short forms of a form with lists: `cubic,beta=512|717` is two of them."""
    settings: list[str] = []
    for word in form.split(","):
        if settings and "=" in settings[-1] and "=" not in word:
            settings[-1] += f",{word}"  # an array's element
        else:
            settings.append(word)
    lists = []
    for setting in settings:
        name, equals, values = setting.partition("=")
        lists.append([f"{name}={value}" for value in values.split("|")] if equals else [name])
    return [",".join(words) for words in itertools.product(*lists)]


def algorithms(text: str) -> list[str]:
    """Split a list of algorithms at commas; a word after a parameter belongs to its algorithm."""
    forms: list[str] = []
    for word in text.split(","):
        of_last = "=" in word or ("=" in "".join(forms[-1:]) and re.fullmatch(ELEMENTS, word))
        if forms and of_last:
            forms[-1] += f",{word}"
        else:
            forms.append(word)
    return [each for form in forms for each in expanded(form)]


def resolved(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the axes that a point has with short forms, and its `parameters`.

    Raises LosslabError if flows of one algorithm have different parameters.
    """
    given, flows = point.get("parameters", NONE), point.get("flows", NONE)
    parameters = parse(given) if re.fullmatch(PATTERN, str(given)) else {}
    forms = {role: split(point[role]) for role in ROLES if isinstance(point.get(role), str)}
    axes = {role: algorithm for role, (algorithm, _) in forms.items()}
    if isinstance(flows, str) and flows != NONE:
        refuse_pools(flows)
        groups = [_group(group) for group in flows.split("+")]
        axes["flows"] = "+".join(group for group, _ in groups)
        uses = [*forms.values(), *_uses(groups, str(axes.get("algorithm")))]
    else:
        uses = [*forms.values()]
    if not (parameters or any(values for _, values in uses)):
        return {}
    for algorithm in dict.fromkeys(name for name, _ in uses):
        common = parameters.get(algorithm, {})
        first, *others = [common | values for name, values in uses if name == algorithm]
        for other in others:
            if other != first:
                error = _different(algorithm, first, other)
                if flows != NONE:
                    error.hint += f"; other keys of flows must be among {', '.join(KEYS)}"
                raise error
        _add(parameters, algorithm, first)
    return axes | {"parameters": to_text(parameters)}


def _uses(
    groups: Sequence[tuple[str, dict[str, str]]], foreground: str
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the algorithms of groups of flows with their parameters.

    A group with the foreground flow's algorithm counts only with parameters: without, it has those
    of the foreground flow.
    """
    for group, values in groups:
        algorithm = group.partition(",")[0]
        if algorithm != SAME:
            yield algorithm, values
        elif values:
            yield foreground, values


def _group(text: str) -> tuple[str, dict[str, str]]:
    """Return a group of background flows without its algorithm's parameters, and these."""
    algorithm, *pairs = text.split(",")
    settings = [pair for pair in pairs if "=" in pair and pair.partition("=")[0] not in KEYS]
    of_group = [pair for pair in pairs if pair not in settings]
    return ",".join([algorithm, *of_group]), split(",".join([algorithm, *settings]))[1]


def _add(parameters: Parameters, algorithm: str, more: Mapping[str, str]) -> None:
    if not more:
        return
    values = parameters.setdefault(algorithm, {})
    if any(values.get(name, value) != value for name, value in more.items()):
        raise _different(algorithm, values, more)
    values |= more


def _different(algorithm: str, *both: Mapping[str, str]) -> LosslabError:
    texts = (", ".join(f"{k}={v}" for k, v in its.items()) or "its defaults" for its in both)
    found = " and with ".join(texts).encode("unicode_escape").decode()
    return LosslabError(
        "flows of one algorithm must have the same parameters, because they share a kernel, found "
        f"{algorithm:.40} with {found}",
        hint=WAY_OUT.format(algorithm[:40]),
    )


def boot_words(text: str) -> Iterator[str]:
    """Yield the words of the kernel's command line; a module's name has no hyphens."""
    if not re.fullmatch(PATTERN, text):
        raise LosslabError(f"parameters must match {PATTERN}, found {text!r:.80}")
    for algorithm, values in parse(text).items():
        for name, value in values.items():
            yield f"tcp_{algorithm.replace('-', '_')}.{name}={value}"
