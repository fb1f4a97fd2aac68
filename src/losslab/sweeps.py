"""`losslab sweep`: a table and a figure over some axes, without a study's files.

Each combination of values is a cell, measured as in the workflow. Finished runs are kept: the same
command continues where it stopped, and more values or replicates are added.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from losslab import analysis, cellspec, crossing, interrupts
from losslab.backends import snapshot_server
from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign import halves, inputs, limiters, replicate
from losslab.campaign.cellrun import measure_cell
from losslab.campaign.instrument import at_first_use, instrument, require_built, video
from losslab.campaign.results import CELL_FILE, MANIFEST_FILE, MeasuredCell, read_cell, write_json
from losslab.campaign.tables import REPLICATE_COLUMNS, gather, numbers_of, write_csv
from losslab.errors import HostError
from losslab.reading import UsageError, input_errors, number, out_folder, shown, whole_option
from losslab.repository import ROOT
from losslab.study import design, metrics, parameters, runlength, units
from losslab.study.axes import Axis, short
from losslab.study.condition import AXES, Condition
from losslab.study.intervals import StoppingRule
from losslab.study.names import unusual_parameters
from losslab.study.studyfiles import POINTS_MAX, block_grid
from losslab.ui import printed

KEPT = "finished runs are kept; repeat the same command to continue"


class SweepCell(NamedTuple):
    """Combination of values, with the folder of its replicates."""

    condition: Condition
    folder: Path

    @property
    def file(self) -> Path:
        """Result file, cell.json."""
        return self.folder / CELL_FILE


def values(axis: Axis, text: str) -> list[str | float]:
    """Parse the values of an axis: `cubic,bbr`, `0,1,5`, `0:10` or `0:10:2`."""
    parsed: list[str | float] = []
    if axis.kind == "str":
        split = parameters.algorithms if axis.name in parameters.ROLES else lambda t: t.split(",")
        words = [text] if axis.commas else split(text)
        parsed += [inputs.value(axis.name, word) for word in words]
    else:
        for part in text.split(","):
            parsed += _numbers(axis, part)
            if len(parsed) > POINTS_MAX:
                raise _too_many(len(parsed))
    if len(set(parsed)) != len(parsed):
        raise UsageError(f"{axis.name} must have each value once, found {shown(text)}")
    return parsed


def combined(texts: Iterable[str]) -> str:
    """Return the values of several `--sysctl`, each with its list: all their combinations."""
    lists = itertools.product(*(text.split(",") for text in texts))
    return ",".join(map(AXES["sysctl"].joined, lists))


def _numbers(axis: Axis, part: str) -> Sequence[str | float]:
    """Parse a number, or an inclusive range: `FROM:TO` in steps of 1, or `FROM:TO:STEP`.

    A range of values with units has a step.
    """
    wrong = f"{axis.name} must be numbers such as 0,1,5 or 0:10 or 0:10:2, found {shown(part)!r}"
    words = part.split(":")
    if any(units.QUANTITY.fullmatch(word) for word in words):
        in_axis_unit = [units.option(axis.name, word) for word in words]
        if len(words) == 1:
            return in_axis_unit
        if len(words) != 3 or axis.name in units.SIZES:
            raise UsageError(wrong, hint="with units, write FROM:TO:STEP, or for sizes a list")
        words = list(map(str, in_axis_unit))
    try:
        limits = [number(word) for word in words]
    except UsageError as error:
        raise UsageError(wrong) from error
    if len(limits) == 1:
        return limits
    if len(limits) > 3:
        raise UsageError(wrong)
    first, last, step = limits if len(limits) == 3 else (*limits, 1.0)
    if step <= 0 or last < first:
        raise UsageError(wrong)
    steps = (last - first) / step + 1e-9
    if steps >= POINTS_MAX:
        raise _too_many(steps + 1)
    # 0.1 + 2 * 0.1 is 0.3.
    return [float(f"{first + at * step:.12g}") for at in range(math.floor(steps) + 1)]


def _too_many(count: float) -> UsageError:
    return UsageError(
        f"a sweep must have at most {POINTS_MAX} cells, found {count:.12g}",
        hint="give fewer values, or a larger step: FROM:TO:STEP",
    )


def cells(
    given: Mapping[str, Sequence[str | float]], folder: Path, own_kernel: bool = False
) -> list[SweepCell]:
    """Return the cells of all combinations of the given values; UsageError if one is impossible."""
    if (folder / MANIFEST_FILE).is_file():
        raise UsageError(
            f"the folder of a sweep must be new or a sweep's, found a run in {folder}",
            hint="choose another with --out; losslab never changes a run's files",
        )
    names = design.load_names(ROOT)
    block = {name: list(axis_values) for name, axis_values in given.items()}
    with input_errors():
        conditions = [
            cellspec.condition(point, names, own_kernel)
            for point in block_grid({"defaults": {}}, block)
        ]
    inputs.require(conditions)
    # Two points may be one condition: competitor cubic, and same for algorithm cubic.
    distinct = dict.fromkeys(conditions)
    return [SweepCell(c, folder / "cells" / c.full_name()) for c in distinct]


def with_length(
    given: Mapping[str, Sequence[str | float]], folder: Path, own_kernel: bool = False
) -> tuple[dict[str, Sequence[str | float]], str]:
    """Return a sweep's values with the rule's length of the runs, and a note on it.

    A length that the user gave stays.
    """
    conditions = [cell.condition for cell in cells(given, folder, own_kernel)]
    longer, note = runlength.with_length(conditions, *(n in given for n in runlength.LENGTH_AXES))
    if not note:
        return dict(given), ""
    lengths = {name: [getattr(longer[0], name)] for name in runlength.LENGTH_AXES}
    return {**lengths, **given}, note


def cross(
    given: Mapping[str, Sequence[str | float]],
    metric: str,
    factor: float,
    replicates: int,
    out: Path,
    cores: int,
    backend: str = VIRTUAL,
    where: str = GUEST,
) -> tuple[crossing.Crossing, str]:
    """Return where the ratio of two algorithms crosses a factor, and a note on the runs' length.

    All runs have the same length: the longest that the rule asks for within the range.
    """
    axis = crossing.axis_of(given)
    low, high = sorted(float(end) for end in given[axis])
    one, other = (str(name) for name in given["algorithm"])
    own_kernel = cellspec.on_own_kernel(backend, where)
    spread = {axis: sorted({low, high, *crossing.spread(axis, low, high)})}
    with_values, note = with_length({**given, **spread}, out, own_kernel)
    todo = cells({**with_values, axis: [low, high]}, out, own_kernel)
    metrics.require_measured(metric, [cell.condition for cell in todo])
    for cell in todo:
        at_first_use(cell.condition, backend, where)
    measured: list[MeasuredCell] = []

    def at(value: float) -> crossing.Point:
        pair = cells({**with_values, axis: [value]}, out, own_kernel)
        measure(pair, replicates, cores, backend, where)
        both = [read_cell(cell.file).checked(cell.condition) for cell in pair]
        measured.extend(both)
        values_of = [cell.values(metric) for cell in both]
        return crossing.point(value, *values_of)

    found = crossing.find(axis, (low, high), metric, factor, (one, other), at)
    warnings = halves.of_cells(measured, lambda its: printed.cell_name(its, ["algorithm", axis]))
    return replace(found, warnings=tuple(warnings)), note


def measure(
    todo: Sequence[SweepCell],
    replicates: int,
    cores: int,
    backend: str = VIRTUAL,
    where: str = GUEST,
) -> None:
    """Measure `replicates` runs of each cell, `cores` cells at a time; keep finished runs.

    Raises HostError before the first run if a kernel or an image is not built.
    """
    require_built([cell.condition for cell in todo], backend, where)
    rule = StoppingRule(replicates, replicates)

    def measure_one(cell: SweepCell) -> None:
        tools = instrument(backend, where, cell.condition)
        measure_cell("sweep", "main", cell.condition, cell.file, rule, tools, say=lambda _: None)

    measure_all([functools.partial(measure_one, cell) for cell in todo], cores, "cells")


def measure_all(jobs: Sequence[Callable[[], None]], cores: int, title: str) -> None:
    """Do jobs that measure, `cores` at a time; their guests are forks of shared snapshots.

    If one fails, the others end. The environment has the snapshots' variables meanwhile.
    """
    interactive = sys.stderr.isatty() or "ipykernel" in sys.modules  # a terminal or a notebook
    with snapshot_server.serving() as variables, ThreadPoolExecutor(cores) as pool:
        os.environ.update(variables)
        try:
            futures = [pool.submit(job) for job in jobs]
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                end = "\n" if done == len(jobs) else ""
                if interactive:
                    text = f"\rlosslab: measured {done} of {len(jobs)} {title}"
                    print(text, end=end, file=sys.stderr, flush=True)
                elif end:
                    print(f"losslab: measured {done} {title}", file=sys.stderr, flush=True)
        except BaseException:
            with interrupts.ending_threads():
                pool.shutdown(cancel_futures=True)
            raise
        finally:
            for name in variables:
                del os.environ[name]


def measure_runs(
    runs: Mapping[Path, tuple[Condition, int]],
    cores: int,
    title: str,
    captures: Callable[[Condition], Sequence[str]] = lambda _: (),
    attempts: int = replicate.ATTEMPTS,
) -> None:
    """Measure single runs, condition and seed by folder; a folder that exists is replaced."""
    for condition in dict.fromkeys(condition for condition, _ in runs.values()):
        at_first_use(condition)
        instrument(condition=condition)  # compiles the user's algorithms, once

    def measure_one(folder: Path) -> None:
        condition, seed = runs[folder]
        tools, links = instrument(condition=condition), captures(condition)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        movie = video(condition, tools)
        replicate.run(condition, seed, folder, tools, movie, attempts=attempts, captures=links)

    if runs:
        measure_all([functools.partial(measure_one, folder) for folder in runs], cores, title)


def study(given: Mapping[str, Sequence[str | float]], replicates: int) -> dict[str, Any]:
    """Return the sweep as a study's blocks, one for each length of runs, for use in a campaign."""
    block = {
        name: list(values) if len(values) > 1 else values[0]
        for name, values in given.items()
        if not AXES[name].of_campaign
    }
    durations_s, warmups_s = (
        [float(value) for value in given.get(name, (AXES[name].default or 0,))]
        for name in ("duration_s", "warmup_s")
    )
    lengths = itertools.product(durations_s, warmups_s)
    runs = {
        f"main{number or ''}": {
            "replicates": replicates, "duration_s": duration_s, "warmup_s": warmup_s,
        }
        for number, (duration_s, warmup_s) in enumerate(lengths)
    }  # fmt: skip
    return {"blocks": {name: dict(block) for name in runs}, "runs": runs}


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `sweep`."""
    parser = commands.add_parser("sweep")
    for name, axis in AXES.items():
        option = f"--{name.replace('_', '-')}"
        action = "append" if name == "sysctl" else "store"
        parser.add_argument(option, action=action, metavar="VALUES", required=axis.default is None,
                            help=axis.help.replace("%", "%%").replace("`", ""))  # fmt: skip
    parser.add_argument(
        "--replicates", type=whole_option("replicates", 1), default=5,
        help="runs of each cell (default 5)",
    )  # fmt: skip
    parser.add_argument(
        "--metric", type=metrics.name_option,
        help="metric of the table; default: the app's main metric",
    )  # fmt: skip
    parser.add_argument(
        "--cross", type=crossing.wanted, metavar="METRIC=RATIO",
        help="find the value of one axis, between two that you give, at which the metric of the "
        "first of two algorithms is RATIO times that of the second, such as goodput_mbit=2",
    )  # fmt: skip
    cellspec.cores_option(parser, "cells")
    parser.add_argument(
        "--out", type=out_folder, required=True, help="folder; finished runs are kept"
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    cellspec.backend_options(parser)
    parser.set_defaults(run=_sweep, interrupted=KEPT)


def _sweep(options: argparse.Namespace) -> int:
    if options.sysctl is not None:
        options.sysctl = combined(options.sysctl)
    given = {
        name: values(axis, text)
        for name, axis in AXES.items()
        if (text := getattr(options, name)) is not None
    }
    if options.cross is not None:
        return _cross(options, given)
    return run(
        given, options.replicates, options.out, options.cores, options.metric, options.backend,
        options.where, options.json,
    )  # fmt: skip


def _cross(options: argparse.Namespace, given: Mapping[str, Sequence[str | float]]) -> int:
    """Find a crossing, print it, and write it to crossing.json."""
    metric, factor = options.cross
    found, note = cross(
        given, metric, factor, options.replicates, options.out, options.cores, options.backend,
        options.where,
    )  # fmt: skip
    file = options.out / "crossing.json"
    write_json(found.to_json(), file)
    print(json.dumps(found.to_json(), indent=1) if options.json else crossing.text(found, file))
    for line in [*([note] if note else []), *(f"warning: {each}" for each in found.warnings)]:
        print(f"losslab: {line}", file=sys.stderr)
    return 0


def run(
    given: Mapping[str, Sequence[str | float]],
    replicates: int,
    out: Path,
    cores: int,
    metric: str | None = None,
    backend: str = VIRTUAL,
    where: str = GUEST,
    as_json: bool = False,
) -> int:
    """Measure a sweep, print its table and write its files; return the exit status."""
    given, of_length = with_length(given, out, cellspec.on_own_kernel(backend, where))
    todo = cells(given, out, cellspec.on_own_kernel(backend, where))
    conditions = [cell.condition for cell in todo]
    notes = [*units.notes(given, [condition.to_json() for condition in conditions])]
    notes += [note for condition in conditions for note in unusual_parameters(condition)]
    notes += [of_length] if of_length else []
    for note in dict.fromkeys(notes):
        print(f"losslab: {note}", file=sys.stderr)
    if metric is not None:
        metrics.require_measured(metric, conditions)
    figure = can_draw()
    write_study(given, replicates, out)
    for condition in conditions:
        at_first_use(condition, backend, where)
    measure(todo, replicates, cores, backend, where)
    measured = [read_cell(cell.file).checked(cell.condition) for cell in todo]
    varied = varied_axes(given, conditions)
    rows = printed.rows(measured, varied, metric)
    files = write_tables(rows, varied, measured, out, figure)
    warnings = [
        *halves.of_cells(measured, lambda cell: printed.cell_name(cell, varied)),
        *limiters.of_cells(measured, lambda cell: printed.cell_name(cell, varied)),
    ]
    if as_json:
        data = {"cells": rows, "files": [*map(str, files)], "warnings": warnings}
        print(json.dumps(data, indent=1))
    else:
        print("\n".join([printed.text(rows, varied), "", *map(str, files)]))
    for warning in warnings:
        print(f"losslab: warning: {warning}", file=sys.stderr)
    return _warn(rows, varied)


def write_study(given: Mapping[str, Sequence[str | float]], replicates: int, out: Path) -> None:
    """Write a sweep as a study's blocks, study.yaml, to its folder."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "study.yaml").write_text(yaml.safe_dump(study(given, replicates), sort_keys=False))


