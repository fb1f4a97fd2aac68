"""Run explorer: an HTML file with all cells of a campaign and their runs over time.

Runs that are recorded, like those of the page lab.html, have a file STUDY.series.jsonl.xz beside
their recorded numbers, with a line per run. A line has a digest of the run's numbers, so that
series of other runs are not drawn.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import json
import lzma
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from losslab import cellspec
from losslab.backends.base import GUEST
from losslab.campaign import limiters, records, results
from losslab.campaign.results import MANIFEST_FILE, Row, digest_of, whole_file
from losslab.reading import UsageError, out_file, read_rows, whole_option, write_text
from losslab.repository import find
from losslab.study.condition import AXES, Condition
from losslab.study.metrics import declared, primary_names
from losslab.study.names import drawn_controls
from losslab.ui import lessons, series
from losslab.ui.series import PANELS, Series

FOLDER = Path(__file__).parent / "page"
STYLES = ("uplot/uPlot.min.css", "explorer.css")
# uPlot has 50 kB and no dependencies, draws thousands of samples, zooms, and shares the cursor of
# several figures. Vega-Lite is many times larger; Observable Plot cannot zoom.
SCRIPTS = (
    "uplot/uPlot.iife.min.js", "data.js", "charts.js", "search.js", "table.js", "presets.js",
    "axes.js", "lessons.js", "main.js",
)  # fmt: skip
# Number of time slices of a run, each drawn by its minimum and maximum. A pane is about 500 pixels
# wide.
SLICES = 150
# The same of recorded runs, which the repository keeps: 0.2 s of the page lab.html's runs.
RECORDED_SLICES = 50
# Resolution of a line's values, finer than the pixels of a panel.
STEPS = 1000
# Limit of all runs' series in characters of the file; the rest stays in CSV files. The runs of the
# quick campaign need 4.6 million.
SERIES_BUDGET = 8_000_000
# Runs per batch of a process.
CHUNK = 16
SERIES_SUFFIX = ".series.jsonl.xz"
# Study, cell and seed of a run.
Key = tuple[str, str, int]


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `explorer`."""
    page = commands.add_parser("explorer")
    page.add_argument(
        "overviews", nargs="*", type=Path,
        help="results/summary/STUDY/cells.csv (default: all cells of --recorded)",
    )  # fmt: skip
    page.add_argument("--cells", type=Path, default=Path("results", "cells"))
    page.add_argument("--recorded", type=Path, help="folder of recorded numbers")
    page.add_argument(
        "--record", type=Path, metavar="FOLDER",
        help="also record the runs over time, in a folder of recorded numbers",
    )  # fmt: skip
    page.add_argument("--title", default="Run explorer", help="title of the page")
    page.add_argument("--report", default="report.html", help="address of the report, for a link")
    page.add_argument("--lessons", type=Path, help="page with lessons, such as teach.md")
    page.add_argument("--out", type=out_file, required=True, help="HTML file to write")
    page.add_argument(
        "--processes",
        type=whole_option("processes", 1),
        default=1,
        help="number of processes that read runs",
    )
    page.set_defaults(run=_explorer)


def _explorer(options: argparse.Namespace) -> int:
    if not options.overviews and options.recorded is None:
        raise UsageError(
            "the explorer must have cells, found neither a table of cells nor --recorded",
            hint="name results/summary/STUDY/cells.csv",
        )
    if options.record is not None:
        cells = [cell for path in options.overviews for cell in _cells(path, options.cells, None)]
        print(record(cells, options.cells, options.record, options.processes))
    print(
        build(
            options.overviews, options.cells, options.out, options.processes, options.recorded,
            options.title, options.report, options.lessons,
        )
    )  # fmt: skip
    return 0


