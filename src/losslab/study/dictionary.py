"""Axes, metrics and columns for people and for R: options, tables, a data dictionary, R files.

The data dictionary has type, unit and meaning of every column of losslab's CSV files.
`config/columns.tsv` declares tables and columns, `config/columns/STUDY.tsv` the columns of a
study's own tables. Columns of axes and metrics follow from their own declarations.

After you change the declaration of an axis or metric, run `losslab axes --write` to update the R
files and the stub of the Python interface. The documentation's tables are made when the site is
built (docs/hooks.py).
"""

from __future__ import annotations

import argparse
import functools
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from tabulate import tabulate

from losslab.emulation.schemes import SCHEMES
from losslab.errors import LosslabError
from losslab.reading import input_errors, read_rows, read_text
from losslab.repository import ROOT, listed
from losslab.study import features, metrics, units
from losslab.study.axes import Axis, short
from losslab.study.background import NO_FLOWS
from losslab.study.condition import AXES
from losslab.study.schemas import check_schema

FILE = ROOT / "config" / "columns.tsv"
# Pattern of columns that any table of results may have.
ANY = "*"
# Prefixes and endings of columns that are derived from others, with their meanings.
DERIVED = (
    ("mean_", "", "Mean of"),
    ("min_", "", "Smallest value of"),
    ("max_", "", "Largest value of"),
    ("low_", "", "Lower end of the 95 % confidence interval of"),
    ("high_", "", "Upper end of the 95 % confidence interval of"),
    ("published_", "", "Published value of"),
    ("log_", "", "Value in the source's log of"),
    ("measured_", "", "Measured value of"),
    ("", "_low", "Lower end of the 95 % confidence interval of"),
    ("", "_high", "Upper end of the 95 % confidence interval of"),
)
TYPES = {"str": "string", "int": "integer", "float": "number"}  # of axes, in Table Schema
# Type of undeclared columns.
UNDECLARED = "any"
# Missing values: Python writes empty fields, R writes NA.
MISSING = ("", "NA")


@dataclass(frozen=True)
class Column:
    """Declaration of a column; `type` is a type of Table Schema."""

    name: str
    type: str
    unit: str
    description: str

    def field(self) -> dict[str, Any]:
        """Return the column as a field of a Table Schema; `unit` is an additional property."""
        unit = {"unit": self.unit} if self.unit else {}
        return {"name": self.name, "type": self.type, "description": self.description, **unit}


@dataclass(frozen=True)
class Table:
    """Declaration of a table: pattern of its paths, and its own columns by name."""

    pattern: str
    description: str
    columns: dict[str, Column]

    def matches(self, path: str) -> bool:
        """Return whether a path, or its end, matches the pattern."""
        depth = self.pattern.count("/") + 1
        return fnmatchcase("/".join(PurePath(path).parts[-depth:]), self.pattern)


@functools.cache
def tables() -> dict[str, Table]:
    """Return the declared tables by pattern, and columns of any table as the table ANY."""
    rows = _read(FILE)
    found = {row["tables"]: Table(row["tables"], row["description"], {})
             for row in rows if not row["column"]}  # fmt: skip
    found[ANY] = Table(ANY, "Columns that several tables have.", {})
    _add(found, rows, FILE)
    for path in listed("config/columns/*.tsv"):
        rows = [{**row, "tables": _patterns(path.stem, row["tables"])} for row in _read(path)]
        of_study = {pattern: None for row in rows for pattern in row["tables"].split()}
        found |= {each: Table(each, f"Columns of the study {path.stem}.", {}) for each in of_study}
        _add(found, rows, path)
    return found


def _read(path: Path) -> list[dict[str, str]]:
    rows = read_rows(path, "\t")
    check_schema(rows, "columns", str(path))
    return rows


def _patterns(study: str, names: str) -> str:
    """Return the patterns of a study's tables; ANY includes the data of its figures."""
    paths = (f"tables/{study}_{name}.csv" for name in names.split())
    return " ".join([*paths, *([f"figures/{study}_*.csv"] if names == ANY else [])])


