"""Options of the axes, and the commands `axes`, `metrics` and `columns`.

`config/columns.tsv` declares the tables and columns of losslab's CSV files,
`studies/STUDY/columns.tsv` the columns of a study's own tables. Columns of axes and metrics follow
from their declarations.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from tabulate import tabulate

from losslab.emulation.app import apps
from losslab.emulation.flows import feature as background
from losslab.emulation.schemes import SCHEMES
from losslab.errors import LosslabError, did_you_mean, synonyms
from losslab.reading import UsageError, input_errors, read_rows, read_text, shown
from losslab.repository import ROOT, listed
from losslab.study import metrics, units
from losslab.study.axes import NONE, Axis, short
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
UNDECLARED = "any"  # type of undeclared columns
# Columns of a table of runs besides its axes and metrics.
OF_RUN = ("study", "block", "cell", "replicate", "seed", "valid", "reasons", "attempt",
          "earlier_reasons")  # fmt: skip
# Larger files are no table of losslab's.
MAX_TABLE_BYTES = 2**30
# Axes of the traffic that are of no app.
TRAFFIC = (
    "algorithm", "app", "competitor", "offloads", "receive_buffer", "sender_queue", "sysctl",
    "initcwnd_packets", "initrwnd_packets", "window_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """Declaration of a column; `type` is a type of Table Schema."""

    name: str
    type: str
    unit: str
    description: str


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
    tables = {ANY: Table(ANY, "Columns that several tables have.", {})}
    for path in (FILE, *listed("studies/*/columns.tsv")):
        rows = read_rows(path, "\t")
        check_schema(rows, "columns", str(path))
        for row in sorted(rows, key=lambda row: row["column"] != ""):  # descriptions first
            if path != FILE:
                study = path.parent.name
                patterns = _patterns_of_study(study, row["tables"])
                for pattern in patterns:
                    tables.setdefault(pattern, Table(pattern, f"Columns of the study {study}.", {}))
            elif row["column"]:
                patterns = row["tables"].split()
            else:
                tables[row["tables"]] = Table(row["tables"], row["description"], {})
                continue
            for pattern in patterns:
                if pattern not in tables:
                    raise LosslabError(
                        f"{path} must describe each table, found none of {pattern} for the column "
                        f"{row['column']}",
                        hint="add a row with an empty column",
                    )
                column = Column(row["column"], row["type"], row["unit"], row["description"])
                tables[pattern].columns[row["column"]] = column
    return tables


def _patterns_of_study(study: str, names: str) -> list[str]:
    """Return the files of a study's tables; ANY includes the data of its figures."""
    patterns = [f"tables/{study}/{name}.csv" for name in names.split()]
    return [*patterns, f"figures/{study}/*.csv"] if names == ANY else patterns


def describe(path: str, names: Iterable[str]) -> list[Column]:
    """Return the columns of a file; an undeclared one has the type any."""
    unknown = "Not declared in config/columns.tsv or studies/STUDY/columns.tsv."
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
    if (metric := metrics.get(name)) is not None:
        return Column(name, "number", metric.unit, metric.description)
    if name in shared:
        return shared[name]
    for prefix, ending, meaning in DERIVED:
        inner = name.removeprefix(prefix).removesuffix(ending)
        base = _column(path, inner) if name == f"{prefix}{inner}{ending}" else None
        if base is not None:
            return Column(name, base.type, base.unit, f"{meaning} `{base.name}`.")
    return None


def page() -> str:
    """Return the declared tables as Markdown, a section per table; columns of any table last."""
    sections = []
    for table in sorted(tables().values(), key=lambda table: table.pattern == ANY):
        title = "Several tables" if table.pattern == ANY else f"`{table.pattern}`"
        sections.append(f"## {title}\n\n{table.description}")
        columns = table.columns.values()
        if rows := [(f"`{each.name}`", each.type, each.unit, each.description) for each in columns]:
            sections[-1] += "\n\n" + _markdown(("column", "type", "unit", "meaning"), rows)
    return "\n\n".join(sections)


def _markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of Markdown; empty cells have a single blank."""
    first, *others = [f"| {' | '.join(row)} |".replace("  ", " ") for row in (head, *rows)]
    return "\n".join([first, "|" + "---|" * len(head), *others])


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands `axes`, `metrics` and `columns`."""
    for name, run, form in (
        ("axes", _axes, "JSON Schema"),
        ("metrics", _metrics, "JSON"),
        ("columns", _columns, "JSON"),
    ):
        command = commands.add_parser(name)
        command.add_argument("--json", action="store_true", help=f"print {form}")
        command.set_defaults(run=run)
        if name != "columns":
            command.add_argument(
                "word", nargs="?", default="", help=f"only {name} with this word, such as rate"
            )
    command.add_argument(
        "file", type=Path, nargs="?",
        help="table of a run, a sweep, a campaign or a record, also one that does not exist yet; "
        "without it, all tables are listed",
    )  # fmt: skip


