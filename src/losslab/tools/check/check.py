"""`losslab check`: report what a change of a kernel file or a program does to a suite's cells.

A cell whose kernel has the same binary before and after the change is not measured: it cannot
differ. Of the other cells, all runs are measured with the same seeds on both sides and compared.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tabulate import tabulate

from losslab import cellspec, processes, sweeps
from losslab.campaign import halves, inputs, limiters, results, verdicts
from losslab.campaign.results import CELL_FILE
from losslab.errors import LosslabError
from losslab.instrument import kernels, kernelsource
from losslab.reading import UsageError, out_file, out_folder
from losslab.repository import ROOT
from losslab.study import metrics, studyfiles
from losslab.study.axes import NONE
from losslab.study.schemas import check_schema
from losslab.tools.check import behaviour, divergence, suitetests
from losslab.tools.check import cells as changecells
from losslab.tools.check.behaviour import CellChange, Run
from losslab.tools.check.cells import Cell, Side

BASELINE, CHANGE, FIRST = "baseline", "change", "first-difference"
REPORT, DATA = "report.md", "check.json"
HEAD = (
    "cell", "metric", "before", "after", "change", "95 % CI", "n", "p (Holm)", "smallest effect", ""
)  # fmt: skip
# What fails: any changed byte, a significant difference, or one for the worse.
CHANGED, MOVED, WORSE = FAILS = ("changed", "moved", "worse")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `check`."""
    command = commands.add_parser("check")
    command.add_argument(
        "change", nargs="*",
        help="changed file of the kernel (tcp_cubic.c, PATH=FILE), patch, or folder of patches",
    )  # fmt: skip
    command.add_argument(
        "--base", action="append", default=[], metavar="CHANGE",
        help="compare with this version instead of the kernel's own; may be repeated",
    )  # fmt: skip
    changecells.add_options(command)
    command.add_argument(
        "--base-bring", type=Path, metavar="FOLDER", help="files of the program before the change"
    )
    command.add_argument(
        "--out", type=out_folder, required=True, help="folder; finished runs are kept"
    )
    command.add_argument(
        "--fail-on", choices=FAILS, default=CHANGED,
        help="exit with 1 if a cell changed (default), a metric moved, or a metric is worse",
    )  # fmt: skip
    command.add_argument(
        "--measure-all", action="store_true",
        help="also measure cells whose kernel has the same binary",
    )  # fmt: skip
    command.add_argument(
        "--annotations", action="store_true",
        help="also print what moved as annotations of GitHub Actions",
    )  # fmt: skip
    command.add_argument(
        "--trend", type=out_file, metavar="FILE",
        help="add the means of the measured cells, with the commit of the current folder, to a CSV",
    )  # fmt: skip
    command.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    command.set_defaults(run=_check, interrupted=sweeps.KEPT)


