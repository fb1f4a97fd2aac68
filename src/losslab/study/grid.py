"""The parameter grid of a study: the cross product of each block's axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from losslab.errors import LosslabError
from losslab.study import background, schedule
from losslab.study.condition import AXES

# The value of `competitor` that stands for the foreground flow's algorithm.
SAME = "same"
# Axes for whose values a study may declare names, with the text of a declaration.
NAMED: Mapping[str, Callable[[Any], str]] = {
    "flows": background.to_text, "changes": schedule.to_text,
}  # fmt: skip
# The largest product in the repository has some 500 cells.
POINTS_MAX = 10_000


def block_grid(
    study: Mapping[str, Any], block: dict[str, Any] | list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the points of a block: the cross product of its axes, or of each of its products.

    Axes that the block does not set have the study's defaults. Names that the study declares for
    values, such as those of `flows` and `changes`, are replaced by these values.
    """
    named = {
        axis: {name: to_text(declared) for name, declared in study.get(axis, {}).items()}
        for axis, to_text in NAMED.items()
    }
    for product in as_list(block):
        axes = {axis: as_list(value) for axis, value in (study["defaults"] | product).items()}
        if (count := math.prod(map(len, axes.values()))) > POINTS_MAX:
            raise LosslabError(
                f"a block's product must have at most {POINTS_MAX} cells, found {count}",
                hint="give its axes fewer values, or split it into several blocks",
            )
        for values in itertools.product(*axes.values()):
            point = dict(zip(axes, values, strict=True))
            if point.get("competitor") == SAME and "algorithm" in point:
                point["competitor"] = point["algorithm"]
            for axis in named.keys() & point.keys():
                point[axis] = named[axis].get(point[axis], point[axis])
            yield point


def declared_values(studies: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the values that studies declare for each axis, and their blocks, as text.

    A campaign may measure fewer. An axis that a block does not set has its default there.
    """
    found = {name: {str(each.default): None} for name, each in AXES.items()}
    for study in studies:
        for name, block in study["blocks"].items():
            found.setdefault("block", {})[name] = None
            for axis, value in itertools.chain(*(p.items() for p in block_grid(study, block))):
                found[axis][str(value)] = None
    return {axis: list(values) for axis, values in found.items()}


def matches(values: Mapping[str, Any], selector: Mapping[str, Any]) -> bool:
    """Return whether a point, or its defaults, have the selector's values on every axis."""
    return all(
        (values[axis] if axis in values else AXES[axis].default) in as_list(value)
        for axis, value in selector.items()
    )


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, and any other value as a list of one."""
    return value if isinstance(value, list) else [value]