def build(
    overviews: Sequence[Path],
    cells: Path,
    out: Path,
    processes: int = 1,
    recorded: Path | None = None,
    title: str = "Run explorer",
    report: str = "report.html",
    teaching: Path | None = None,
) -> str:
    """Write the explorer to an HTML file; return a line that describes it.

    `overviews` are tables with a row per cell (`losslab collect --overview`); without any, the page
    has all cells of the folder `recorded`. `cells` has a folder per study with a folder per cell.
    Several processes read runs. Cells from `recorded` numbers have the runs over time that the
    folder has. `teaching` is a page with lessons.
    """
    if overviews or recorded is None:
        cell_rows = [cell for path in overviews for cell in _cells(path, cells, recorded)]
    else:
        cell_rows = [numbers.content for numbers in records.read_all(recorded)]
    every = [(cell, number) for cell in cell_rows for number in range(len(cell["replicates"]))]
    known = _read_series(cell_rows, recorded) if recorded else {}
    drawn = [run for run in every if _key(*run) in known]
    # Results may be distributed without the runs' folders.
    kept = [
        (cell, n) for cell, n in every
        if _key(cell, n) not in known and (_folder(cells, cell, n) / MANIFEST_FILE).is_file()
    ]  # fmt: skip
    # Invalid runs first, then by replicate number: the last ones may not fit.
    kept = sorted(kept, key=lambda run: (run[0]["replicates"][run[1]]["valid"], run[1]))
    blobs = [deflated(known[_key(*run)]) for run in drawn]
    blobs += _within(SERIES_BUDGET, _packed([_folder(cells, *run) for run in kept], processes))
    shown = {id(cell): [-1] * len(cell["replicates"]) for cell in cell_rows}
    for place, (cell, number) in enumerate([*drawn, *kept][: len(blobs)]):
        shown[id(cell)][number] = place
    index: dict[str, Any] = {
        "panels": [{"key": key, "title": p.title} for key, p in PANELS.items()],
        "axes": [{"name": name, "unit": axis.unit, "default": axis.default, "help": axis.help}
                 for name, axis in AXES.items()],
        "algorithms": {row["name"]: {"label": row["label"], "colour": row["colour"]}
                       for row in drawn_controls(find("config/algorithms.tsv"))},
        "metrics": primary_names(),
        "labels": {name: [metric.label, metric.unit] for name, metric in declared().items()},
        "steps": STEPS,
        "cells_path": str(cells),
        "cells_folder": os.path.relpath(cells, out.parent),
        "cells": [_cell(cell, shown[id(cell)], cells) for cell in cell_rows],
        "lessons": lessons.read(teaching) if teaching else [],
    }  # fmt: skip
    page = _page(index, blobs, title, report)
    write_text(out, page)
    return (
        f"{out}: {len(cell_rows)} cells, {len(every)} runs, {len(blobs)} of them drawn, "
        f"{len(page) / 1e6:.1f} MB"
    )


def record(cell_rows: Iterable[Row], cells: Path, folder: Path, processes: int = 1) -> str:
    """Record the series of all measured runs of some cells; return a line on what was recorded.

    Series of cells that were recorded earlier stay.
    """
    runs = [(cell, number) for cell in cell_rows for number in range(len(cell["replicates"]))]
    with ProcessPoolExecutor(processes) as pool:
        folders = [_folder(cells, *run) for run in runs]
        packed = pool.map(_recorded_series, folders, chunksize=CHUNK)
        lines = {_key(*run): _line(*run, its) for run, its in zip(runs, packed, strict=True)}
    folder.mkdir(parents=True, exist_ok=True)
    for study in sorted({study for study, _, _ in lines}):
        path = folder / f"{study}{SERIES_SUFFIX}"
        measured = {cell for _, cell, _ in lines}
        old = _lines(path) if path.is_file() else []
        kept = {(study, o["cell"], o["seed"]): o for o in old if o["cell"] not in measured}
        rows = sorted((kept | {k: v for k, v in lines.items() if k[0] == study}).items())
        text = "".join(
            f"{json.dumps(row, sort_keys=True, separators=(',', ':'))}\n" for _, row in rows
        )
        with whole_file(path) as part:
            part.write_bytes(lzma.compress(text.encode(), preset=9))
    return f"recorded {len(lines)} runs over time in {folder}"


def _line(cell: Row, number: int, packed: Row) -> Row:
    row = cell["replicates"][number]
    return {
        "cell": cell["cell"],
        "seed": row["seed"],
        "of": digest_of(row["summary"]),
        "series": packed,
    }


def _read_series(cell_rows: Iterable[Row], folder: Path) -> dict[Key, Row]:
    """Return the recorded series of cells' runs; those of runs with other numbers are left out."""
    digests = {
        (cell["study"], cell["cell"], row["seed"]): digest_of(row["summary"])
        for cell in cell_rows
        for row in cell["replicates"]
    }
    paths = {study: folder / f"{study}{SERIES_SUFFIX}" for study, _, _ in digests}
    return {
        key: line["series"]
        for study, path in paths.items()
        if path.is_file()
        for line in _lines(path)
        if digests.get(key := (study, line["cell"], line["seed"])) == line["of"]
    }


