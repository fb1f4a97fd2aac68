"""Lists of axes and metrics for R and for editors, which `bench.readme --tables` writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from losslab.campaign.tables import R_LISTS, WRITER
from losslab.study.axes import Axis
from losslab.study.condition import AXES

LINE = 100  # length of a line of code


def python_stub() -> str:
    """Return the stub with the types of the Python interface's axes."""

    def typed_dict(name: str, purpose: str, form: str) -> str:
        fields = (f"    {a.name}: {form.format(_python_type(a))}\n" for a in AXES.values())
        return f'class {name}(TypedDict, total=False):\n    """{purpose}"""\n\n' + "".join(fields)

    several = "A value, or the values, of each axis."
    return f"""\
# Axes of `losslab.measure` and `losslab.sweep`, for editors and type checkers.
# {WRITER}

from collections.abc import Iterable
from os import PathLike
from typing import Literal, TypeAlias, TypedDict

Number: TypeAlias = float | str  # text has a unit, such as "40ms"
Text: TypeAlias = str | PathLike[str]
{"".join(_choices())}
{typed_dict("Axes", "A value of each axis.", "{}")}
{typed_dict("AxisLists", several, "{0} | Iterable[{0}]")}"""


def _python_type(axis: Axis) -> str:
    if axis.kind != "str":
        return "Number"
    return f"{_alias(axis)} | Text" if axis.choices else "Text"


def _alias(axis: Axis) -> str:
    return axis.name.title().replace("_", "")


def _choices() -> Iterator[str]:
    """Yield the type of each axis with choices, as ruff formats it."""
    for axis in AXES.values():
        if axis.choices:
            head, values = f"{_alias(axis)}: TypeAlias = Literal[", [f'"{c}"' for c in axis.choices]
            line = f"{head}{', '.join(values)}]"
            lines = [head, *(f"    {value}," for value in values), "]"]
            yield "\n".join([line] if len(line) <= LINE else lines) + "\n"


# Files of the repository, each with what is in it.
FILES = {
    **{Path("analysis", "R", name): text for name, text in R_LISTS.items()},
    Path("src", "losslab", "arguments.pyi"): python_stub,
}