def _add(found: dict[str, Table], rows: Iterable[dict[str, str]], file: Path) -> None:
    for row in rows:
        for pattern in row["tables"].split() if row["column"] else ():
            if pattern not in found:
                raise LosslabError(
                    f"{file} must describe each table, found none of {pattern} for the column "
                    f"{row['column']}",
                    hint="add a row with an empty column",
                )
            column = Column(row["column"], row["type"], row["unit"], row["description"])
            found[pattern].columns[row["column"]] = column


def describe(path: str, names: Iterable[str]) -> list[Column]:
    """Return the columns of a file; an undeclared one has the type any."""
    unknown = "Not declared in config/columns.tsv or config/columns/STUDY.tsv."
    return [_column(path, name) or Column(name, UNDECLARED, "", unknown) for name in names]


def undeclared(path: str, names: Iterable[str]) -> list[str]:
    """List the columns of a file that are not declared."""
    return [column.name for column in describe(path, names) if column.type == UNDECLARED]


def _column(path: str, name: str) -> Column | None:
    """Return a column: of the table, an axis, a metric, any table, or derived from a metric."""
    shared = tables()[ANY].columns
    matching = [t for pattern, t in tables().items() if pattern != ANY and t.matches(path)]
    for table in sorted(matching, key=lambda table: -len(table.pattern)):
        if name in table.columns:
            return table.columns[name]
    if name in AXES:
        axis = AXES[name]
        return Column(name, TYPES[axis.kind], axis.unit, f"Axis of the cell: {axis.help}.")
    if name in metrics.declared():
        metric = metrics.declared()[name]
        return Column(name, "number", metric.unit, metric.description)
    if name in shared:
        return shared[name]
    for prefix, ending, meaning in DERIVED:
        inner = name.removeprefix(prefix).removesuffix(ending)
        base = _column(path, inner) if name == f"{prefix}{inner}{ending}" else None
        if base is not None:
            return Column(name, base.type, base.unit, f"{meaning} `{base.name}`.")
    return None


