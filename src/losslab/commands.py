"""The commands of those who measure, beside the steps of the workflow, which are in `steps`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from losslab import asked, demo, new, score, steps, sweep
from losslab.artifact import commands as artifact
from losslab.campaign import diff, export, inputs, origin, rerun, staleness, verdicts
from losslab.campaign.replicate import run
from losslab.errors import LosslabError
from losslab.instrument import recipes
from losslab.reading import UsageError, number_option, read_config
from losslab.screen import commands as screen
from losslab.screen import difftable
from losslab.study import design, listed
from losslab.study.axes import NONE
from losslab.study.condition import AXES, Condition


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add all commands but `completion`."""
    measure = commands.add_parser("measure", help="run one ad-hoc replicate")
    listed.add_options(measure)
    measure.add_argument("--seed", type=asked.SEED, default=1, help="decides every random draw")
    measure.add_argument("--out", type=Path, required=True, help="folder to make")
    asked.backend_options(measure)
    measure.add_argument(
        "--timeout-s",
        type=number_option("timeout-s", above=0),
        help="wall-clock limit of the guest",
    )
    measure.add_argument(
        "--capture", action="append", default=[], metavar="LINK",
        help="leave what crosses an interface, such as r1-r2, in capture-LINK.pcap; repeat",
    )  # fmt: skip
    measure.set_defaults(run=_measure, interrupted="the run was not finished and leaves nothing")

    cells = commands.add_parser("cells", help="list the cells of a configuration")
    cells.add_argument("study", nargs="?")
    cells.add_argument("--config", type=Path, default=design.ROOT / "config" / "config.yaml")
    cells.add_argument("--json", action="store_true", help="for a machine: with their conditions")
    cells.add_argument(
        "--why", action="store_true", help="list those that will be measured, and why"
    )
    cells.add_argument(
        "--results", type=Path, default=Path("results"), help="folder that --why looks at"
    )
    cells.set_defaults(run=_cells)

    again = commands.add_parser("rerun", help="repeat a replicate and compare the bytes")
    again.add_argument("manifest", type=Path, help="manifest.json, or the folder that holds it")
    again.add_argument("--out", type=Path, help="keep the second run in this new folder")
    again.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    again.add_argument("--json", action="store_true", help="for a machine")
    again.set_defaults(run=_rerun)

    compared = commands.add_parser("diff", help="compare two result sets cell by cell")
    compared.add_argument("first", type=Path, help="a results folder")
    compared.add_argument("second", type=Path, help="another")
    compared.add_argument("--metric", help="a key of the summary; default: the app's own")
    compared.add_argument(
        "--common", action="store_true", help="compare only cells and files that both have"
    )
    compared.add_argument("--json", action="store_true", help="for a machine")
    compared.set_defaults(run=_diff)

    sweep.add_command(commands)
    steps.add_commands(commands)
    _tool_commands(commands)


def _tool_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add what prepares, and what looks around."""
    doctor = commands.add_parser("doctor", help="say what this machine has and what is missing")
    doctor.add_argument(
        "--self-test", action="store_true", help="only boot a guest and measure one short cell"
    )
    doctor.add_argument(
        "--whole", action="store_true", help="also compare every file of kernels and images"
    )
    doctor.add_argument("--json", action="store_true", help="for a machine")
    doctor.set_defaults(run=_doctor)

    shell = commands.add_parser("shell", help="a shell inside the emulated path")
    listed.add_options(shell, algorithm="cubic")
    shell.add_argument("--seed", type=asked.SEED, default=1)
    shell.add_argument(
        "-c", "--command",
        help="run this in virtual time instead, and end; without it what is on standard input, "
        "where that is no terminal",
    )  # fmt: skip
    shell.set_defaults(run=_shell)

    verdicts.add_command(commands)
    origin.add_command(commands)
    export.add_command(commands)
    listed.add_command(commands, design.ROOT)
    recipes.add_commands(commands)
    screen.add_commands(commands)
    demo.add_command(commands)
    new.add_commands(commands)
    score.add_commands(commands)
    artifact.add_commands(commands)


def _condition(options: argparse.Namespace) -> Condition:
    """Make the condition of the axes' options."""
    if options.bring != NONE:
        options.bring = inputs.named(Path(options.bring))
    return asked.condition({name: getattr(options, name) for name in AXES})