def _axes(options: argparse.Namespace) -> int:
    texts = {n: (n, axis.unit, axis.help, *axis.choices) for n, axis in AXES.items()}
    names = _with_word(texts, options.word, "axis")
    schemas = {name: AXES[name].schema() for name in names}
    table = axes_table(names) if options.word else axes_table()
    print(json.dumps(schemas, indent=1) if options.json else table)
    return 0


def _with_word(texts: Mapping[str, Iterable[str]], word: str, what: str) -> list[str]:
    """List the names whose texts have a word, in any case, or another word for the same."""
    spellings = synonyms(word.lower())
    found = [
        name
        for name, its in texts.items()
        if any(spelling in text.lower() for spelling in spellings for text in its)
    ]
    if not found:
        many = {"axis": "axes"}.get(what, f"{what}s")
        raise UsageError(
            f"no {what} has {shown(word)} in its name, unit, values or meaning"
            f"{did_you_mean(word, texts)}",
            hint=f"`losslab {many}` lists all {many}",
        )
    return found


def _metrics(options: argparse.Namespace) -> int:
    every = metrics.declared()
    names = _with_word(
        {n: (n, its.unit, its.description) for n, its in every.items()}, options.word, "metric"
    )
    rows = [asdict(every[name]) for name in names]
    print(json.dumps(rows, indent=1) if options.json else metrics_table(names))
    return 0


def _columns(options: argparse.Namespace) -> int:
    if options.file is None:
        every = {each.pattern: [*map(asdict, each.columns.values())] for each in tables().values()}
        print(json.dumps(every, indent=1) if options.json else page())
        return 0
    with input_errors():
        names = _names_in(options.file)
        rows = [asdict(each) for each in describe(str(options.file.resolve()), names)]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        head = {"name": "column", "description": "meaning"}
        print(tabulate(rows, head, maxcolwidths=[None, None, 14, 70]))
    return 0


def _names_in(file: Path) -> list[str]:
    """Return the names of a table's columns, or of a packed file's keys.

    Packed files, and tables that are not there, have what is declared for them.
    """
    if file.is_dir():
        raise UsageError(
            f"columns are those of a file, found the folder {file}",
            hint="name one of its files; `losslab.read(FOLDER)` in Python reads results and "
            "recorded numbers as tables",
        )
    matching = [t for t in tables().values() if t.pattern != ANY and t.matches(str(file))]
    if file.is_file() and file.suffix == ".xz":
        return [name for table in matching for name in table.columns]
    if matching and not file.exists():
        # Tables of runs have no columns of their own.
        own = dict.fromkeys(name for table in matching for name in table.columns)
        return [*own] or [*OF_RUN, *AXES, *metrics.declared()]
    separator = "\t" if file.suffix == ".tsv" else ","
    return read_text(file, MAX_TABLE_BYTES).partition("\n")[0].split(separator)


def add_options(
    parser: argparse.ArgumentParser, algorithm: str | None = None
) -> dict[str, argparse._ArgumentGroup]:
    """Add an option for each axis, and return the groups of the help: path, traffic, ...

    `algorithm` is the default of the axis without one.
    """
    titles = ("path", "traffic", "run", "instrument")
    groups = {title: parser.add_argument_group(title) for title in titles}
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
    sending = (background.FEATURE, *apps().values())
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
        before = [namespace.flows] if namespace.flows != NONE else []
        namespace.flows = "+".join([*before, flow])


def _option_help(axis: Axis) -> str:
    """Return the help of an axis's option, without its choices: argparse lists them."""
    parts = [axis.help.replace("`", ""), *([f"in {axis.unit}"] if axis.unit else [])]
    parts += [axis.range] if axis.span else []
    default = "" if axis.default is None else f" (default {short(axis.default)})"
    if axis.of_campaign:
        default = " (default: as long as the path needs)"
    return (", ".join(parts) + default).replace("%", "%%")


def axes_table(names: Container[str] = AXES) -> str:
    """Return the axes of studies, or some of them by name, as a Markdown table."""
    rows = []
    for name, axis in AXES.items():
        texts = {"scheme": dict.fromkeys(SCHEMES, "")}.get(name, axis.choices)
        choices = (f"`{value}`" + (f" ({text})" if text else "") for value, text in texts.items())
        default = "" if axis.default is None else f"`{short(axis.default)}`"
        values = axis.range if axis.span else ", ".join(choices)
        if name in names and (not axis.of_campaign or names is not AXES):
            rows.append((f"`{name}`", axis.unit, values, default, axis.help))
    return _markdown(("axis", "unit", "values", "default", "meaning"), rows)


def metrics_table(names: Container[str] | None = None) -> str:
    """Return the metrics, or some of them by name, as a Markdown table."""
    every = [m for n, m in metrics.declared().items() if names is None or n in names]
    rows = [(f"`{m.name}`", m.unit, m.better, ", ".join(m.of), m.description) for m in every]
    return _markdown(("metric", "unit", "better", "provided by", "meaning"), rows)
