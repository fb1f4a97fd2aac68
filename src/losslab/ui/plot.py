"""Plot runs in the terminal, or to a file in the report's style."""

from __future__ import annotations

import argparse
import itertools
import math
import shutil
import sys
import tempfile
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from losslab import processes
from losslab.campaign import rerun
from losslab.campaign.tables import write_csv
from losslab.reading import UsageError, out_file
from losslab.repository import ROOT, find, require_programs
from losslab.study import studyfiles
from losslab.study.names import drawn_controls
from losslab.ui import series
from losslab.ui.series import PANELS, Panel, Run, Series

FORMATS = (".png", ".svg", ".pdf")
COLUMNS = (
    "run", "algorithm", "condition", "valid", "reasons", "warmup_s", "panel", "name", "flow",
    "t_s", "value", "cut",
)  # fmt: skip
# Conditions side by side on one page that are still readable.
MAX_CONDITIONS = 4
# Drawing takes 3 s on an idle machine, 100 times as long on one that measures.
DRAW_LIMIT_S = 600.0
# Height and limits of the width of a line in the terminal, in characters.
STRIP_LINES = 3
MIN_WIDTH, MAX_WIDTH = 60, 120
# Series of each panel that the terminal shows; figures show all.
IN_TERMINAL = {
    "goodput": ("received", "carried by the link", series.ACKNOWLEDGED),
    "cwnd": ("cwnd",),
    "rtt": ("ping",),
    "queue": ("queue",),
    "retransmits": ("retransmissions",),
}
# Peaks of the warm-up, and values of other series, that exceed the largest value after the warm-up
# by the first factor are cut off at the second: the rest of the panel would be a flat line.
PEAK_FACTOR, CUT_FACTOR = 5.0, 1.25
COUNTERS = ("retransmits",)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `plot`."""
    drawn = commands.add_parser("plot")
    drawn.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="folder of a run or a cell"
    )
    drawn.add_argument(
        "--out", type=out_file, action="append", default=[], metavar="FILE",
        help=f"plot to this file ({', '.join(FORMATS)}); may be repeated",
    )  # fmt: skip
    drawn.add_argument(
        "--state", action="store_true",
        help="plot the state of the congestion control, such as BBR's phases and bandwidth; a run "
        "without it is measured again",
    )  # fmt: skip
    drawn.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    drawn.set_defaults(run=_plot)


def _plot(options: argparse.Namespace) -> int:
    require_drawable(options.out)
    folders = [path for folder in options.folders for path in series.replicates(folder)]
    if options.state:
        runs = [series.load_state(path, options.trust) for path in folders]
    else:
        runs = [series.load(path) for path in folders]
    if options.out:
        figure(runs, options.out)
        say("\n".join(map(str, options.out)))
    else:
        say(text(runs, shutil.get_terminal_size().columns))
    return 0


def say(text: str) -> None:
    """Print text, with replacements for characters that the terminal lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def require_drawable(paths: Sequence[Path]) -> None:
    """Refuse paths without the suffix of a figure, and figures without R."""
    if paths:
        require_programs("analysis", "a figure")
    for path in paths:
        if path.suffix not in FORMATS:
            raise UsageError(
                f"--out must end in {', '.join(FORMATS)}, found {path}",
                hint="name a figure, such as runs.svg",
            )


def figure(runs: Sequence[Run], paths: Sequence[Path]) -> None:
    """Plot runs to files: a row per quantity, a column per condition, algorithms overlaid.

    The files' suffixes select the formats. A page has space for `MAX_CONDITIONS`. A run with phases
    has a column for itself.
    """
    conditions = series.labels(runs, without=["algorithm"])
    if any(run.bands for run in runs):
        conditions = series.distinguish(runs, series.labels(runs))
    if len(set(conditions)) > MAX_CONDITIONS:
        raise UsageError(
            f"a figure must have at most {MAX_CONDITIONS} conditions side by side, found "
            f"{len(set(conditions))}",
            hint="plot fewer runs at once, or omit --out to plot them in the terminal",
        )
    limits, panels = axis_limits(runs), panels_of(runs)
    rows: list[dict[str, object]] = []
    for number, run in enumerate(runs):
        common = {
            "run": number, "algorithm": run.control, "condition": conditions[number],
            "valid": "FALSE" if run.violations else "TRUE", "reasons": "; ".join(run.violations),
            "warmup_s": run.condition.warmup_s,
        }  # fmt: skip
        for line in sorted(run.series, key=lambda line: list(panels).index(line.panel)):
            line_columns = common | {"panel": panels[line.panel].title, "name": line.name}
            line_columns |= {"algorithm": line.algorithm or run.control, "flow": line.flow}
            for t_s, value in zip(line.t_s, line.values, strict=True):
                cut = value > limits[line.panel]
                shown = "" if math.isnan(value) or cut else value
                rows.append(line_columns | {"t_s": t_s, "value": shown, "cut": str(cut).upper()})
        # A phase is a row without a panel, whose value is its end.
        rows += [
            common | {"panel": "", "name": name, "t_s": begin_s, "value": end_s, "cut": "FALSE"}
            for begin_s, end_s, name in run.bands
        ]
    draw("runs.R", COLUMNS, rows, paths)


def panels_of(runs: Sequence[Run]) -> dict[str, Panel]:
    """Return the panels of all runs, in their order."""
    return {key: panel for run in runs for key, panel in run.panels.items()}


