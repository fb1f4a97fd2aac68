"""The points of a study's blocks, before anything is known of how often they are measured."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from losslab.errors import LosslabError
from losslab.study import changes, crowd
from losslab.study.condition import AXES

# A study's word for a competitor that runs the cell's own algorithm.
SAME = "same"
# The largest product of the repository has some 500.
POINTS_MAX = 10_000


def block_points(
    study: Mapping[str, Any], block: dict[str, Any] | list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Cross the axes of a block, or of each of its products, over the study's defaults.

    Where a point's `flows` or `changes` is a name of the study's own, that takes its place.
    """
    named = {
        "flows": {name: crowd.words(listed) for name, listed in study.get("flows", {}).items()},
        "changes": {
            name: changes.word(listed) for name, listed in study.get("changes", {}).items()
        },
    }
    for product in as_list(block):
        axes = {axis: as_list(value) for axis, value in (study["defaults"] | product).items()}
        if (count := math.prod(map(len, axes.values()))) > POINTS_MAX:
            raise LosslabError(
                f"a block's product must have at most {POINTS_MAX} cells, found {count}",
                hint="give its axes fewer values, or make several blocks of it",
            )
        for values in itertools.product(*axes.values()):
            point = dict(zip(axes, values, strict=True))
            if point.get("competitor") == SAME:
                point["competitor"] = point["algorithm"]
            for axis in named.keys() & point.keys():
                point[axis] = named[axis].get(point[axis], point[axis])
            yield point


def has(values: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell whether all axes have the wanted value, or one of a list of them.

    An axis that the study does not name has its default.
    """
    return all(
        (values[axis] if axis in values else AXES[axis].default) in as_list(value)
        for axis, value in wanted.items()
    )


def as_list(value: Any) -> list[Any]:
    """List what a file may give as a list, or alone."""
    return value if isinstance(value, list) else [value]
