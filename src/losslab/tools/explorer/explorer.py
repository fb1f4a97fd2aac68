"""Run explorer: an HTML file with all cells of a campaign and their runs over time."""

from __future__ import annotations

import argparse
import base64
import html
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from losslab.campaign import records, results
from losslab.campaign.results import MANIFEST_FILE
from losslab.reading import out_file, read_rows, whole_option, write_text
from losslab.repository import find
from losslab.study.condition import AXES
from losslab.study.metrics import primary_names
from losslab.study.names import drawn_controls
from losslab.ui import series
from losslab.ui.series import PANELS, Series

FOLDER = Path(__file__).parent / "page"
STYLES = ("uplot/uPlot.min.css", "explorer.css")
# uPlot has 50 kB and no dependencies, draws thousands of samples, zooms, and shares the cursor of
# several figures. Vega-Lite is many times larger; Observable Plot cannot zoom.
SCRIPTS = (
    "uplot/uPlot.iife.min.js", "data.js", "charts.js", "search.js", "table.js", "presets.js",
    "main.js",
)  # fmt: skip
# Number of time slices of a run, each drawn by its minimum and maximum. A pane is about 500 pixels
# wide.
SLICES = 150
# Resolution of a line's values, finer than the pixels of a panel.
STEPS = 1000
# Limit of all runs' series in characters of the file; the rest stays in CSV files. The runs of the
# quick campaign need 4.6 million.
SERIES_BUDGET = 8_000_000
# Runs per batch of a process.
CHUNK = 16


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `explorer`."""
    page = commands.add_parser("explorer")
    page.add_argument("overviews", nargs="+", type=Path, help="results/summary/STUDY/cells.csv")
    page.add_argument("--cells", type=Path, default=Path("results", "cells"))
    page.add_argument("--recorded", type=Path, help="folder of recorded numbers")
    page.add_argument("--out", type=out_file, required=True, help="HTML file to write")
    page.add_argument(
        "--processes",
        type=whole_option("processes", 1),
        default=1,
        help="number of processes that read runs",
    )
    page.set_defaults(run=_explorer)


def _explorer(options: argparse.Namespace) -> int:
    print(build(options.overviews, options.cells, options.out, options.processes, options.recorded))
    return 0


def build(
    overviews: Sequence[Path],
    cells: Path,
    out: Path,
    processes: int = 1,
    recorded: Path | None = None,
) -> str:
    """Write the explorer to an HTML file; return a line that describes it.

    `overviews` are tables with a row per cell (`losslab collect --overview`); `cells` has a folder
    per study with a folder per cell. Several processes read runs. Cells from `recorded` numbers
    have no runs over time.
    """
    cell_rows = [cell for path in overviews for cell in _cells(path, cells, recorded)]
    every = [(cell, number) for cell in cell_rows for number in range(len(cell["replicates"]))]
    # Results may be distributed without the runs' folders.
    kept = [(cell, n) for cell, n in every if (_folder(cells, cell, n) / MANIFEST_FILE).is_file()]
    # Invalid runs first, then by replicate number: the last ones may not fit.
    runs = sorted(kept, key=lambda run: (run[0]["replicates"][run[1]]["valid"], run[1]))
    blobs = _within(SERIES_BUDGET, _packed([_folder(cells, *run) for run in runs], processes))
    shown = {id(cell): [-1] * len(cell["replicates"]) for cell in cell_rows}
    for place, (cell, number) in enumerate(runs[: len(blobs)]):
        shown[id(cell)][number] = place
    index: dict[str, Any] = {
        "panels": [{"key": key, "title": p.title} for key, p in PANELS.items()],
        "axes": [{"name": name, "unit": axis.unit, "default": axis.default, "help": axis.help}
                 for name, axis in AXES.items()],
        "algorithms": {row["name"]: {"label": row["label"], "colour": row["colour"]}
                       for row in drawn_controls(find("config/algorithms.tsv"))},
        "metrics": primary_names(),
        "slices": SLICES,
        "steps": STEPS,
        "cells_path": str(cells),
        "cells_folder": os.path.relpath(cells, out.parent),
        "cells": [_cell(cell, shown[id(cell)], cells) for cell in cell_rows],
    }  # fmt: skip
    page = _page(index, blobs)
    write_text(out, page)
    return (
        f"{out}: {len(cell_rows)} cells, {len(every)} runs, {len(blobs)} of them drawn, "
        f"{len(page) / 1e6:.1f} MB"
    )


def _cells(overview: Path, cells: Path, recorded: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the content of the cell.json of each cell in a study's table of cells."""
    rows = [row for row in read_rows(overview, columns=("study", "cell")) if row["cell"]]
    known = records.of_overview(rows, recorded)
    for row in rows:
        if row["cell"] in known:
            yield known[row["cell"]].content
        else:
            yield results.read_cell(cells / row["study"] / row["cell"] / results.CELL_FILE).content


