"""Commands of runs and cells: `measure`, `shell`, `cells`, `rerun` and `diff`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import termios
from dataclasses import asdict
from pathlib import Path

from losslab import cellspec
from losslab.backends import runner, virtual
from losslab.backends.base import Instrument, Job
from losslab.campaign import compare, inputs, packets, plan, records, rerun
from losslab.campaign.instrument import at_first_use, instrument, video
from losslab.campaign.replicate import run
from losslab.campaign.results import MANIFEST_FILE, RESULTS
from losslab.errors import LosslabError, did_you_mean
from losslab.lock import own_folder
from losslab.reading import UsageError, input_errors, out_folder, read_config
from losslab.repository import ROOT, find
from losslab.study import design, dictionary, units
from losslab.study.condition import AXES, Condition
from losslab.study.names import unusual_parameters
from losslab.ui import plot, runsummary, tables

# Limits of wall time of a command in the shell and of a session at a terminal.
COMMAND_TIMEOUT_S = 600.0
SESSION_TIMEOUT_S = 86_400.0


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `measure`, `shell`, `cells`, `rerun` and `diff`."""
    usage = "%(prog)s --algorithm NAME --out FOLDER [OPTION ...]"
    measure = commands.add_parser("measure", usage=usage)
    groups = dictionary.add_options(measure)
    run_options = groups["run"].add_argument
    run_options("--seed", type=cellspec.SEED, default=1, help="seed of all random draws")
    measure.add_argument("--out", type=out_folder, required=True, help="new folder of the results")
    cellspec.backend_options(groups["instrument"])
    limit = units.number_option("timeout-s", above=0)
    run_options("--timeout-s", type=limit, help="wall-clock limit of the guest")
    run_options(
        "--capture", action="append", default=[], metavar="LINK",
        help="capture an interface's packets, such as r1-r2, in capture-LINK.pcap, or the state of "
        "the congestion control (`state`); may be repeated",
    )  # fmt: skip
    measure.add_argument("--json", action="store_true", help="print the metrics as JSON")
    measure.set_defaults(run=_measure, interrupted="the unfinished run was removed")

    shell = commands.add_parser("shell")
    dictionary.add_options(shell, algorithm="cubic")
    shell.add_argument("--seed", type=cellspec.SEED, default=1)
    shell.add_argument(
        "-c", "--command",
        help="run this command in virtual time and exit; by default commands are read from "
        "standard input if it is not a terminal",
    )  # fmt: skip
    shell.set_defaults(run=_shell)

    cells = commands.add_parser("cells")
    cells.add_argument("study", nargs="?")
    cells.add_argument("--config", type=Path, default=find("config/config.yaml"))
    cells.add_argument("--json", action="store_true", help="print JSON, with the conditions")
    cells.add_argument("--why", action="store_true", help="list the cells to measure, and why")
    cells.add_argument("--results", type=Path, default=RESULTS, help="results folder for --why")
    cells.set_defaults(run=_cells)

    repeat = commands.add_parser("rerun")
    repeat.add_argument("manifest", type=Path, help="manifest.json, or the folder that holds it")
    repeat.add_argument("--out", type=out_folder, help="keep the second run in this new folder")
    repeat.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    repeat.add_argument("--json", action="store_true", help="print JSON")
    repeat.set_defaults(run=_rerun)

    compared = commands.add_parser("diff")
    compared.add_argument("first", type=Path, help="results folder")
    compared.add_argument("second", type=Path, help="results folder or record to compare with")
    compared.add_argument("--metric", help="metric to compare; default: the app's main metric")
    common = "compare only cells and files that both have"
    compared.add_argument("--common", action="store_true", help=common)
    compared.add_argument("--json", action="store_true", help="print JSON")
    compared.set_defaults(run=_diff)


def condition_of(options: argparse.Namespace) -> Condition:
    """Make the condition from the axes' options."""
    for name in inputs.OF_FILES:
        setattr(options, name, inputs.value(name, getattr(options, name)))
    own_kernel = "where" in options and cellspec.on_own_kernel(options.backend, options.where)
    axes = {name: getattr(options, name) for name in AXES}
    condition = cellspec.condition(axes, own_kernel=own_kernel)
    inputs.require([condition])
    given = {name: [getattr(options, name)] for name in AXES}
    for note in (
        *units.notes(given, [condition.to_json()]), *unusual_parameters(condition),
        *inputs.notes(condition),
    ):  # fmt: skip
        print(f"losslab: {note}", file=sys.stderr)
    return condition


def _measure(options: argparse.Namespace) -> int:
    condition = condition_of(options)
    captures = packets.links(options.capture, condition, options.where)
    with cellspec.claimed(options.out):
        at_first_use(condition, options.backend, options.where)
        tools = instrument(options.backend, options.where, condition)
        movie = video(condition, tools, options.timeout_s)
        manifest = run(
            condition, options.seed, options.out, tools, movie, options.timeout_s, attempts=1,
            captures=captures,
        )  # fmt: skip
    for reason in manifest["reasons"]:
        print(f"losslab: invalid: {reason}", file=sys.stderr)
    if options.json:
        print(json.dumps(manifest["summary"], indent=1, sort_keys=True))
    else:
        plot.say(runsummary.text(manifest, options.out))
    return 0 if manifest["valid"] else 1


