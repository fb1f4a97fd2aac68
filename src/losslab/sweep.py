"""A table and a figure over some axes without a study's files: `losslab sweep`.

Every combination of the values becomes a cell, measured by `losslab cell` as the workflow's are:
what is there is kept, so that the same command goes on where it stopped, and one with more values
or replicates adds to it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from losslab import asked, interrupts, processes
from losslab.campaign.folder import CELL_FILE
from losslab.errors import LosslabError
from losslab.reading import UsageError, input_errors, number, shown, whole_option
from losslab.screen import cellstable
from losslab.study import design
from losslab.study.axes import Axis
from losslab.study.condition import AXES, Condition
from losslab.study.points import POINTS_MAX, block_points

LISTS = ("scheme", "flows", "changes", "sender_command", "receiver_command", "bring")
POLL_S = 0.1
KEPT = "finished runs are kept; the same command goes on there"


class Cell(NamedTuple):
    """A combination of values, and where its replicates are."""

    condition: Condition
    folder: Path

    @property
    def file(self) -> Path:
        """What `losslab cell` leaves."""
        return self.folder / CELL_FILE


def values(its: Axis, text: str) -> list[str | float]:
    """Read the values of an axis: `cubic,bbr`, `0,1,5`, `0:10` or `0:10:2`.

    Raises UsageError if they are none.
    """
    if its.kind == "str":
        # Some axes' words have commas of their own.
        found: list[str | float] = [text] if its.name in LISTS else [*text.split(",")]
    else:
        found = []
        for part in text.split(","):
            found += _numbers(its, part)
            if len(found) > POINTS_MAX:
                raise _too_many(len(found))
    if len(set(found)) != len(found):
        raise UsageError(f"{its.name} must have each value once, found {shown(text)}")
    return found


def _numbers(its: Axis, part: str) -> list[float]:
    """Read a number, or an interval with both its ends: `FROM:TO` in steps of 1, `FROM:TO:STEP`."""
    wrong = f"{its.name} must be numbers such as 0,1,5 or 0:10 or 0:10:2, found {shown(part)!r}"
    try:
        first, *more = (number(word) for word in part.split(":"))
    except UsageError as error:
        raise UsageError(wrong) from error
    last, step, *rest = *more, *(first, 1.0)[len(more) :]
    if rest or step <= 0 or last < first:
        raise UsageError(wrong)
    steps = (last - first) / step + 1e-9
    if steps >= POINTS_MAX:
        raise _too_many(steps + 1)
    return [round(first + at * step, 9) for at in range(math.floor(steps) + 1)]


def _too_many(count: float) -> UsageError:
    return UsageError(
        f"a sweep must have at most {POINTS_MAX} cells, found {count:.12g}",
        hint="give fewer values, or a larger step: FROM:TO:STEP",
    )


def cells(given: Mapping[str, Sequence[str | float]], folder: Path) -> list[Cell]:
    """Cross the values of all axes that are given.

    Raises UsageError if a combination is impossible, or they are too many.
    """
    names = design.load_names(design.ROOT)
    block = {name: list(each) for name, each in given.items()}
    with input_errors():
        conditions = [
            asked.condition(point, names) for point in block_points({"defaults": {}}, block)
        ]
    return [Cell(each, folder / "cells" / each.slug()) for each in conditions]


def measure(todo: Sequence[Cell], replicates: int, cores: int, said: Sequence[str]) -> None:
    """Measure `replicates` runs of each cell, `cores` cells at a time, each by `losslab cell`.

    `said` are further options of `losslab cell`. Raises LosslabError if a cell left no result.
    """
    waiting, running, done = list(todo), dict[processes.Process, Cell](), 0
    with tempfile.TemporaryDirectory(prefix="losslab-sweep-") as logs:
        try:
            while waiting or running:
                interrupts.heed()
                while waiting and len(running) < cores:
                    cell = waiting.pop(0)
                    cell.folder.mkdir(parents=True, exist_ok=True)
                    command = [
                        sys.executable, "-m", "losslab.cli", "cell", "--study", "sweep",
                        "--block", "main", "--replicates", str(replicates),
                        "--condition", json.dumps(cell.condition.to_json()),
                        "--out", str(cell.file), *said,
                    ]  # fmt: skip
                    with Path(logs, cell.folder.name).open("wb") as console:
                        running[processes.spawn(command, console=console)] = cell
                for process in [one for one in running if one.poll() is not None]:
                    cell = running.pop(process)
                    if process.returncode != 0:
                        words = Path(logs, cell.folder.name).read_text(errors="replace").strip()
                        raise LosslabError(
                            f"each of the cells must leave a result, {cell.file} has none: "
                            + words.removeprefix("losslab: error: "),
                            hint=KEPT,
                        )
                    done += 1
                    _say(done, len(todo))
                time.sleep(POLL_S)
        finally:
            for process in running:
                processes.end_session(process, processes.PATIENCE_S)


def _say(done: int, total: int) -> None:
    """Keep one line up to date; where there is no terminal, say the end alone."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rlosslab: measured {done} of {total} cells", end=end, file=sys.stderr, flush=True)
    elif done == total:
        print(f"losslab: measured {total} cells", file=sys.stderr)


