"""Base class of features (apps, path mechanisms, background flows), and what finds them.

Every module of `emulation/apps` and `emulation/path` without an underscore in its name has a
`FEATURE`, and so have a user's own modules (`extensions.py`) and `emulation/flows/feature.py`.
A feature declares its axes, constraints, programs, metrics and costs. Modules with an underscore in
their names are programs that apps start.

The guest imports this module and the features: use only the standard library. The class of a
condition has the features' axes, so features import it for types only, and it has none here.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from losslab import extensions
from losslab.errors import LosslabError

BACKGROUND = "losslab.emulation.flows.feature"
Cls = TypeVar("Cls", bound=type)
# Stands for the declaration of an axis that a feature declares.
OF_FEATURE: Any = object()


def metrics(*rows: tuple[str, ...]) -> list[dict[str, str]]:
    """Return rows for metrics: provider, name, label, unit, which is better, description."""
    columns = ("of", "name", "label", "unit", "better", "description")
    return [dict(zip(columns, row, strict=True)) for row in rows]


class Feature:
    """An app, a path mechanism or the background flows."""

    order: ClassVar[float] = 100  # sort key in lists, on the path and in reports
    axes: ClassVar[Mapping[str, Any]] = {}  # by name, each declared with `axes.axis`
    # Rows for metrics in addition to `config/metrics.tsv`, with its columns.
    metrics: ClassVar[Sequence[Mapping[str, str]]] = ()
    per_gb_s: ClassVar[float] = 0.0  # wall time in s that its programs need for a gigabyte
    programs: ClassVar[Sequence[str]] = ()  # modules of its package that it starts on hosts

    def used(self, condition: Any) -> bool:
        """Return whether a condition uses the feature."""
        return bool(self.changed(condition))

    def changed(self, condition: Any) -> list[str]:
        """List the feature's axes that are not at their defaults."""
        return [
            name
            for name, field in self.axes.items()
            if getattr(condition, name) != field.metadata["axis"].default
        ]

    def conflicts(self, condition: Any) -> Iterator[str]:
        """Yield the constraints between its axes and others that a condition violates."""
        yield from ()

    def modules(self, condition: Any) -> list[str]:
        """List the modules of its code, on which its cells depend."""
        return [type(self).__module__, *self.programs]


@functools.cache
def modules(kind: str) -> dict[str, Any]:
    """Return the features of a kind (`extensions.KINDS`) by module name, in their `order`."""
    features: dict[str, Feature] = {}
    for name in extensions.names(kind):
        module = extensions.load(kind, name)
        feature = getattr(module, "FEATURE", None)
        if not isinstance(feature, Feature):
            raise LosslabError(
                f"{module.__file__} must define FEATURE, an object of its class, "
                f"found {feature!r:.80}"
            )
        features[name] = feature
    return dict(sorted(features.items(), key=lambda item: (item[1].order, item[0])))


def all_features() -> list[Feature]:
    """List all features."""
    background = importlib.import_module(BACKGROUND).FEATURE
    return [background, *modules("apps").values(), *modules("mechanisms").values()]


def added() -> list[Feature]:
    """List a user's own apps and mechanisms."""
    return [
        modules(kind)[name] for kind in ("apps", "mechanisms") for name in extensions.added(kind)
    ]


def used_by(condition: Any) -> list[Feature]:
    """List the features that a condition uses."""
    return [feature for feature in all_features() if feature.used(condition)]


def with_features(cls: Cls) -> Cls:
    """Declare the features' axes in a class, before it becomes a dataclass.

    The class lists the axes of losslab's own features in their order. Those of a user's follow.
    """
    taken = {name for name in cls.__annotations__ if getattr(cls, name) is not OF_FEATURE}
    for feature in all_features():
        for name, field in feature.axes.items():
            if name in taken:
                raise LosslabError(
                    f"axes must have new names, found {name} in {type(feature).__module__}"
                )
            taken.add(name)
            kind = type(field.metadata["axis"].default).__name__
            cls.__annotations__.setdefault(name, kind)
            setattr(cls, name, field)
    return cls