def axis_limits(runs: Sequence[Run]) -> dict[str, float]:
    """Return the value of each panel above which nothing is drawn; infinity if all is drawn."""
    limits = dict.fromkeys(panels_of(runs), math.inf)
    for panel in PANELS.keys() & limits.keys() - COUNTERS:
        values = [
            (value, each.name in IN_TERMINAL[panel] and t_s > run.condition.warmup_s)
            for run in runs
            for each in run.series
            if each.panel == panel
            for t_s, value in zip(each.t_s, each.values, strict=True)
            if not math.isnan(value)
        ]
        top = max((value for value, later in values if later), default=0.0)
        if top > 0 and max(value for value, _ in values) > PEAK_FACTOR * top:
            limits[panel] = CUT_FACTOR * top
    return limits


def draw(
    script: str, columns: Sequence[str], rows: Sequence[Mapping[str, object]], paths: Sequence[Path]
) -> None:
    """Plot a table with an R script of analysis/ (plot.R), in the report's theme."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    functions = [str(path) for path in studyfiles.functions(ROOT, [])]
    with tempfile.TemporaryDirectory(prefix="losslab-plot-") as name:
        table, algorithms = Path(name, "table.csv"), Path(name, "algorithms.tsv")
        write_csv(table, columns, [dict(row) for row in rows])
        controls = drawn_controls(find("config/algorithms.tsv"))
        lines = ["\t".join(line) for line in (controls[0], *(row.values() for row in controls))]
        algorithms.write_text("\n".join(lines) + "\n")
        scripts = [ROOT / "analysis" / each for each in ("plot.R", script)]
        inputs: list[str | Path] = [table, algorithms, str(len(functions)), *functions]
        # In a temporary folder, because ggplot2 leaves an Rplots.pdf in its working directory.
        processes.run(
            ["Rscript", "--vanilla", *scripts, *inputs, *(path.resolve() for path in paths)],
            limit_s=DRAW_LIMIT_S, cwd=Path(name),
        )  # fmt: skip


def text(runs: Sequence[Run], width: int) -> str:
    """Return a plot of runs, `width` characters wide, with a common scale per panel."""
    width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    names = series.distinguish(runs, series.labels(runs))
    names = [name or run.control for run, name in zip(runs, names, strict=True)]
    lines = []
    for number, (run, name) in enumerate(zip(runs, names, strict=True), 1):
        lines.append(f"{number}  {name}  ({run.folder})")
        lines += [f"   INVALID, do not use this run's values: {each}" for each in run.violations]
    end_s = max((each.t_s[-1] for run in runs for each in run.series), default=0.0)
    limits = axis_limits(runs)
    for number, run in enumerate(runs, 1):
        lengths = defaultdict[str, float](float)
        for begin_s, until_s, phase in run.bands:
            lengths[phase] += until_s - begin_s
        if lengths:
            phases = ", ".join(f"{phase} {its:.3g} s" for phase, its in lengths.items())
            lines += textwrap.wrap(f"{number}  phases: {phases}", width, subsequent_indent="   ")
    for panel in panels_of(runs):
        lines += _panel(panel, runs, end_s or 1.0, width, limits[panel])
    return "\n".join(lines)


def _panel(key: str, runs: Sequence[Run], end_s: float, width: int, limit: float) -> Iterator[str]:
    drawn = [
        (number, each)
        for number, run in enumerate(runs, 1)
        for each in run.series
        if each.panel == key and each.name in IN_TERMINAL.get(key, (each.name,))
    ]
    if not drawn:
        return
    panel = panels_of(runs)[key]
    values = [value for _, each in drawn for value in each.values if not math.isnan(value)]
    top, bottom = min(limit, max(0, *values)), min(0, *values)
    yield ""
    yield panel.title + (", without the peak in the warm-up" if limit < math.inf else "")
    for number, line in drawn:
        heading = f"{number}  {line.label}"
        yield f"{heading:<40}{_reading(panel, runs[number - 1], line)}".rstrip()
        yield from _strip(line, end_s, top if top > bottom else 1.0, width, bottom)
    yield "0 s" + f"{end_s:.3g} s".rjust(width - 3)


def _strip(line: Series, end_s: float, top: float, width: int, bottom: float = 0) -> list[str]:
    import plotext  # imported here: it takes 40 ms, which other commands save

    plotext.clear_figure()
    plotext.limit_size(False, False)
    plotext.plot_size(width, STRIP_LINES)
    plotext.frame(False)
    plotext.xticks([])
    plotext.yticks([bottom, top], [f"{bottom:.4g}", f"{top:.4g}".rjust(7)])
    plotext.xlim(0, end_s)
    plotext.ylim(bottom, top)
    samples = zip(line.t_s, line.values, strict=True)
    for absent, group in itertools.groupby(samples, key=lambda s: not s[1] <= top):
        if not absent:
            t_s, values = zip(*group, strict=True)
            plotext.plot(t_s, values, marker="braille")
    return [row.rstrip() for row in plotext.uncolorize(plotext.build()).splitlines()]


def _reading(panel: Panel, run: Run, line: Series) -> str:
    """Return a line's value: the last of a counter, else the mean after the warm-up.

    A variable of the state has its smallest and largest value instead. A run's goodput is the one
    in its summary, computed from bytes instead of samples.
    """
    after = [
        value
        for t_s, value in zip(line.t_s, line.values, strict=True)
        if not math.isnan(value) and t_s > run.condition.warmup_s
    ]
    if not after or run.violations:
        return ""
    if line.panel not in PANELS:
        return f"{min(after):.3g} to {max(after):.3g} {panel.unit}"
    if line.panel == "retransmits":
        return f"{after[-1]:g} in all"
    counted = run.manifest["summary"].get("goodput_mbit")
    own = line.panel == "goodput" and line.flow == "first" and counted is not None
    mean = counted if own else math.fsum(after) / len(after)
    return f"mean {mean:.3g} {panel.unit}, max {max(after):.3g}"
