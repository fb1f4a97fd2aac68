"""Arguments of the Python interface, converted to Python's own types and checked.

numpy's and pandas' numbers are accepted everywhere. Every function raises UsageError for a value
that it does not accept, before anything runs.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from losslab.backends.registry import BACKENDS
from losslab.campaign import inputs
from losslab.errors import did_you_mean
from losslab.reading import UsageError, shown, whole_option
from losslab.study import parameters
from losslab.study.condition import AXES
from losslab.study.studyfiles import POINTS_MAX

Value = str | float
T = TypeVar("T")


def plain(given: Any) -> Any:
    """Return a scalar of numpy or pandas as Python's; other values stay as they are."""
    if isinstance(given, str):
        return str(given)
    if hasattr(given, "item") and not getattr(given, "ndim", 0):
        return given.item()
    return given


def axis_value(name: str, given: Any) -> Value:
    """Return an axis's value; the type is checked here, other limits by the condition."""
    value: Any = os.fspath(given) if isinstance(given, os.PathLike) else plain(given)
    if name in inputs.OF_FILES and isinstance(value, str):
        try:
            value = inputs.value(name, value)
        except (OSError, ValueError) as error:
            raise UsageError(f"{name} must be a readable path, found: {error}") from error
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{name} must be a number or text, found {shown(given)}")
    found: Value = value
    return found


def axis_values(name: str, given: Any) -> list[Value]:
    """Return a sweep's values of an axis, each once; a single value is a list of one."""
    if isinstance(given, Mapping | bytes):
        raise UsageError(f"{name} must be a value or a list of values, found {shown(given)}")
    single = isinstance(given, str) or not isinstance(given, Iterable)
    scalar = single or getattr(given, "ndim", 1) == 0
    # A generator may have no end.
    values = [given] if scalar else [*islice(given, POINTS_MAX + 1)]
    if not values:
        raise UsageError(f"{name} must have at least one value, found none")
    if len(values) > POINTS_MAX:
        raise UsageError(f"{name} must have at most {POINTS_MAX} values, found more")
    if name in parameters.ROLES:
        lists = [parameters.expanded(v) if isinstance(v, str) else [v] for v in values]
        values = [each for its in lists for each in its]
    return list(dict.fromkeys(axis_value(name, value) for value in values))


def whole(name: str, given: Any, minimum: int, maximum: int = 10**9) -> int:
    """Return an integer in a range."""
    value = plain(given)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise UsageError(f"{name} must be a whole number, found {shown(given)}")
    return whole_option(name, minimum, maximum)(str(operator.index(value)))


def timeout_s(given: Any) -> float | None:
    """Return a time in seconds above 0; None for no own limit."""
    value = None if given is None else plain(given)
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise UsageError(f"timeout_s must be a number of seconds or None, found {shown(given)}")
    if value is not None and not 0 < value < math.inf:  # nan is not above 0
        raise UsageError(f"timeout_s must be above 0 and finite, found {value}")
    return None if value is None else float(value)


def folder(name: str, given: Any) -> Path:
    """Return the path of a folder."""
    if not isinstance(given, str | os.PathLike) or not str(given):
        raise UsageError(f"{name} must be a folder, found {shown(given)}")
    return Path(given)


def names(name: str, given: Any) -> list[str]:
    """Return a list of texts; a single text is a list of one."""
    single = isinstance(given, str) or not isinstance(given, Iterable)
    found = [given] if single else [*given]
    if not all(isinstance(each, str) for each in found):
        raise UsageError(f"{name} must be a list of names, found {shown(given)}")
    return [str(each) for each in found]


def typed(name: str, given: Any, kind: type[T], what: str) -> T:
    """Return a value of a type; `what` names the type in the error."""
    value = plain(given)
    if not isinstance(value, kind):
        raise UsageError(f"{name} must be {what}, found {shown(given)}")
    return value


def require_backend(backend: Any, where: Any) -> None:
    """Refuse a backend, or a place of one, that does not exist."""
    _ = BACKENDS[str(backend), str(where)]


def require_axes(given: Iterable[str]) -> None:
    """Refuse names that are not axes."""
    if unknown := sorted(set(given) - AXES.keys()):
        raise UsageError(
            f"arguments must be axes, found {', '.join(unknown)}{did_you_mean(unknown[0], AXES)}",
            hint="`losslab axes` lists them",
        )
