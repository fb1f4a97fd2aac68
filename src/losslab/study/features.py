"""Features: what one module declares of an app or of a mechanism of the path, and how it is found.

A module of `emulation/apps` or `emulation/path` with a `FEATURE` is one; nothing else names it. It
declares its axes, what must hold between them and others, its programs, metrics and costs. Modules
whose names have an underscore are programs that apps start. Standard library only: the guest
imports it, and features, whose own imports must do without `study/condition.py`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from losslab.emulation.app import App
    from losslab.emulation.mechanism import Mechanism
    from losslab.study.condition import Condition

PACKAGE = Path(__file__).resolve().parents[1]
APPS, PATH = "losslab.emulation.apps", "losslab.emulation.path"
Cls = TypeVar("Cls", bound=type)


class Feature:
    """Something that a condition may use.

    Attributes:
        order: Its place among others: in lists, on the path, and of what they report.
        axes: Its axes by name, each as `axes.axis` declares it.
        after: The axis behind which they stand in tables.
        metrics: Declarations of metrics that `config/metrics.tsv` does not have, by its columns.
        per_gb_s: Wall time that a gigabyte takes its programs.
        programs: Modules of this package that it starts by name on hosts.
    """

    order: ClassVar[float] = 100
    axes: ClassVar[Mapping[str, Any]] = {}
    after: ClassVar[str] = "image"
    metrics: ClassVar[Sequence[Mapping[str, str]]] = ()
    per_gb_s: ClassVar[float] = 0.0
    programs: ClassVar[Sequence[str]] = ()

    def used(self, condition: Condition) -> bool:
        """Tell whether a condition uses it."""
        return bool(self.changed(condition))

    def changed(self, condition: Condition) -> list[str]:
        """Name those of its axes that are not at their defaults."""
        return [
            name
            for name, its in self.axes.items()
            if getattr(condition, name) != its.metadata["axis"].default
        ]

    def conflicts(self, condition: Condition) -> Iterator[str]:
        """Say what does not hold between its axes and others."""
        yield from ()

    def inputs(self, condition: Condition) -> Mapping[str, Mapping[str, Any]]:
        """Return what else its results depend on, by its part of the fingerprint."""
        return {}


@functools.cache
def modules(package: str) -> dict[str, Any]:
    """Return the features of a package by their modules' names, in their order."""
    folder = PACKAGE.joinpath(*package.split(".")[1:])
    names = sorted(path.stem for path in folder.glob("*.py") if "_" not in path.stem)
    found = {name: importlib.import_module(f"{package}.{name}").FEATURE for name in names}
    return dict(sorted(found.items(), key=lambda each: (each[1].order, each[0])))


def apps() -> dict[str, App]:
    """Return every app by its name."""
    return modules(APPS)


def mechanisms() -> list[Mechanism]:
    """List every mechanism of the path."""
    return [*modules(PATH).values()]


def found() -> list[Feature]:
    """List every feature."""
    return [*apps().values(), *mechanisms()]


def used_by(condition: Condition) -> list[Feature]:
    """List the features that a condition uses."""
    return [each for each in found() if each.used(condition)]


def with_features(cls: Cls) -> Cls:
    """Add the features' axes to the fields of a class that is to be a dataclass."""
    kinds = dict(cls.__annotations__)
    names = list(kinds)
    for feature in found():
        at = names.index(feature.after) + 1
        names[at:at] = feature.axes
        for name, its in feature.axes.items():
            kinds[name] = type(its.metadata["axis"].default).__name__
            setattr(cls, name, its)
    cls.__annotations__ = {name: kinds[name] for name in names}
    return cls