def _folder(cells: Path, cell: dict[str, Any], number: int) -> Path:
    return cells / str(cell["study"]) / str(cell["cell"]) / str(number)


def _packed(folders: Sequence[Path], processes: int) -> Iterator[str]:
    """Yield packed runs in order, lazily."""
    step = CHUNK * processes
    with ProcessPoolExecutor(processes) as pool:
        for begin in range(0, len(folders), step):
            yield from pool.map(pack, folders[begin : begin + step], chunksize=CHUNK)


def _within(budget: int, blobs: Iterable[str]) -> list[str]:
    """Return the first blobs that fit into `budget` characters."""
    taken: list[str] = []
    for blob in blobs:
        budget -= len(blob)
        if budget < 0:
            break
        taken.append(blob)
    return taken


def pack(folder: Path) -> str:
    """Return a run's series as compressed text; `losslab collect` has checked the run's files."""
    run = series.load(folder, checked=True)
    end_s = max((each.t_s[-1] for each in run.series), default=0.0)
    lines = [
        {"p": each.panel, "n": each.label, "f": each.flow, "top": top, "v": steps}
        for each in run.series
        for top, steps in [sliced(each, end_s)]
    ]
    return deflated({"end_s": end_s, "lines": lines})


def sliced(line: Series, end_s: float) -> tuple[float, list[int | None]]:
    """Reduce a line to the minimum and maximum of each time slice, in order of occurrence.

    Returns the line's maximum, and the differences between successive values in thousandths of the
    maximum; None if a slice has no (second) value.
    """
    times = line.t_s
    kept = ~np.isnan(line.values) & (times >= 0) & (times <= end_s) & (end_s > 0)
    values = line.values[kept]
    places = np.minimum(times[kept] / (end_s or 1.0) * SLICES, SLICES - 1).astype(int)
    top = float(values.max(initial=0.0))
    used, starts = np.unique(places, return_index=True)
    # The first of a slice's smallest and largest values; lexsort keeps the order of equal ones.
    smallest, largest = (np.lexsort((sign * values, places))[starts] for sign in (1, -1))
    ends = np.sort(np.column_stack((smallest, largest)), axis=1)
    drawn = np.column_stack((np.ones(len(used), bool), smallest != largest))
    heights = np.round(values[ends] / (top or 1.0) * STEPS).astype(int)
    changes = np.diff(heights[drawn], prepend=0)
    steps: list[int | None] = [None] * (2 * SLICES)
    where = np.add.outer(2 * used, (0, 1))[drawn]
    for place, step in zip(where.tolist(), changes.tolist(), strict=True):
        steps[place] = step
    return top, steps


def deflated(data: Any) -> str:
    """Return JSON in base64, compressed for browsers' DecompressionStream("deflate")."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _cell(cell: dict[str, Any], shown: Sequence[int], cells: Path) -> dict[str, Any]:
    return {
        "study": cell["study"],
        "block": cell["block"],
        "cell": cell["cell"],
        "condition": cell["condition"],
        "runs": [
            {
                "seed": run["seed"],
                "valid": run["valid"],
                "reasons": run["reasons"],
                "summary": {
                    name: value if isinstance(value, int) else float(f"{value:.5g}")
                    for name, value in sorted(run["summary"].items())
                    if isinstance(value, int | float)
                },
                "series": place,
                "files": sorted(path.name for path in _folder(cells, cell, number).glob("*.csv")),
            }
            for number, (run, place) in enumerate(zip(cell["replicates"], shown, strict=True))
        ],
    }


def _page(index: dict[str, Any], blobs: Sequence[str]) -> str:
    """Fill the template's placeholders, such as `{{styles}}`."""
    text = (FOLDER / "explorer.html").read_text()
    parts = {
        "styles": "\n".join((FOLDER / name).read_text() for name in STYLES),
        "scripts": "\n".join((FOLDER / name).read_text() for name in SCRIPTS),
        "licence": html.escape((FOLDER / "uplot" / "LICENSE").read_text()),
        "index": deflated(index),
        "runs": "\n".join(blobs),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], text)
