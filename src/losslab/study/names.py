"""The names that a condition may use: of algorithms, kernels and images, declared elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from losslab.emulation.schemes import make_scheme
from losslab.errors import LosslabError
from losslab.reading import UsageError, read_rows
from losslab.reading.files import repeats
from losslab.study import crowd
from losslab.study.condition import (
    DEFAULT_IMAGE,
    DEFAULT_KERNEL,
    NO_COMPETITOR,
    NO_SCHEME,
    Condition,
)
from losslab.study.schemas import check_schema

# An image that is no host's.
ENGINE = "engine"


@dataclass(frozen=True)
class Names:
    """What is known.

    Attributes:
        algorithms: The names of algorithms.tsv, each with the kernel that it needs, or `default`.
        kernels: The names of kernels.toml.
        images: The folders of `containers/` that are what hosts may have.
    """

    algorithms: Mapping[str, str]
    kernels: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()

    def problems(self, condition: Condition) -> list[str]:
        """Say which of a condition's names are unknown or do not go together."""
        try:
            used = sorted(algorithms_of(condition))
        except LosslabError as error:
            return [error.message]
        kernels, images = {*self.kernels, DEFAULT_KERNEL}, {*self.images, DEFAULT_IMAGE}
        found = [
            f"{axis} must be one of {place} ({', '.join(sorted(known))}), found {name!r}"
            for axis, names, place, known in (
                ("algorithm", used, "config/algorithms.tsv", {*self.algorithms}),
                ("kernel", [condition.kernel], "config/kernels.toml", kernels),
                ("image", [condition.image], "containers/", images),
            )
            for name in names
            if name not in known
        ]
        needed, asked = self._needed(condition), {condition.kernel} - {DEFAULT_KERNEL}
        if len(needed | asked) > 1:
            found.append(
                f"kernel must be {' and '.join(sorted(needed))} for {' and '.join(used)}, found "
                f"{condition.kernel if asked else 'one kernel for both'}"
            )
        if condition.scheme != NO_SCHEME:
            try:
                make_scheme(condition.scheme)
            except LosslabError as error:
                found.append(str(error))
        return found

    def kernel(self, condition: Condition) -> str:
        """Name the kernel that a condition is measured on; DEFAULT_KERNEL where nothing asks."""
        return next(iter(self._needed(condition)), condition.kernel)

    def _needed(self, condition: Condition) -> set[str]:
        """Name the kernels that a condition's algorithms need."""
        found = {self.algorithms.get(each, DEFAULT_KERNEL) for each in algorithms_of(condition)}
        return found - {DEFAULT_KERNEL}


def algorithms_of(condition: Condition) -> set[str]:
    """Name the kernel's algorithms that a condition uses."""
    beside = crowd.algorithms(condition.flows)
    return {condition.algorithm, condition.competitor, *beside} - {NO_COMPETITOR}


def load_algorithms(path: Path) -> list[dict[str, str]]:
    """Read algorithms.tsv, whose names are unique."""
    rows = read_rows(path, "\t")
    check_schema(rows, "algorithms", str(path))
    if repeated := repeats(row["name"] for row in rows):
        raise UsageError(f"names must be unique in {path}, found {repeated} more than once")
    return rows


def images_of(root: Path) -> frozenset[str]:
    """Name the images that hosts may have: those of which `root` has recipes, but the engine's."""
    found = (path.parent.name for path in (root / "containers").glob("*/packages.txt"))
    return frozenset(found) - {ENGINE}