def _check(options: argparse.Namespace) -> int:
    out: Path = options.out.resolve()
    if (options.bring is None) != (options.base_bring is None):
        raise UsageError("--bring and --base-bring need each other")
    if not options.change and options.bring is None:
        raise UsageError("a check must have a changed file, a patch, or --bring, found none")
    commit = _commit() if options.trend else ("", "")
    if options.trend:
        behaviour.read_trend(options.trend)
    given_files = kernelsource.files_given([*options.base, *options.change])
    given_files += [each for each in (options.bring, options.base_bring) if each is not None]
    cellspec.refuse_inside(given_files, out)
    cellspec.refuse_not_own(out)
    spec = kernels.get(options.kernel).base
    suite = studyfiles.load_suite(options.suite, ROOT)
    tests = suitetests.plan(suite, options.kernel)
    cells = changecells.plan(options, [*tests])
    tests = changecells.chosen(options.only, tests)
    compared = suite.get("compared", [])
    cellspec.make_own(out, "losslab check")
    sides, side_changes = [], []
    for name, named_files, bring in (
        (BASELINE, options.base, options.base_bring),
        (CHANGE, options.change, options.bring),
    ):
        files = out / name / "files"
        shutil.rmtree(files, ignore_errors=True)
        side_changes.append(kernelsource.make_change(named_files, spec, files))
        sides.append(Side(files, NONE if bring is None else inputs.named(bring)))
    before, after = sides
    instruments = cells | {name: test.cell for name, test in tests.items()}
    (old, _), (new, unused) = (
        changecells.build(instruments, *each) for each in zip(sides, side_changes, strict=True)
    )
    may_differ = {
        name
        for name in instruments
        if options.measure_all or old[name] != new[name] or before.bring != after.bring
    }
    differ = {name: cell for name, cell in cells.items() if name in may_differ}
    for side, name in zip(sides, (BASELINE, CHANGE), strict=True):
        changecells.measure(differ, side, out / name, options.cores)
    then, now = (_runs(differ, out / name, compared) for name in (BASELINE, CHANGE))
    if options.trend:
        behaviour.trend(options.trend, *commit, now)
    changed = behaviour.compare(then, now, compared)
    run_tests = {name: test for name, test in tests.items() if name in may_differ}
    both = [(before, options.base_bring), (after, options.bring)]
    data = {
        "format": behaviour.FORMAT,
        "suite": options.suite,
        "change": [*options.change, *([after.bring] if options.bring else [])],
        "replaced": list(side_changes[1].paths),
        "skipped": [*side_changes[1].skipped, *unused],
        "cells": list(cells),
        "same_kernel": [name for name in instruments if name not in may_differ],
        "runs": sum(cell.replicates for cell in cells.values()),
        "changed": _with_first(changed, cells, then, sides, out, options.cores),
        "commands": suitetests.rows(run_tests, both, options.cores),
        "warnings": [line for name in (BASELINE, CHANGE) for line in _limits(differ, out / name)],
    }
    check_schema(data, "check", "the report")
    text = markdown(data)
    (out / DATA).write_text(json.dumps(data, indent=1) + "\n")
    (out / REPORT).write_text(text)
    print(json.dumps(data, indent=1) if options.json else text, end="\n" if options.json else "")
    if options.annotations:
        # GitHub reads both; with --json, the output is JSON alone.
        file = sys.stderr if options.json else sys.stdout
        print("\n".join(workflow_commands(data)), file=file)
    failed = [
        *failures(changed, options.fail_on),
        *suitetests.failures(data["commands"], bytes_too=options.fail_on == CHANGED),
    ]
    verdicts.require_as_recorded(
        failed, "cells or tests" if tests else "cells", out / BASELINE,
        f"see {out / REPORT}; --fail-on chooses what fails",
    )  # fmt: skip
    return 0


def _commit() -> tuple[str, str]:
    """Return the name and date of the commit for a trend; UsageError before anything runs.

    In a job of GitHub Actions, git may refuse the folder of another user, so the job's variable is
    first.
    """
    if commit := os.environ.get("GITHUB_SHA"):
        return commit, datetime.now(UTC).isoformat(timespec="seconds")
    head = processes.attempt(["git", "log", "-1", "--format=%H %cI"])
    if not head.good:
        raise UsageError(
            f"--trend needs a commit, found none in {Path.cwd()}",
            hint="start it in the folder of your repository",
        )
    commit, date = head.out.split()
    return commit, date


def _runs(cells: Iterable[str], out: Path, compared: Sequence[str]) -> dict[str, list[Run]]:
    """Read the runs of cells; a cell ends early with a replicate whose guest was lost."""
    return {
        name: [
            behaviour.read_run(each.folder, compared)
            for each in results.read_cell(out / name / CELL_FILE).replicates
        ]
        for name in cells
    }


def _limits(cells: Iterable[str], out: Path) -> list[str]:
    """Return what limited the flows of a side's cells if it was not the path."""
    measured = {name: results.read_cell(out / name / CELL_FILE) for name in cells}
    names = {cell.condition: name for name, cell in measured.items()}
    lines = [
        *halves.of_cells(measured.values(), names.__getitem__),
        *limiters.of_cells(measured.values(), names.__getitem__),
    ]
    return [f"{out.name}: {line}" for line in lines]


