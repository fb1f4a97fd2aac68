"""Parameters of the kernel's congestion controls: the syntax of the axis `parameters`.

    ALGORITHM.PARAMETER=VALUE+...             the axis, as in EXAMPLE; sorted
    ALGORITHM,PARAMETER=VALUE,...             the short form, in place of an algorithm's name

An algorithm has the same parameters for all flows of a cell, because all hosts share a kernel. They
are on its command line, so an algorithm's init function sees them, too.

The guest imports this module: use only the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from losslab.errors import LosslabError
from losslab.study.axes import NONE
from losslab.study.background import KEYS, SAME

EXAMPLE = "cubic.hystart=0+mine.gain=3"
# An array's elements are joined by commas.
VALUE = r"[A-Za-z0-9._-]+(,[0-9-][A-Za-z0-9]*)*"
SETTING = rf"[A-Za-z0-9][A-Za-z0-9_-]*\.[A-Za-z_][A-Za-z0-9_]*={VALUE}"
PATTERN = rf"{NONE}|{SETTING}(\+{SETTING})*"
# Axes that name one algorithm.
ROLES = ("algorithm", "competitor")
WAY_OUT = "a copy has its own, `losslab new algorithm {0}2 --from {0}`"

Parameters = dict[str, dict[str, str]]  # values by algorithm and name


def parse(text: str) -> Parameters:
    """Parse the axis's value, which matches `PATTERN`."""
    found: Parameters = {}
    for setting in text.split("+") if text != NONE else ():
        place, _, value = setting.partition("=")
        algorithm, _, name = place.partition(".")
        _add(found, algorithm, {name: value})
    return found


def to_text(parameters: Parameters) -> str:
    """Return the axis's value."""
    settings = (
        f"{algorithm}.{name}={value}"
        for algorithm, its in sorted(parameters.items())
        for name, value in sorted(its.items())
    )
    return "+".join(settings) or NONE


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split an algorithm's short form into its name and parameters."""
    algorithm, *words = text.split(",")
    its: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in its:
            raise LosslabError(f"{text:.80} must set each parameter once, found a second {name}")
        if equals:
            its[name] = value
        elif its and re.fullmatch(r"[0-9-][A-Za-z0-9]*", word):
            its[next(reversed(its))] += f",{word}"
        else:
            raise LosslabError(
                f"an algorithm must be NAME or NAME,PARAMETER=VALUE,..., found {text!r:.80}"
            )
    return algorithm, its


def algorithms(text: str) -> list[str]:
    """Split a list of algorithms at commas; a word after a parameter belongs to its algorithm."""
    found: list[str] = []
    for word in text.split(","):
        of_last = "=" in word or ("=" in "".join(found[-1:]) and re.fullmatch(r"-?[0-9]+", word))
        if found and of_last:
            found[-1] += f",{word}"
        else:
            found.append(word)
    return found


def resolved(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the axes that a point has with short forms, and its `parameters`.

    Raises LosslabError if flows of one algorithm have different parameters.
    """
    given, flows = point.get("parameters", NONE), point.get("flows", NONE)
    texts = {role: point[role] for role in ROLES if isinstance(point.get(role), str)}
    names: Parameters = parse(given) if re.fullmatch(PATTERN, str(given)) else {}
    found: dict[str, Any] = {}
    named: list[tuple[str, dict[str, str]]] = []
    for role, text in texts.items():
        found[role], its = split(text)
        named.append((found[role], its))
    if isinstance(flows, str) and flows != NONE:
        groups = [_group(group) for group in flows.split("+")]
        found["flows"] = "+".join(group for group, _ in groups)
        for group, its in groups:
            algorithm = group.partition(",")[0]
            if algorithm != SAME:
                named.append((algorithm, its))
            elif its:
                named.append((str(found.get("algorithm")), its))
    if not (names or any(its for _, its in named)):
        return {}
    for algorithm in dict.fromkeys(name for name, _ in named):
        common = dict(names.get(algorithm, {}))
        first, *others = [common | its for name, its in named if name == algorithm]
        for its in others:
            if its != first:
                error = _different(algorithm, first, its)
                if flows != NONE:
                    error.hint += f"; other keys of flows must be among {', '.join(KEYS)}"
                raise error
        _add(names, algorithm, first)
    return found | {"parameters": to_text(names)}


def _group(text: str) -> tuple[str, dict[str, str]]:
    """Return a group of background flows without its algorithm's parameters, and these."""
    algorithm, *pairs = text.split(",")
    mine = [pair for pair in pairs if "=" in pair and pair.partition("=")[0] not in KEYS]
    kept = [pair for pair in pairs if pair not in mine]
    return ",".join([algorithm, *kept]), split(",".join([algorithm, *mine]))[1]


def _add(parameters: Parameters, algorithm: str, more: Mapping[str, str]) -> None:
    if not more:
        return
    its = parameters.setdefault(algorithm, {})
    if any(its.get(name, value) != value for name, value in more.items()):
        raise _different(algorithm, its, more)
    its |= more


def _different(algorithm: str, *both: Mapping[str, str]) -> LosslabError:
    shown = (", ".join(f"{k}={v}" for k, v in its.items()) or "its defaults" for its in both)
    return LosslabError(
        "flows of one algorithm must have the same parameters, because they share a kernel, found "
        f"{algorithm:.40} with {' and with '.join(shown)}",
        hint=WAY_OUT.format(algorithm[:40]),
    )


def boot_words(text: str) -> Iterator[str]:
    """Yield the words of the kernel's command line; a module's name has no hyphens."""
    if not re.fullmatch(PATTERN, text):
        raise LosslabError(f"parameters must match {PATTERN}, found {text!r:.80}")
    for algorithm, its in parse(text).items():
        for name, value in its.items():
            yield f"tcp_{algorithm.replace('-', '_')}.{name}={value}"
