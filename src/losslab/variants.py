"""Variants of a point of the axes: multiples, sums, copies of other axes, and other values.

`losslab decide` varies the uncertain values of a path, and `losslab explain` what a report leaves
out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from losslab.errors import did_you_mean
from losslab.reading import UsageError, shown
from losslab.study import units
from losslab.study.axes import NONE, Value
from losslab.study.condition import AXES

# A factor, a sum, or another axis's value with or without a factor.
CHANGE = re.compile(r"(?:=([a-z_]+))?(?: ?([x+-])([0-9]+\.?[0-9]*|\.[0-9]+))?", re.ASCII)
FORM = "a value, x2, +2, -2, =rtt_ms or =rate_mbit x0.8"
# Axes whose value is a list: a change adds to it.
LISTS = ("parameters", "sysctl")
MIN_PACKETS = 1


def changed(point: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point with changes; axes that the point lacks have their defaults.

    A number may be changed by a factor (`x2`), a sum (`+2`, in the unit of the axis), or to another
    axis's value (`=rtt_ms`, `=rate_mbit x0.8`); all changes refer to the values before. Any other
    change is the new value, with or without a unit. UsageError if an axis or a change is wrong.
    """
    before = {name: axis.default for name, axis in AXES.items()} | {**point}
    return {**point} | {name: value(before, name, change) for name, change in changes.items()}


def value(point: Mapping[str, Any], name: str, change: Any) -> Value:
    """Return the value of one axis after a change; see `changed`."""
    if name not in AXES:
        raise UsageError(f"a change must be of an axis, found {shown(name)}"
                         + did_you_mean(name, AXES), hint="`losslab axes` lists them")  # fmt: skip
    axis = AXES[name]
    if axis.kind == "str":
        if not isinstance(change, str):
            raise UsageError(
                f"{name} must be text, found {shown(change)}", hint=f'write "{change}"'
            )
        listed = name in LISTS and point[name] != NONE
        return f"{point[name]}+{change}" if listed else change
    match = CHANGE.fullmatch(change) if isinstance(change, str) and change else None
    if match is None:
        new = units.one(name, change, {**point, name: change})
        if isinstance(new, str):
            raise UsageError(f"{name} must be changed to {FORM}, found {shown(change)}")
        return axis.typed(new)
    other, sign, number = match.groups()
    source = other or name
    if source not in AXES or AXES[source].kind == "str":
        raise UsageError(f"{name} must be changed to {FORM}, found {shown(change)}")
    now = float(point[source])
    amount = float(number or 0)
    after = {"x": now * amount, "+": now + amount, "-": now - amount, None: now}[sign]
    if axis.kind != "int":
        return float(f"{after:.9g}")
    # A buffer of one packet shrinks to none, which no path can have.
    return max(MIN_PACKETS, round(after)) if now > 0 else round(after)