def execute(
    command: str | None, condition: Condition, seed: int, tools: Instrument
) -> tuple[int, str]:
    """Run a shell command in a guest in virtual time; return its status and output.

    None connects the user's terminal to a shell in a guest that runs in real time.
    """
    task = {"kind": "shell", "condition": condition.to_json(), "seed": seed, "command": command}
    limit_s = SESSION_TIMEOUT_S if command is None else COMMAND_TIMEOUT_S
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(own_folder(Path(tempfile.gettempdir()), "losslab-shell-"))
        if sys.stdin is not None and sys.stdin.isatty():
            # The guest's console sets the terminal to raw mode.
            attributes = termios.tcgetattr(sys.stdin)
            stack.callback(termios.tcsetattr, sys.stdin, termios.TCSADRAIN, attributes)
        job = Job(task, folder, seed, limit_s, interactive=command is None)
        status = int(runner.run(virtual.Guest(), tools, job).result["status"])
        return status, "" if command is None else (folder / "output.txt").read_text()


def _shell(options: argparse.Namespace) -> int:
    condition, command = condition_of(options), options.command
    if command is None and sys.stdin is None:
        raise LosslabError(
            "losslab shell needs a terminal, a command or standard input, found none",
            hint="pass a command: `losslab shell -c 'sender ping -c 3 10.0.3.2'`",
        )
    if command is None and not sys.stdin.isatty():
        # Read all of it: a console hangs up at the end of the input, before it was processed.
        command = sys.stdin.read()
    at_first_use(condition)
    status, output = execute(command, condition, options.seed, instrument(condition=condition))
    print(output, end="")
    return status


def _cells(options: argparse.Namespace) -> int:
    studies = design.load_studies(plan.with_hosts(read_config(options.config)), ROOT)
    names = [study.name for study in studies]
    if options.study not in (None, *names):
        raise UsageError(
            f"the study must be one that {options.config} measures ({', '.join(names)}), found "
            f"{options.study}{did_you_mean(options.study, names)}",
            hint="name the file of another campaign with --config",
        )
    cells = [c for study in studies for c in study.cells if options.study in (None, c.study)]
    if options.json:
        rows = [
            {
                "study": cell.study,
                "cell": cell.name,
                "block": cell.block,
                "condition": cell.condition.to_json(),
                "replicates": cell.stopping.minimum,
                "max_replicates": cell.stopping.maximum,
            }
            for cell in cells
        ]
        print(json.dumps(rows, indent=1))
    elif options.why:
        todo = plan.to_measure(cells, options.results)
        print("\n".join([*todo, f"{len(todo)} of {len(cells)} cells will be measured"]))
    else:
        for cell in cells:
            print(cell.study, cell.name, cell.stopping, sep="\t")
    return 0


def _rerun(options: argparse.Namespace) -> int:
    if options.manifest.is_file() and options.manifest.name != MANIFEST_FILE:
        raise UsageError(  # else all files beside it would be compared
            f"{options.manifest} must be a run's folder or its {MANIFEST_FILE}, found another file",
            hint="copy the run's folder as a whole, and name it",
        )
    manifest = rerun.load_manifest(options.manifest)
    rerun.require_result(manifest, "the run to repeat")
    original = options.manifest if options.manifest.is_dir() else options.manifest.parent
    if options.out is not None:
        cellspec.refuse_existing(options.out)
    ready = rerun.ready(manifest, options.trust)
    with rerun.again(manifest, ready, options.out) as (out, second):
        rerun.require_result(second, "the second run")
        agreement = rerun.compare(original, out)
    changes = rerun.changes(manifest, second)
    same, different = agreement.same, agreement.different
    if options.json:
        print(json.dumps(asdict(agreement) | {"instrument": changes}, indent=1))
    else:
        lines = [f"another instrument: {difference}" for difference in changes]
        lines += [f"differs: {file}: {difference}" for file, difference in different.items()]
        lines.append(f"same bytes in {len(same)} of {len(same) + len(different)} files")
        print("\n".join(lines))
    return 0 if agreement.whole else 1


def _diff(options: argparse.Namespace) -> int:
    if options.first.resolve() == options.second.resolve():
        raise UsageError(
            f"diff must compare two folders, found {options.first} twice",
            hint="every folder agrees with itself",
        )
    with_record = options.second.suffix == records.RECORD_SUFFIX
    if with_record and options.metric:
        raise UsageError("--metric must compare two folders, found a record of the main metric")
    sides = options.first, options.second
    with input_errors():  # nothing was compared
        if with_record:
            comparison = records.compare(*sides, options.common)
        else:
            comparison = compare.compare_sets(*sides, options.metric, options.common)
    print(compare.as_json(comparison) if options.json else tables.diff_text(comparison))
    return 0 if comparison.agree else 1
