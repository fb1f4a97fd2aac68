"""`losslab explain`: which unstated setting makes a measured number the published one."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab import cellspec, sweeps
from losslab.campaign.cellrun import finished
from losslab.campaign.instrument import instrument
from losslab.campaign.results import MANIFEST_FILE, read_manifest, write_json
from losslab.reading import UsageError, out_folder
from losslab.study import units
from losslab.study.axes import short
from losslab.tools.explain import page, verdict
from losslab.tools.explain.candidates import built_in
from losslab.tools.explain.case import read
from losslab.tools.explain.search import Result, Run, Search

DEFAULT_BUDGET_S = 300.0
# In a study, a flow that its buffers limit is a mistake. Here, it may be just what was published
# (emulation/checks.py).
LIMITED = "send and receive buffers must not limit a flow"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `explain`."""
    parser = commands.add_parser("explain")
    parser.add_argument(
        "case", type=Path, nargs="?", metavar="FILE", help="the report: a YAML file"
    )
    parser.add_argument(
        "--list", action="store_true", help="list the built-in settings and measure nothing"
    )
    parser.add_argument(
        "--budget", type=units.number_option("budget_s", above=0), default=DEFAULT_BUDGET_S,
        metavar="TIME", help="estimated time on one idle core, for all runs (default 5min)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=cellspec.SEED, default=1, help="first seed, for a search with other seeds"
    )
    cellspec.cores_option(parser, "runs")
    parser.add_argument(
        "--estimate", action="store_true", help="print what would be measured, and measure nothing"
    )
    parser.add_argument(
        "--out", type=out_folder, help="folder, unless --estimate or --list; finished runs are kept"
    )
    parser.set_defaults(run=_explain, interrupted=sweeps.KEPT)


def _explain(options: argparse.Namespace) -> int:
    if options.list:
        for each in built_in():
            changes = ", ".join(f"{axis}: {short(value)}" for axis, value in each.changes.items())
            print(f"{each.label}: {changes or f'published rates are x{each.rate_factor:.4g}'}")
        return 0
    if options.case is None:
        raise UsageError(
            "explain must have a FILE with the report, found none",
            hint="docs/how-to/explain.md has an example; `losslab explain --list` lists settings",
        )
    case = read(options.case)
    out = options.out or Path()
    search = Search(case, Runs(out / "runs", options.cores), options.budget, options.seed)
    need_s = search.first_s()
    print(
        f"losslab: {len(case.settings)} settings at {len(search.numbers)} numbers, "
        f"{len(search.held_out)} held out: about {need_s / 60:.1f} core-minutes for single "
        f"settings, then pairs, up to {options.budget / 60:.1f} (idle cores, without finished "
        "runs)",
        file=sys.stderr, flush=True,
    )  # fmt: skip
    if need_s > options.budget:
        raise UsageError(
            f"--budget must be enough for the single settings, about {need_s:.0f}s, found "
            f"{options.budget:g}s",
            hint="give more, or fewer settings by `only` and `without`, or a shorter duration_s",
        )
    if options.estimate:
        return 0
    if options.out is None:
        raise UsageError("--out must name a folder for the result, found no such option")
    out.mkdir(parents=True, exist_ok=True)
    search.run()
    result = verdict.result(search)
    write_json(result, out / "explain.json")
    (out / "explain.html").write_bytes(page.html(result).encode())
    print(page.text(result))
    print(f"\n{out / 'explain.html'}\n{out / 'explain.json'}")
    return 0


@dataclass(frozen=True)
class Runs:
    """Runs in a folder: measured if they are not there, and read."""

    folder: Path
    cores: int

    def __call__(self, runs: Sequence[Run]) -> Mapping[Run, Result]:
        """Measure the runs that are not finished; return the results of all."""
        tools = functools.cache(lambda condition: instrument(condition=condition))
        todo = {
            self.place(run): run
            for run in runs
            if finished(self.place(run), *run, tools(run[0])) is None
        }
        sweeps.measure_runs(todo, self.cores, "runs")
        return {run: result(self.place(run)) for run in runs}

    def place(self, run: Run) -> Path:
        """Return the folder of a run."""
        condition, seed = run
        return self.folder / condition.full_name() / str(seed)


def result(folder: Path) -> Result:
    """Read a run's result; a run that only a buffer makes invalid counts."""
    manifest = read_manifest(folder / MANIFEST_FILE)
    violations = tuple(manifest["reasons"])
    limited = bool(violations) and all(line.startswith(LIMITED) for line in violations)
    return Result(manifest["summary"], () if limited else violations, limited)