def _refuse_existing(out: Path) -> None:
    if out.exists():
        raise UsageError(
            f"--out must name a folder that does not exist yet, found {out}",
            hint="remove it or choose another; nothing measured is overwritten",
        )


def _measure(options: argparse.Namespace) -> int:
    condition = _condition(options)
    _refuse_existing(options.out)
    tools = asked.instrument(options, condition)
    manifest = run(
        condition,
        options.seed,
        options.out,
        tools,
        asked.video(condition, tools, options.timeout_s),
        timeout_s=options.timeout_s,
        attempts=1,
        captures=asked.links(options.capture, condition),
    )
    for reason in manifest["reasons"]:
        print(f"losslab: invalid: {reason}", file=sys.stderr)
    print(json.dumps(manifest["summary"], indent=1, sort_keys=True))
    return 0 if manifest["valid"] else 1


def _cells(options: argparse.Namespace) -> int:
    studies = design.load_studies(read_config(options.config), design.ROOT)
    names = [study.name for study in studies]
    if options.study not in (None, *names):
        raise UsageError(
            f"the study must be one that {options.config} measures ({', '.join(names)}), found "
            f"{options.study}",
            hint="name another campaign with --config, such as config/quick.yaml",
        )
    cells = [c for study in studies for c in study.cells if options.study in (None, c.study)]
    if options.json:
        rows = [
            {"study": c.study, "cell": c.name, "block": c.block, "condition": c.condition.to_json(),
             "replicates": c.stopping.least, "max_replicates": c.stopping.most}
            for c in cells
        ]  # fmt: skip
        print(json.dumps(rows, indent=1))
        return 0
    if options.why:
        todo = staleness.lines(cells, options.results)
        print("\n".join([*todo, f"{len(todo)} of {len(cells)} cells will be measured"]))
        return 0
    for cell in cells:
        print(cell.study, cell.name, cell.stopping, sep="\t")
    return 0


def _rerun(options: argparse.Namespace) -> int:
    manifest = rerun.load_manifest(options.manifest)
    rerun.require_result(manifest, "the run to repeat")
    original = options.manifest if options.manifest.is_dir() else options.manifest.parent
    if options.out is not None:
        _refuse_existing(options.out)
    what = rerun.ready(manifest, options.trust)
    with rerun.again(manifest, what, options.out) as (out, again):
        rerun.require_result(again, "the second run")
        agreement = rerun.compare(original, out)
    changes = rerun.changes(manifest, again)
    if options.json:
        print(json.dumps(asdict(agreement) | {"instrument": changes}, indent=1))
        return 0 if agreement.whole else 1
    for difference in changes:
        print(f"another instrument: {difference}")
    for file, difference in agreement.different.items():
        print(f"differs: {file}: {difference}")
    count = len(agreement.same)
    print(f"same bytes in {count} of {count + len(agreement.different)} files")
    return 0 if agreement.whole else 1


def _diff(options: argparse.Namespace) -> int:
    if options.first.resolve() == options.second.resolve():
        raise UsageError(
            f"diff must compare two folders, found {options.first} twice",
            hint="every folder agrees with itself",
        )
    try:
        found = diff.compare_sets(options.first, options.second, options.metric, options.common)
    except LosslabError as error:  # of what was named; nothing was compared
        raise UsageError(error.message, error.hint) from error
    print(diff.as_json(found) if options.json else difftable.text(found))
    return 0 if found.agree else 1


def _doctor(options: argparse.Namespace) -> int:
    from losslab import doctor
    from losslab.campaign.cellrun import self_test
    from losslab.campaign.instrument import instrument

    if options.self_test:
        print(self_test(instrument()))
        return 0
    sections = doctor.examine(options.whole)
    if options.json:
        print(json.dumps([asdict(each) | {"usable": each.usable} for each in sections], indent=1))
    else:
        print("\n\n".join(section.text() for section in sections))
    required = [sections[0], *(sections[-1:] if options.whole else [])]
    return 0 if all(section.usable for section in required) else 1


def _shell(options: argparse.Namespace) -> int:
    from losslab import shell
    from losslab.campaign.instrument import instrument

    condition = _condition(options)
    command = shell.asked(options.command)
    tools = instrument(condition=condition)
    if command is None:
        return shell.interact(condition, options.seed, tools)
    status, words = shell.execute(command, condition, options.seed, tools)
    print(words, end="")
    return status
