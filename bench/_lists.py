"""Lists of axes and metrics for R and for editors, which `bench.readme --tables` writes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from losslab.study import metrics
from losslab.study.axes import Axis
from losslab.study.condition import AXES

WRITER = "Written by `python -m bench.readme --tables`."
LINE = 100  # length of a line of code


def r_columns() -> str:
    """Return the R file with the names of the axes' columns."""
    text_columns = [name for name, axis in AXES.items() if axis.kind == "str"]
    return f"""\
# The columns of a cell's axes, from their declarations in src/losslab/study/condition.py.
# {WRITER}

# Together with the block, these columns identify a cell.
condition_columns <- {_r_vector(AXES)}

# Text columns; the others are numeric.
condition_words <- {_r_vector(text_columns)}
"""


def r_metrics() -> str:
    """Return the R file with the metrics' units and titles."""
    declared = metrics.declared()
    return f"""\
# Units of metrics and their titles on a figure's axis, from config/metrics.tsv.
# {WRITER}

metric_units <- {_r_named({name: metric.unit for name, metric in declared.items()})}

metric_titles <- {_r_named({name: metric.title for name, metric in declared.items()})}
"""


def _r_vector(names: Iterable[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    lines = textwrap.fill(quoted, 98, initial_indent="  ", subsequent_indent="  ")
    return f"c(\n{lines}\n)"


def _r_named(values: Mapping[str, str]) -> str:
    lines = [f'  {name} = "{value}"' for name, value in values.items()]
    return "c(\n" + ",\n".join(lines) + "\n)"


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
    Path("analysis", "R", "axes.R"): r_columns,
    Path("analysis", "R", "units.R"): r_metrics,
    Path("src", "losslab", "arguments.pyi"): python_stub,
}