def write_tables(
    rows: Sequence[Mapping[str, Any]],
    varied: Sequence[str],
    measured: Sequence[MeasuredCell],
    out: Path,
    figure: bool,
) -> list[Path]:
    """Write sweep.csv, replicates.csv and, with `figure`, the figure; return the files."""
    files = [*printed.write(rows, varied, out, figure), out / "replicates.csv"]
    runs = gather(map(numbers_of, measured))
    write_csv(files[-1], (*REPLICATE_COLUMNS, *runs.metrics()), runs.replicates)
    return files


def varied_axes(
    given: Mapping[str, Sequence[str | float]], conditions: Sequence[Condition]
) -> list[str]:
    """Return the axes that tell the cells of a sweep apart, for its table.

    Short forms such as `cubic,beta=700` vary the axis `parameters`, and perhaps not the algorithm.
    """
    varied = [name for name, axis_values in given.items() if len(axis_values) > 1]
    if len({condition.parameters for condition in conditions}) > 1:
        varied = [
            name
            for name in varied
            if name != "parameters" and len({getattr(c, name) for c in conditions}) > 1
        ]
        varied.append("parameters")
    return varied or ["algorithm"]


def can_draw() -> bool:
    """Return whether R is there; without it, tell the user before the runs."""
    try:
        analysis.require_r("the figure of losslab sweep")
    except HostError as error:
        print(
            f"losslab: note: {error}\n  -> or use the tables; after the installation, the same "
            "command draws the finished runs",
            file=sys.stderr,
        )
        return False
    return True


def _warn(rows: Sequence[Mapping[str, Any]], varied: Sequence[str]) -> int:
    """Print what is invalid or absent in a sweep's table; return the command's exit status."""
    for row in rows:
        if row["reasons"]:
            cell = ", ".join(f"{name} {short(row[name])}" for name in varied)
            print(f"losslab: invalid: {cell}: {row['reasons']}", file=sys.stderr)
    absent = [row["metric"] for row in rows if row["mean"] is None]
    if absent:
        names, count = ", ".join(dict.fromkeys(absent)), f"{len(absent)} of {len(rows)} cells"
        print(f"losslab: no valid run with a value of {names} in {count}", file=sys.stderr)
    return 1 if absent else 0