def _lines(path: Path) -> list[Row]:
    try:
        with lzma.open(path, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise UsageError(
            f"{path} must have recorded runs over time, found: {error}", hint=records.HINT
        ) from error


def _key(cell: Mapping[str, Any], number: int) -> Key:
    return str(cell["study"]), str(cell["cell"]), int(cell["replicates"][number]["seed"])


def _cells(overview: Path, cells: Path, recorded: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the content of the cell.json of each cell in a study's table of cells."""
    rows = [row for row in read_rows(overview, columns=("study", "cell")) if row["cell"]]
    known = records.of_overview(rows, recorded)
    for row in rows:
        if row["cell"] in known:
            yield known[row["cell"]].content
        elif row.get("n_replicates") != "0":
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
    return deflated(packed_series(folder, SLICES))


def _recorded_series(folder: Path) -> Row:
    return packed_series(folder, RECORDED_SLICES)


def packed_series(folder: Path, slices: int) -> Row:
    """Return a run's lines, what limited its first flow, and the digest of its CSV files.

    `cat RUN/*.csv | sha256sum` prints the same digest of a run that `losslab measure` wrote.
    """
    run = series.load(folder, checked=True)
    end_s = max((each.t_s[-1] for each in run.series), default=0.0)
    limits = limiters.of_run(folder, run.manifest)
    files = sorted(folder.glob("*.csv"))
    return {
        "end_s": end_s,
        "lines": [
            {"p": each.panel, "n": each.label, "f": each.flow, "top": top, "v": steps}
            for each in run.series
            for top, steps in [sliced(each, end_s, slices)]
        ],
        "limits": {name: round(percent, 1) for name, percent in limits.shares.items()},
        "warnings": [*limiters.warnings(limits, run.condition)],
        "sha256": hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest(),
    }


def sliced(line: Series, end_s: float, slices: int = SLICES) -> tuple[float, list[int | None]]:
    """Reduce a line to the minimum and maximum of each time slice, in order of occurrence.

    Returns the line's maximum, and the differences between successive values in thousandths of the
    maximum; None if a slice has no (second) value.
    """
    times = line.t_s
    kept = ~np.isnan(line.values) & (times >= 0) & (times <= end_s) & (end_s > 0)
    values = line.values[kept]
    places = np.minimum(times[kept] / (end_s or 1.0) * slices, slices - 1).astype(int)
    top = float(values.max(initial=0.0))
    used, starts = np.unique(places, return_index=True)
    # The first of a slice's smallest and largest values; lexsort keeps the order of equal ones.
    smallest, largest = (np.lexsort((sign * values, places))[starts] for sign in (1, -1))
    ends = np.sort(np.column_stack((smallest, largest)), axis=1)
    drawn = np.column_stack((np.ones(len(used), bool), smallest != largest))
    heights = np.round(values[ends] / (top or 1.0) * STEPS).astype(int)
    changes = np.diff(heights[drawn], prepend=0)
    steps: list[int | None] = [None] * (2 * slices)
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
        # The page adds the defaults.
        "condition": {
            name: value
            for name, value in cell["condition"].items()
            if name not in AXES or value != AXES[name].default
        },
        "command": _command(cell),
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


def _command(cell: dict[str, Any]) -> str:
    """Return the command that measures a cell's first run; empty if it was measured in real time.

    Those of the other runs have other seeds.
    """
    first = next(iter(cell["replicates"]), None)
    if first is None or first["instrument"].get("where", GUEST) != GUEST:
        return ""
    condition = Condition.from_json(cell["condition"])
    return cellspec.measure_command(condition, first["seed"], "my-run")


def _page(index: dict[str, Any], blobs: Sequence[str], title: str, report: str) -> str:
    """Fill the template's placeholders, such as `{{styles}}`."""
    text = (FOLDER / "explorer.html").read_text()
    parts = {
        "title": html.escape(title),
        "report": html.escape(report),
        "styles": "\n".join((FOLDER / name).read_text() for name in STYLES),
        "scripts": "\n".join((FOLDER / name).read_text() for name in SCRIPTS),
        "licence": html.escape((FOLDER / "uplot" / "LICENSE").read_text()),
        "index": deflated(index),
        "runs": "\n".join(blobs),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], text)