def study(given: Mapping[str, Sequence[str | float]], replicates: int) -> dict[str, Any]:
    """Write the sweep as a study's block, for those who go on from there."""
    block = {
        name: list(each) if len(each) > 1 else each[0]
        for name, each in given.items()
        if not AXES[name].of_campaign
    }
    lengths = {
        name: float(given[name][0] if name in given else AXES[name].default or 0)
        for name in ("duration_s", "warmup_s")
    }
    return {"blocks": {"main": block}, "runs": {"main": {"replicates": replicates} | lengths}}


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `sweep`."""
    parser = commands.add_parser("sweep", help="measure all combinations of some axes' values")
    for name, its in AXES.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, metavar="VALUES", required=its.default is None,
                            help=its.help.replace("%", "%%").replace("`", ""))  # fmt: skip
    parser.add_argument(
        "--replicates",
        type=whole_option("replicates", 1),
        default=5,
        help="runs of each cell (default 5)",
    )
    parser.add_argument("--metric", help="a key of the summary; default: the app's own")
    parser.add_argument(
        "--cores", type=whole_option("cores", 1), default=len(os.sched_getaffinity(0))
    )
    parser.add_argument("--out", type=Path, required=True, help="folder; what is there is kept")
    asked.backend_options(parser)
    parser.set_defaults(run=_sweep, interrupted=KEPT)


def _sweep(options: argparse.Namespace) -> int:
    given = {
        name: values(its, said)
        for name, its in AXES.items()
        if (said := getattr(options, name)) is not None
    }
    todo = cells(given, options.out)
    varied = [name for name, each in given.items() if len(each) > 1] or ["algorithm"]
    options.out.mkdir(parents=True, exist_ok=True)
    block = study(given, options.replicates)
    (options.out / "study.yaml").write_text(yaml.safe_dump(block, sort_keys=False))
    where = ["--backend", options.backend, "--where", options.where]
    measure(todo, options.replicates, options.cores, where)
    measured = [(each.condition, each.file) for each in todo]
    found = cellstable.rows(measured, varied, options.metric)
    files = cellstable.write(found, varied, options.out)
    print(cellstable.text(found, varied))
    print("\n" + "\n".join(map(str, files)))
    for row in found:
        if row["reasons"]:
            cell = ", ".join(f"{name} {cellstable.word(row[name])}" for name in varied)
            print(f"losslab: invalid: {cell}: {row['reasons']}", file=sys.stderr)
    without = [row for row in found if row["mean"] is None]
    if without:
        metrics = ", ".join(dict.fromkeys(row["metric"] for row in without))
        count = f"{len(without)} of {len(found)} cells"
        print(f"losslab: no valid run with a value of {metrics} in {count}", file=sys.stderr)
    return 1 if without else 0
