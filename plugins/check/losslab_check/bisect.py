"""`losslab bisect`: find the first commit, patch or release that changes a run.

The cells of a suite are run once at both ends. The first cell that differs decides all steps: one
run of it, with one seed, tells on which side of the change a step lies.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from losslab import cellspec, processes
from losslab.campaign.rerun import load_manifest
from losslab.errors import LosslabError
from losslab.instrument import changes, kernels
from losslab.instrument.changes import Change
from losslab.instrument.kerneltree import SourceError
from losslab.reading import UsageError, number, out_folder, whole_option
from losslab.study import metrics
from losslab.study.condition import seed_of
from losslab_check import behaviour
from losslab_check import cells as changecells
from losslab_check.cells import Cell, Side
from losslab_check.check import parted

GOOD, BAD = "before", "after"


@dataclass(frozen=True)
class Step:
    """A state of the kernel: its name, and how to write its replaced files to a new folder."""

    name: str
    title: str
    write: Callable[[Path], Change | None]
    kernel: str | None = None  # a release, instead of replaced files


@dataclass(frozen=True)
class Criterion:
    """Bytes or a bound of a metric, which separate both sides of the change."""

    metric: str | None = None
    at_least: float | None = None
    at_most: float | None = None

    def result(self, folder: Path) -> str | bool | None:
        """Return the state of a run, which is the same on one side of the change."""
        manifest = load_manifest(folder)
        if self.metric is None:
            return behaviour.digest(manifest)
        value = metrics.value(manifest["summary"], self.metric) if manifest["valid"] else None
        if value is None:
            return False
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)


@dataclass
class Search:
    """A search over steps: their folders of files, kernels' digests and finished runs."""

    steps: Sequence[Step]
    cells: Mapping[str, Cell]
    seeds: Mapping[str, int]
    out: Path
    cores: int

    def run(self, at: int, names: Sequence[str]) -> dict[str, Path]:
        """Run cells at a step; return the runs' folders.

        A step whose kernel has the same binary as an earlier one has its runs. Raises LosslabError
        if the step does not compile, or a run fails.
        """
        step, side = self.steps[at], self._side(at)
        its = {name: self._cell(step, name) for name in names}
        digests = changecells.kernel_digests(its, side)
        folders = {
            name: self.out / "runs" / f"{digests[name] or step.name}"[:16] / name for name in names
        }
        todo = {
            folder: (its[name].condition, self.seeds[name])
            for name, folder in folders.items()
            if not folder.is_dir()
        }
        if todo:
            changecells.capture(todo, side, self.cores, f"runs at {step.name}")
        return folders

    def _side(self, at: int) -> Side:
        step = self.steps[at]
        files = self.out / "files" / f"{at:04}"
        if step.kernel is None and not files.is_dir():
            partial = files.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.parent.mkdir(parents=True, exist_ok=True)
            step.write(partial)
            partial.rename(files)
        return Side(None if step.kernel else files)

    def _cell(self, step: Step, name: str) -> Cell:
        cell = self.cells[name]
        if step.kernel is None:
            return cell
        return replace(cell, condition=replace(cell.condition, kernel=step.kernel))


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bisect`."""
    command = commands.add_parser("bisect")
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--git", type=Path, metavar="REPOSITORY", help="commits with files of the kernel's source"
    )
    what.add_argument("--patches", type=Path, metavar="FOLDER", help="a series of patches")
    what.add_argument("--releases", metavar="A,B,...", help="kernels of config/kernels.toml")
    command.add_argument("--good", metavar="COMMIT", help="with --git: a commit before the change")
    command.add_argument("--bad", metavar="COMMIT", default="HEAD", help="and one after it")
    changecells.add_options(command)
    command.add_argument(
        "--replicate", type=whole_option("replicate", 0), default=0, metavar="N",
        help="number of the replicate, which decides the seed (default 0)",
    )  # fmt: skip
    command.add_argument(
        "--metric", help="search for the step that moves this metric beyond a bound, not for bytes"
    )
    for side in ("least", "most"):
        command.add_argument(
            f"--at-{side}", type=number, metavar="X",
            help=f"a run before the change has at {side} this value",
        )  # fmt: skip
    command.add_argument(
        "--out", type=out_folder, required=True, help="new folder for files and runs"
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_bisect, interrupted="remove --out if it exists")


def _bisect(options: argparse.Namespace) -> int:
    test = _test(options)
    steps = list(_steps(options))
    if len(steps) < 2:
        raise UsageError(f"there must be two steps or more, found {len(steps)}")
    cellspec.refuse_existing(options.out)
    cells = changecells.plan(options)
    seeds = {name: seed_of(cell.condition, options.replicate) for name, cell in cells.items()}
    search = Search(steps, cells, seeds, options.out.resolve(), options.cores)
    name, expected = _deciding_cell(search, test)
    low, high, skipped = _halve(search, test, name, expected)
    runs = [search.run(at, [name])[name] for at in (low, high)]
    lines = parted(*runs)
    found = {
        "step": steps[high].name,
        "title": steps[high].title,
        "before": steps[low].name,
        "not_compiled": skipped,
        "cell": name,
        "seed": seeds[name],
        "runs": [str(folder) for folder in runs],
        "first_difference": lines,
    }
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    print(f"{found['step']}: {found['title']}")
    if skipped:
        print(f"or one of these, which do not compile: {', '.join(skipped)}")
    print(f"cell {name}, seed {seeds[name]}; A: {found['before']}, B: {found['step']}")
    print("\n".join(lines))
    print(f"\nruns: {runs[0]} {runs[1]}")
    return 0


def _test(options: argparse.Namespace) -> Criterion:
    bounded = options.at_least is not None or options.at_most is not None
    if bounded != (options.metric is not None):
        raise UsageError("--metric needs --at-least or --at-most, and these need --metric")
    if options.metric is not None:
        metrics.require_declared(options.metric, [])
    return Criterion(options.metric, options.at_least, options.at_most)


def _steps(options: argparse.Namespace) -> Iterator[Step]:
    """Yield the steps in order, the good one first."""
    spec = kernels.get(options.kernel).base
    if options.releases:
        for name in options.releases.split(","):
            yield Step(name, kernels.get(name).label, lambda _: None, name)
    elif options.patches:
        yield Step("no patch", "", functools.partial(changes.of_files, [], spec))
        names = changes.series(options.patches)
        for count, patch in enumerate(names, 1):
            given = [str(each) for each in names[:count]]
            write = functools.partial(changes.of_files, given, spec)
            yield Step(patch.name, f"patch {count} of {len(names)}", write)
    else:
        if options.good is None:
            raise UsageError("--git needs --good, a commit before the change")
        git = ["git", "-C", options.git, "log", "--first-parent", "--format=%H %s"]
        first = processes.run([*git, "--max-count=1", options.good, "--"])
        later = processes.run([*git, "--reverse", f"{options.good}..{options.bad}", "--"])
        for line in [*first.splitlines(), *later.splitlines()]:
            commit, _, title = line.partition(" ")
            write = functools.partial(changes.of_commit, options.git, commit, spec)
            yield Step(commit, title, write)


def _deciding_cell(search: Search, test: Criterion) -> tuple[str, str | bool | None]:
    """Return the first cell that differs between both ends, and its state before the change."""
    names = list(search.cells)
    ends = [search.run(at, names) for at in (0, len(search.steps) - 1)]
    for name in names:
        good, bad = (test.result(folders[name]) for folders in ends)
        if good != bad and (test.metric is None or good):
            return name, good
    what = "have other bytes" if test.metric is None else f"move {test.metric} beyond the bound"
    raise LosslabError(
        f"a cell must {what} between {search.steps[0].name} and {search.steps[-1].name}, found "
        f"none of {', '.join(names)}",
        hint="other cells: --algorithm, --suite; other seeds: --replicate",
    )


def _halve(
    search: Search, test: Criterion, cell: str, expected: str | bool | None
) -> tuple[int, int, list[str]]:
    """Return the last step before the change, the first after it, and skipped steps between."""
    left = list(range(len(search.steps)))
    skipped: list[int] = []
    while len(left) > 2:
        middle = left[len(left) // 2]
        step = search.steps[middle]
        try:
            same = test.result(search.run(middle, [cell])[cell]) == expected
        except SourceError:
            skipped.append(middle)
            left.remove(middle)
            print(f"{step.name}: skipped, it does not compile", file=sys.stderr)
            continue
        print(f"{step.name}: {GOOD if same else BAD}", file=sys.stderr, flush=True)
        left = left[len(left) // 2 :] if same else left[: len(left) // 2 + 1]
    low, high = left
    return low, high, [search.steps[at].name for at in skipped if low < at < high]
