"""From every figure and table of the report to what it was made of: a line below each.

It names the data, the script, the cells, and the command that runs one of them again. What a table
shows is found in its chapter's code: the files that its chunk reads, directly or by way of what the
chapter defines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from losslab.campaign.rcode import used_names
from losslab.reading import read_rows

CHUNK = re.compile(r"^```\{r\}\n(.*?)^```\n(\n?)", re.MULTILINE | re.DOTALL)
LABEL = re.compile(r"^#\| label: ((?:fig|tbl)-\S+)$", re.MULTILINE)
PICTURE = re.compile(r'include_graphics\("(\w+)\.svg"\)')
# Which cells a table is of, where its rows do not tell: `#| behind: block=main long, app=iperf3`.
BEHIND = re.compile(r"^#\| behind: (.*)$", re.MULTILINE)
DEFINED = re.compile(r"^(\w+) <- (.*?)(?=^\w+ <- |\Z)", re.MULTILINE | re.DOTALL)
READ = re.compile(r'"(\w+)\.csv"')
# Where the report finds what it links to.
FIGURES, TABLES, SCRIPTS, EXPLORER = "../figures", "../tables", "scripts", "explorer.html"


@dataclass(frozen=True)
class Cell:
    """A cell behind a figure or table, and its first valid run."""

    study: str
    name: str
    runs: int
    run: int

    @property
    def folder(self) -> str:
        """Where the run lies, below the folder in which the workflow ran."""
        return f"results/cells/{self.study}/{self.name}/{self.run}"


class Results:
    """The workflow's tables beside the report, as far as they tell of cells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rows: dict[str, list[dict[str, str]]] = {}

    def rows(self, name: str) -> list[dict[str, str]]:
        """Read a table, if it is there."""
        if name not in self._rows:
            path = self.folder / name
            self._rows[name] = read_rows(path) if path.is_file() else []
        return self._rows[name]

    def cells(self, study: str, names: Iterable[str] | None = None) -> list[Cell]:
        """List a study's cells with a valid run; only the named ones where there are names."""
        first: dict[str, int] = {}
        for row in self.rows(f"{study}_replicates.csv"):
            if row["valid"] == "TRUE":
                first.setdefault(row["cell"], int(row["replicate"]))
        wanted = None if names is None else set(names)
        return [
            Cell(study, row["cell"], int(row["n_valid"]), first[row["cell"]])
            for row in self.rows(f"{study}_cells.csv")
            if row["cell"] in first and (wanted is None or row["cell"] in wanted)
        ]

    def of_figure(self, study: str, name: str) -> list[Cell]:
        """List the cells that a figure shows."""
        rows = self.rows(f"{name}.cells.csv")
        return self.cells(study, [row["cell"] for row in rows]) if rows else []

    def of_table(self, study: str, name: str, behind: str = "") -> list[Cell]:
        """List the cells whose condition agrees with a row of a table in what both say.

        Args:
            study: The table's study.
            name: The table's name.
            behind: Values that the cells have in some of their columns, where the chapter says so.
        """
        rows, cells = self.rows(f"{name}.csv"), self.rows(f"{study}_cells.csv")
        cells = [row for row in cells if row["cell"]]
        if not rows or not cells:
            return []
        said = [
            column
            for column in rows[0]
            if column in cells[0] and {_same(row[column]) for row in rows} & _values(cells, column)
        ]
        found = {tuple(_same(row[column]) for column in said) for row in rows}
        chosen = dict(part.split("=") for part in behind.split(", ") if part)
        return self.cells(
            study,
            [
                cell["cell"]
                for cell in cells
                if tuple(_same(cell[column]) for column in said) in found
                and all(cell[column] in values.split() for column, values in chosen.items())
            ],
        )


def _same(text: str) -> float | str:
    """Make equal what is equal: 0 and 0.0."""
    try:
        return float(text)
    except ValueError:
        return text


def _values(rows: Iterable[Mapping[str, str]], column: str) -> set[float | str]:
    return {_same(row[column]) for row in rows}