def schema(path: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the Table Schema of a file (https://datapackage.org/standard/table-schema)."""
    fields = [column.field() for column in describe(path, names)]
    return {"fields": fields, "missingValues": list(MISSING)}


def schemas() -> dict[str, Any]:
    """Return the Table Schema of each declared table by pattern, without axes and metrics."""
    return {
        table.pattern: {"fields": [column.field() for column in table.columns.values()]}
        for table in tables().values()
    }


def page() -> str:
    """Return the declared tables as Markdown, a section per table; columns of any table last."""
    sections = []
    for table in sorted(tables().values(), key=lambda each: each.pattern == ANY):
        rows = [
            f"| `{each.name}` | {each.type} | {each.unit} | {each.description} |".replace("  ", " ")
            for each in table.columns.values()
        ]
        head = ["", "| column | type | unit | meaning |", "|---|---|---|---|"] if rows else []
        title = "Several tables" if table.pattern == ANY else f"`{table.pattern}`"
        sections.append("\n".join([f"## {title}", "", table.description, *head, *rows]))
    return "\n\n".join(sections)


R_COLUMNS = Path("analysis", "R", "axes.R")
PYTHON_STUB = Path("src", "losslab", "arguments.pyi")
LINE = 100  # length of a line of code
R_METRICS = Path("analysis", "R", "units.R")
# Larger files are no table of losslab's.
MAX_TABLE_BYTES = 2**30
# Axes of the traffic that are of no app.
TRAFFIC = (
    "algorithm", "app", "competitor", "offloads", "receive_buffer", "sender_queue", "sysctl",
    "initcwnd_packets", "initrwnd_packets", "window_bytes",
)  # fmt: skip
HEAD = "| axis | unit | values | default | meaning |\n|---|---|---|---|---|"
METRICS_HEAD = "| metric | unit | better | provided by | meaning |\n|---|---|---|---|---|"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands `axes` and `metrics`."""

    def list_axes(options: argparse.Namespace) -> int:
        if options.json:
            print(json.dumps({name: axis.schema() for name, axis in AXES.items()}, indent=1))
        else:
            changed = write_lists(ROOT) or ["nothing changed"] if options.write else [axes_table()]
            print("\n".join(changed))
        return 0

    def list_metrics(options: argparse.Namespace) -> int:
        rows = [asdict(metric) for metric in metrics.declared().values()]
        print(json.dumps(rows, indent=1) if options.json else metrics_table())
        return 0

    command = commands.add_parser("axes")
    command.add_argument(
        "--write", action="store_true", help="update lists of axes and metrics for R and editors"
    )
    command.add_argument("--json", action="store_true", help="print JSON Schema")
    command.set_defaults(run=list_axes)
    listing = commands.add_parser("metrics")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=list_metrics)
    described = commands.add_parser("columns")
    described.add_argument(
        "file", type=Path, nargs="?",
        help="CSV file of a run, a sweep or a campaign; without it, all tables are listed",
    )  # fmt: skip
    described.add_argument("--json", action="store_true", help="print a Table Schema")
    described.set_defaults(run=_list_columns)


def _list_columns(options: argparse.Namespace) -> int:
    if options.file is None:
        print(json.dumps(schemas(), indent=1) if options.json else page())
        return 0
    path = str(options.file.resolve())
    with input_errors():
        names = read_text(options.file, MAX_TABLE_BYTES).partition("\n")[0].split(",")
        found = schema(path, names)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        rows = [
            [f["name"], f["type"], f.get("unit", ""), f["description"]] for f in found["fields"]
        ]
        print(
            tabulate(rows, ["column", "type", "unit", "meaning"], maxcolwidths=[None, None, 14, 70])
        )
    return 0


def add_options(
    parser: argparse.ArgumentParser, algorithm: str | None = None
) -> dict[str, argparse._ArgumentGroup]:
    """Add an option for each axis, and return the groups of the help: path, traffic, ...

    `algorithm` is the default of the axis without one.
    """
    groups = {
        title: parser.add_argument_group(title)
        for title in ("path", "traffic", "run", "instrument")
    }
    for name, axis in AXES.items():
        default = algorithm if name == "algorithm" else axis.default
        read: Any = str if axis.kind == "str" else functools.partial(units.option, name)
        groups[_group(name)].add_argument(
            f"--{name.replace('_', '-')}",
            type=read,
            choices=list(axis.choices) or None,
            action=_AddValue if axis.repeated else "store",
            default=default,
            required=default is None,
            help=_option_help(axis),
        )
    groups["traffic"].add_argument(
        "--flow",
        dest="flows",
        action=_AddFlow,
        default=argparse.SUPPRESS,
        metavar="ALGORITHM[,KEY=VALUE...]",
        help="add a flow to --flows, such as algorithm=cubic,start_s=2,rtt_ms=40 (repeatable)",
    )
    return groups


def _group(name: str) -> str:
    if name in ("kernel", "image"):
        return "instrument"
    if AXES[name].of_campaign:
        return "run"
    sending = (features.background(), *features.apps().values())
    of_traffic = name in TRAFFIC or any(name in each.axes for each in sending)
    return "traffic" if of_traffic else "path"


class _AddValue(argparse.Action):
    """Append to the value of a text option."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, AXES[self.dest].joined([before, values]))


class _AddFlow(argparse.Action):
    """Append a flow to the value of `--flows`; its `algorithm=` may be anywhere in the option."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        pairs = sorted(values.split(","), key=lambda pair: not pair.startswith("algorithm="))
        flow = ",".join(pairs).removeprefix("algorithm=")
        before = [namespace.flows] if namespace.flows != NO_FLOWS else []
        namespace.flows = "+".join([*before, flow])


def _option_help(axis: Axis) -> str:
    """Return the help of an axis's option, without its choices: argparse lists them."""
    parts = [axis.help.replace("`", ""), *([f"in {axis.unit}"] if axis.unit else [])]
    parts += [axis.range] if axis.span else []
    default = "" if axis.default is None else f" (default {short(axis.default)})"
    return (", ".join(parts) + default).replace("%", "%%")


def axes_table() -> str:
    """Return the axes of studies as a Markdown table."""
    return "\n".join([HEAD, *(_axis_row(axis) for axis in AXES.values() if not axis.of_campaign)])


def _axis_row(axis: Axis) -> str:
    choices = [
        f"`{value}`" + (f" ({text})" if text else "") for value, text in axis.choices.items()
    ]
    if axis.name == "scheme":
        choices = [f"`{name}`" for name in SCHEMES]
    values = axis.range if axis.span else ", ".join(choices)
    default = "" if axis.default is None else f"`{short(axis.default)}`"
    cells = (f"`{axis.name}`", axis.unit, values, default, axis.help)
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def metrics_table() -> str:
    """Return the metrics as a Markdown table."""
    rows = [
        f"| `{metric.name}` | {metric.unit} | {metric.better} | {', '.join(metric.of)} "
        f"| {metric.description} |"
        for metric in metrics.declared().values()
    ]
    return "\n".join([METRICS_HEAD, *rows]).replace("  ", " ")


def r_columns() -> str:
    """Return the R file with the names of the axes' columns."""
    text_columns = [name for name, axis in AXES.items() if axis.kind == "str"]

    return f"""\
# The columns of a cell's axes, from their declarations in src/losslab/study/condition.py. Written
# by `losslab axes --write`.

# Together with the block, these columns identify a cell.
condition_columns <- {_r_vector(AXES)}

# Text columns; the others are numeric.
condition_words <- {_r_vector(text_columns)}
"""


def r_metrics() -> str:
    """Return the R file with the metrics' units and titles."""
    declared = metrics.declared()
    return f"""\
# Units of metrics and their titles on a figure's axis, from config/metrics.tsv. Written by
# `losslab axes --write`.

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
        head = f'class {name}(TypedDict, total=False):\n    """{purpose}"""\n\n'
        return head + "".join(
            f"    {axis.name}: {form.format(_python_type(axis))}\n" for axis in AXES.values()
        )

    single = typed_dict("Axes", "A value of each axis.", "{}")
    several = typed_dict(
        "AxisLists", "A value, or the values, of each axis.", "{0} | Iterable[{0}]"
    )
    return f"""\
# Axes of `losslab.measure` and `losslab.sweep`, for editors and type checkers. Written by
# `losslab axes --write`.

from collections.abc import Iterable
from os import PathLike
from typing import Literal, TypeAlias, TypedDict

Number: TypeAlias = float | str  # text has a unit, such as "40ms"
Text: TypeAlias = str | PathLike[str]
{"".join(_choices())}
{single}
{several}"""


def _python_type(axis: Axis) -> str:
    if axis.kind != "str":
        return "Number"
    return f"{axis.name.title().replace('_', '')} | Text" if axis.choices else "Text"


def _choices() -> Iterator[str]:
    """Yield the type of each axis with choices, as ruff formats it."""
    for axis in AXES.values():
        if axis.choices:
            head = f"{axis.name.title().replace('_', '')}: TypeAlias = Literal["
            values = [f'"{choice}"' for choice in axis.choices]
            line = f"{head}{', '.join(values)}]"
            lines = [head, *(f"    {value}," for value in values), "]"]
            yield "\n".join([line] if len(line) <= LINE else lines) + "\n"


def write_lists(root: Path) -> list[str]:
    """Update the files with axes and metrics for R and editors; return those that changed."""
    changed = []
    texts = {R_COLUMNS: r_columns(), R_METRICS: r_metrics(), PYTHON_STUB: python_stub()}
    for path, text in texts.items():
        if not (root / path).exists() or (root / path).read_text() != text:
            (root / path).write_text(text)
            changed.append(str(path))
    return changed