def _with_first(
    changed: Sequence[CellChange],
    cells: Mapping[str, Cell],
    then: Mapping[str, Sequence[Run]],
    sides: Sequence[Side],
    out: Path,
    cores: int,
) -> list[dict[str, Any]]:
    """Return changed cells as data, each with the first difference of its first changed run."""
    first = {
        change.cell: (cells[change.cell].condition, then[change.cell][change.changed[0]].seed)
        for change in changed
    }
    for side, name in zip(sides, (BASELINE, CHANGE), strict=True):
        runs = {out / FIRST / cell / name: run for cell, run in first.items()}
        changecells.capture(runs, side, cores, f"runs with their packets ({name})")
    rows = behaviour.as_json(changed)
    for row in rows:
        folder = out / FIRST / row["cell"]
        condition, row["seed"] = first[row["cell"]]
        row["first_difference"] = parted(folder / BASELINE, folder / CHANGE)
        command = cellspec.measure_command(sides[1].of(condition), row["seed"])
        files = sides[1].files
        if files and any(files.iterdir()):
            command = f"{kernels.REPLACED_FILES}={shlex.quote(str(files))} {command}"
        row["command"] = command
    return rows


def parted(first: Path, second: Path) -> list[str]:
    """Return the lines of the first packet and the first sample in which two runs differ."""
    try:
        return divergence.differences(first, second, trusted=True)
    except (LosslabError, OSError, KeyError) as error:
        return [f"not found: {error}"]


def failures(found: Sequence[CellChange], fail_on: str) -> list[str]:
    """List what fails, a line each."""
    lines = []
    for cell in found:
        if fail_on == CHANGED:
            lines.append(f"{cell.cell}: {len(cell.changed)} of {cell.runs} runs have other bytes")
        lines += [f"{cell.cell}: {reason}" for reason in cell.reasons]
        lines += [
            f"{cell.cell}: {each.metric} was {each.before:.4g}, is {each.after:.4g}"
            f" ({each.verdict})"
            for each in cell.differences
            if each.verdict == WORSE or (each.verdict and fail_on != WORSE)
        ]
    return lines


def markdown(data: Mapping[str, Any]) -> str:
    """Return the report of a comparison, data by workflow/schemas/check.schema.yaml."""
    return "\n\n".join(_paragraphs(data)) + "\n"


def _paragraphs(data: Mapping[str, Any]) -> Iterator[str]:
    changed, cells = data["changed"], data["cells"]
    moved = [(row["cell"], d) for row in changed for d in row["differences"] if d["verdict"]]
    tests = data.get("commands", ())
    if not cells:
        text = suitetests.headline(tests) if tests else "no test can have changed"
        yield f"**losslab check: {text}.**"
    elif changed:
        yield (
            f"**losslab check: {len(changed)} of {len(cells)} cells changed, "
            f"{len(moved)} metrics moved significantly.**"
        )
    else:
        yield f"**losslab check: no cell changed.** {len(cells)} cells, {data['runs']} runs."
    yield _what(data)
    yield from (f"- warning, {line}" for line in data.get("warnings", ()))
    if tests and cells:
        yield f"**{suitetests.headline(tests)}.**"
    yield from suitetests.markdown(tests)
    if not changed:
        return
    if moved:
        yield _table(moved)
    rest = [(row["cell"], d) for row in changed for d in row["differences"] if not d["verdict"]]
    if rest:
        which, shown = ("The other", "") if moved else ("All", " open")
        title = f"{which} metrics of the changed cells"
        yield f"<details{shown}><summary>{title}</summary>\n\n{_table(rest)}\n\n</details>"
    yield (
        "Runs are paired by seed. Each confidence interval is of its comparison alone; p-values "
        "are adjusted for all compared metrics (Holm). The smallest effect is the change that "
        f"these runs find with a probability of {100 * behaviour.POWER:.0f} %; a smaller one may "
        "have been missed."
    )
    for row in changed:
        for reason in row["reasons"]:
            yield f"- **{row['cell']}: invalid after the change**: {reason}"
    quiet = [row["cell"] for row in changed if not any(d["verdict"] for d in row["differences"])]
    if quiet:
        yield f"Other bytes, but no metric moved significantly: {', '.join(quiet)}."
    same = [cell for cell in cells if cell not in {row["cell"] for row in changed}]
    if same:
        yield f"Same bytes: {', '.join(same)}."
    yield from map(_first_difference, changed)


