"""Data dictionary: the type, unit and meaning of every column of losslab's CSV files.

`config/columns.tsv` declares tables and columns, `config/columns/STUDY.tsv` the columns of a
study's own tables. Columns of axes and metrics follow from their own declarations.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from losslab.errors import LosslabError
from losslab.reading import read_rows
from losslab.repository import ROOT, listed
from losslab.study import metrics
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


def tables_of(path: str) -> list[Table]:
    """Return the declarations that apply to a file, the longest pattern first, without ANY."""
    matching = [t for pattern, t in tables().items() if pattern != ANY and t.matches(path)]
    return sorted(matching, key=lambda table: -len(table.pattern))


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
    for table in tables_of(path):
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