def tables_of(chapter: str, chunk: str, folder: Path) -> list[str]:
    """List the tables that a chunk shows, by their names without a suffix.

    Args:
        chapter: The chapter's text.
        chunk: The chunk's code.
        folder: Where a file of R code may be written to be read.
    """
    defined: dict[str, str] = {}
    for code, _ in CHUNK.findall(chapter):
        for name, text in DEFINED.findall(code):
            defined.setdefault(name, text)
    found: dict[str, None] = {}
    todo, seen = [chunk], set[str]()
    scratch = folder / "chunk.R"
    while todo:
        code = todo.pop(0)
        found |= dict.fromkeys(READ.findall(code))
        scratch.write_text(code)
        new = [name for name in sorted(used_names(scratch)) if name in defined and name not in seen]
        seen |= set(new)
        todo += [defined[name] for name in new]
    scratch.unlink()
    return list(found)


def trace(chapter: Path, study: str, results: Results) -> str:
    """Give a chapter's text with a line below each of its figures and tables.

    No line of the chapter moves, so that errors name the right one.

    Args:
        chapter: Its file.
        study: The study that it is of.
        results: What lies beside the report.
    """
    text = chapter.read_text()

    def traced(match: re.Match[str]) -> str:
        label = LABEL.search(match[1])
        if label is None or not match[2]:
            return match[0]
        picture = PICTURE.search(match[1])
        if picture:
            line = figure_line(study, picture[1], results)
        else:
            names = tables_of(text, match[1], results.folder)
            behind = BEHIND.search(match[1])
            line = table_line(study, label[1], names, results, behind[1] if behind else "")
        # The blank line below the chunk; the paragraph's own blank lines come from R.
        return match[0][:-1] + in_r(line) + "\n" if line else match[0]

    return CHUNK.sub(traced, text)


def in_r(line: str) -> str:
    """Write a paragraph as R code within a line."""
    quoted = line.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\x60")
    return f'`r "\\n[{quoted}]{{.trace}}\\n"`'


def link(name: str, place: str) -> str:
    """Write a link."""
    return f"[{name}]({place})"


def figure_line(study: str, name: str, results: Results) -> str:
    """Write the line below a figure."""
    # Figures that are of no study have their data as tables.
    data = ["csv"] if (results.folder / f"{name}.cells.csv").is_file() else []
    files = ", ".join(
        link(suffix.upper(), f"{FIGURES}/{name}.{suffix}")
        for suffix in (*data, "svg", "pdf", "png")
    )
    return joined(
        f"Figure and data: {files}" if data else f"Figure: {files}",
        script_words(study, f"figures/{name.removeprefix(f'{study}_')}", results),
        cells_words(results.of_figure(study, name)),
    )


def table_line(
    study: str, label: str, names: Iterable[str], results: Results, behind: str = ""
) -> str:
    """Write the line below a table; without data of the study there is none."""
    own = [
        name for name in names if name.startswith(f"{study}_") and not name.endswith("_replicates")
    ]
    if not own:
        return ""
    data = ", ".join(link(f"{name}.csv", f"{place_of(name)}/{name}.csv") for name in own)
    return joined(
        f"Data: {data}",
        f"as shown: {link('LaTeX', f'tables/{label}.tex')}",
        script_words(study, "tables", results),
        cells_words(results.of_table(study, own[0], behind)),
    )


def joined(*parts: str) -> str:
    """Put the parts of a line together, those that there are."""
    return "; ".join(part for part in parts if part)


def script_words(study: str, script: str, results: Results) -> str:
    """Name a script of a study, below analysis/studies, and lead to the copy beside the report.

    A chapter that is of no study has one script, of its own name.
    """
    path = f"{study}/{script}.R" if results.rows(f"{study}_cells.csv") else f"{study}.R"
    return f"script: {link(path, f'{SCRIPTS}/{path}')}"


def place_of(name: str) -> str:
    """Say where a table lies: with the summaries, or with the tables."""
    summaries = ("_cells", "_intervals", "_flows", "_queue", "_ratios")
    return "../summary" if name.endswith(summaries) else TABLES


def cells_words(cells: list[Cell]) -> str:
    """Say how many cells there are, and how one of them is run again."""
    if not cells:
        return ""
    counts = sorted({cell.runs for cell in cells})
    runs = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    one = cells[0]
    number = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    address = f"{EXPLORER}#a={one.study}/{one.name}/{one.run}"
    return (
        f"{number}, n = {runs}, {'' if len(cells) == 1 else 'one of them '}"
        f"{link('over time', address)} and again: `losslab rerun {one.folder}`"
    )
