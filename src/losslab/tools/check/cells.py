"""Cells that show what a change does, and their measurement before and after it."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from losslab import cellspec, sweeps
from losslab.campaign import inputs
from losslab.campaign.cellrun import measure_cell
from losslab.campaign.instrument import at_first_use, instrument
from losslab.campaign.packets import SENDERS_LINK
from losslab.campaign.results import CELL_FILE
from losslab.instrument import kernels, kernelsource
from losslab.instrument.kernelsource import Change
from losslab.reading import UsageError
from losslab.repository import ROOT
from losslab.study import design, studyfiles
from losslab.study.axes import NONE
from losslab.study.condition import DEFAULT_KERNEL, Condition
from losslab.study.intervals import StoppingRule

SUITE = "ci"
Chosen = TypeVar("Chosen")
# Axes of scenarios that the app `command` does not have.
TCP_ONLY = ("flows", "competitor")


@dataclass(frozen=True)
class Cell:
    """A cell of a suite, and its number of runs."""

    condition: Condition
    replicates: int


@dataclass(frozen=True)
class Side:
    """One side of a comparison: replaced files of the kernel, and the user's files."""

    files: Path | None  # folder, as in `kernels.REPLACED_FILES`
    bring: str = NONE

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Use its kernel in the block, in this process and the programs that it starts."""
        with kernels.replacing(self.files):
            yield

    def of(self, condition: Condition) -> Condition:
        """Return a condition with its user files."""
        return condition if self.bring == NONE else replace(condition, bring=self.bring)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose cells."""
    parser.add_argument("--suite", default=SUITE, help="suite of suites/ (default ci)")
    parser.add_argument(
        "--algorithm", action="append", default=[], metavar="NAME",
        help="also run the scenarios with this algorithm; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--only", action="append", default=[], metavar="SCENARIO[/ALGORITHM]",
        help="use only these cells; may be repeated",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help="use more and longer runs")
    parser.add_argument(
        "--kernel", default=DEFAULT_KERNEL, help="kernel of config/kernels.toml to change"
    )
    parser.add_argument(
        "--sender-command", default=NONE, help="measure this program at the sender instead of TCP"
    )
    parser.add_argument("--receiver-command", default=NONE, help="and this one at the receiver")
    parser.add_argument("--bring", type=Path, metavar="FOLDER", help="files of the changed program")
    cellspec.cores_option(parser, "runs")


def plan(options: argparse.Namespace, tests: Collection[str] = ()) -> dict[str, Cell]:
    """Return the cells of a suite by SCENARIO/ALGORITHM; `tests` are other names for --only.

    Raises UsageError if an algorithm, a cell or a program is unknown or impossible.
    """
    selected = studyfiles.load_suite(options.suite, ROOT)
    if "compared" not in selected:
        if not tests:
            raise UsageError(
                "the suite must name metrics to compare (`compared`) or tests (`commands`), found "
                f"neither in {options.suite}"
            )
        require_known(options.only, tests)
        return {}
    cellspec.require_algorithms(options.algorithm)
    algorithms = list(dict.fromkeys([*options.algorithm, *selected["baselines"]]))
    blocks = studyfiles.blocks(selected, algorithms)
    runs = studyfiles.runs(selected, studyfiles.FULL if options.full else studyfiles.QUICK)
    axes: dict[str, Any] = {}
    if options.kernel != DEFAULT_KERNEL:
        axes["kernel"] = options.kernel
    if (options.sender_command, options.receiver_command) != (NONE, NONE):
        axes |= {
            "app": "command",
            "sender_command": options.sender_command,
            "receiver_command": options.receiver_command,
        }
        # The algorithm of TCP does not matter to a program over UDP.
        blocks = {
            name: [point for point in points if not {*TCP_ONLY} & point.keys()][:1]
            for name, points in blocks.items()
        }
    study = {
        "study": options.suite,
        "defaults": selected["defaults"],
        "blocks": {name: [point | axes for point in points] for name, points in blocks.items()},
    }
    runs = {name: run for name, run in runs.items() if blocks[name]}
    cells = _by_name(design.study_cells(study, runs, design.load_names(ROOT)))
    inputs.require(cell.condition for cell in cells.values())
    require_known(options.only, [*cells, *tests])
    return chosen(options.only, cells)


def _by_name(planned: Iterable[design.Cell]) -> dict[str, Cell]:
    """Name cells SCENARIO/ALGORITHM; a second cell of a name has -2 at its end."""
    cells: dict[str, Cell] = {}
    for cell in planned:
        name = f"{cell.block}/{cell.condition.algorithm}"
        namesakes = sum(1 for other in cells if other == name or other.startswith(f"{name}-"))
        if namesakes:
            name += f"-{namesakes + 1}"
        cells[name] = Cell(cell.condition, cell.stopping.minimum)
    return cells


def require_known(names: Sequence[str], known: Collection[str]) -> None:
    """Raise UsageError for a name of --only that is neither of `known` nor a scenario of one."""
    for name in names:
        if not any(name in (cell, cell.split("/")[0]) for cell in known):
            raise UsageError(f"--only must name one of {', '.join(known)}, found {name}")


def chosen(names: Sequence[str], cells: Mapping[str, Chosen]) -> dict[str, Chosen]:
    """Return the cells with a name or a scenario of `names`; all if there are none."""
    return {
        name: cell
        for name, cell in cells.items()
        if not names or {name, name.split("/")[0]} & {*names}
    }


def build(
    cells: Mapping[str, Cell], side: Side, change: Change
) -> tuple[dict[str, str | None], list[str]]:
    """Build a side's kernels; return each cell's digest, and the changed files that none compiles.

    Raises LosslabError if a changed file does not compile, or a kernel is not built.
    """
    with side.active():
        tools = {}
        for name, cell in cells.items():
            condition = side.of(cell.condition)
            at_first_use(condition)
            tools[name] = instrument(condition=condition)
    unused = kernelsource.require_compiled(change, [tool.kernel for tool in tools.values()])
    return {name: tool.kernel_sha256 for name, tool in tools.items()}, unused


def measure(cells: Mapping[str, Cell], side: Side, out: Path, cores: int) -> None:
    """Measure all runs of cells on a side into folders of `out`; finished runs are kept."""

    def cell(name: str) -> None:
        condition, count = side.of(cells[name].condition), cells[name].replicates
        block, file = name.split("/")[0], out / name / CELL_FILE
        rule, tools = StoppingRule(count, count), instrument(condition=condition)
        measure_cell("check", block, condition, file, rule, tools, say=lambda _: None)

    with side.active():
        sweeps.measure_all([functools.partial(cell, name) for name in cells], cores, "cells")


def capture(runs: Mapping[Path, tuple[Condition, int]], side: Side, cores: int, title: str) -> None:
    """Measure single runs, condition and seed by folder, with the packets of the sender's link."""
    with side.active():
        of_side = {folder: (side.of(condition), seed) for folder, (condition, seed) in runs.items()}
        sweeps.measure_runs(of_side, cores, title, lambda _: [SENDERS_LINK], attempts=1)