def _what(data: Mapping[str, Any]) -> str:
    """Return the change, what could not differ, and files on which nothing depends."""
    what = ", ".join(f"`{path}`" for path in data["replaced"] or data["change"]) or "nothing"
    change = f"Change: {what}."
    if names := data["same_kernel"]:
        tests = [name.startswith(f"{suitetests.GROUP}/") for name in names]
        kind = "tests" if all(tests) else "cells and tests" if any(tests) else "cells"
        change += f" {len(names)} {kind} were not measured: their kernel has the same binary."
    if data["skipped"]:
        paths = ", ".join(f"`{path}`" for path in data["skipped"])
        change += f"\nSkipped, as no result depends on them in this kernel: {paths}."
    return change


def _table(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    text = [_row(cell, each) for cell, each in rows]
    return str(tabulate(text, HEAD, tablefmt="github", disable_numparse=True))


def workflow_commands(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield what moved, and runs that became invalid, as commands of GitHub Actions."""
    [file, *_] = data["replaced"] or [""]
    place = f"file={file}," if file else ""
    for row in data["changed"]:
        title = f"{place}title=losslab {row['cell']}"
        for reason in row["reasons"]:
            yield f"::error {title}::{_escaped(f'invalid after the change: {reason}')}"
        for each in (each for each in row["differences"] if each["verdict"]):
            _, metric, before, after, change, interval, n, *_ = _row(row["cell"], each)
            level = "error" if each["verdict"] == WORSE else "notice"
            text = f"{metric} {change} {interval}, from {before} to {after}, n = {n}"
            yield f"::{level} {title}::{_escaped(text)}: {each['verdict']}"
    for row in data.get("commands", ()):
        if row["failed"] or row["changed"]:
            level = "error" if row["failed"] else "notice"
            text = _escaped(row["why"] or row["first_difference"][0])
            yield f"::{level} {place}title=losslab {row['name']}::{row['verdict']}: {text}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _row(cell: str, difference: Mapping[str, Any]) -> tuple[str, ...]:
    declared = metrics.declared()[difference["metric"]]
    interval, ratio = difference["ratio_interval"], difference["ratio"]
    smallest, p_value = difference["smallest"], difference["p_adjusted"]
    least = "" if smallest is None else f"{smallest:.2g}"
    if interval and ratio is not None and None not in interval:
        change = f"{100 * (ratio - 1):+.3g} %"
        ends = [f"{100 * (end - 1):+.3g}" for end in interval]
        span = f"[{', '.join(ends)}] %"
        least = "" if smallest is None else f"{100 * smallest:.2g} %"
    else:
        change = f"{difference['after'] - difference['before']:+.3g}"
        ends = [f"{end:+.3g}" for end in difference["difference_interval"] or ()]
        span = f"[{', '.join(ends)}]" if ends else ""
    return (
        cell, declared.title, f"{difference['before']:.4g}", f"{difference['after']:.4g}", change,
        span, str(difference["n"]), "" if p_value is None else f"{p_value:.2g}", least,
        f"**{difference['verdict']}**" if difference["verdict"] else "",
    )  # fmt: skip


def _first_difference(row: Mapping[str, Any]) -> str:
    """Return the first difference of a cell, folded, with the command that repeats it."""
    lines = "\n".join(row["first_difference"])
    return f"""\
<details><summary>{row["cell"]}: {len(row["changed"])} of {row["runs"]} runs changed, first \
difference</summary>

```
seed {row["seed"]}; A: before the change, B: after it
{lines}
```

Repeat it after the change:

```
{row["command"]}
```

</details>"""
