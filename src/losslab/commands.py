"""The commands: where each is, what it does, and examples; a test parses each example.

A command's module is imported when the command is called. Its `add_commands` adds the parsers.
Installed packages add commands by entry points in the group `losslab.commands`: each has a
command's name, and names a `Command`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.repository import package_with

GROUP = "losslab.commands"
WORKFLOW = "the workflow"  # commands of its rules, which the overview does not list


class Command(NamedTuple):
    """A command: its module, its help and examples, and the overview's heading."""

    module: str
    help: str
    examples: tuple[str, ...]
    heading: str = "other packages"


def _command(module: str, text: str, *examples: str) -> Command:
    return Command(f"losslab.{module}", text, examples)


# By purpose.
GROUPS: dict[str, dict[str, Command]] = {
    "check this machine": {
        "doctor": _command(
            "doctor",
            "check this machine and list what is missing",
            "losslab doctor",
            "losslab doctor --where host",
            "losslab doctor --self-test",
        ),
        "setup": _command(
            "doctor", "fetch or build the default kernel and image, and test them", "losslab setup"
        ),
        "instrument": _command(
            "instrument.records",
            "pack or fetch kernels and images as archives",
            "losslab instrument pack --out instruments",
            "losslab instrument pack kernel-6.1 image-engine",
            "LOSSLAB_INSTRUMENTS=/media/usb/instruments losslab instrument fetch",
        ),
    },
    "measure": {
        "demo": _command(
            "demo",
            "show how loss affects CUBIC and BBR, in a minute",
            "losslab demo",
            "losslab demo --out /tmp/demo",
        ),
        "measure": _command(
            "runs",
            "run one ad-hoc replicate",
            "losslab measure --algorithm bbr --loss-percent 1 --rate-mbit 20 --out my-run",
            "losslab measure --algorithm cubic --path asymmetric --rtt-ms 40 --seed 7 "
            "--out other-run",
        ),
        "sweep": _command(
            "sweeps",
            "measure all combinations of values of some axes",
            "losslab sweep --algorithm cubic,bbr --loss-percent 0:10 --out my-sweep",
            "losslab sweep --algorithm reno --rtt-ms 10,20,40 --rate-mbit 20 "
            "--replicates 3 --out rtts",
        ),
        "shell": _command(
            "runs",
            "open a shell inside the emulated path",
            "losslab shell --path asymmetric --rtt-ms 20",
            "losslab shell -c 'sender ping -c 3 10.0.3.2'",
        ),
        "path": _command(
            "pathcommand",
            "convert lines of tc or Mininet to a condition, and a condition to lines of tc",
            "losslab path from-tc path.sh",
            "losslab path from-tc topology.py --json",
            "losslab path to-tc my-run",
            "losslab path to-tc --rate-mbit 20 --rtt-ms 40 --buffer-packets 70",
        ),
    },
    "inspect runs and campaigns": {
        "plot": _command(
            "ui.plot",
            "plot runs in the terminal or to a file",
            "losslab plot my-run other-run",
            "losslab plot my-run --out run.svg",
            "losslab plot my-run --state",
        ),
        "cells": _command(
            "runs",
            "list the cells of a configuration",
            "losslab cells loss",
            "losslab cells --config config/quick.yaml --why",
        ),
        "claims": _command(
            "campaign.verdicts",
            "print the claims and their verdicts",
            "losslab claims loss map/paper-shallow",
            "losslab claims --check quick",
            "losslab claims --record quick",
        ),
        "axes": _command(
            "study.dictionary",
            "list the axes of a study's design",
            "losslab axes",
            "losslab axes --write",
        ),
        "metrics": _command(
            "study.dictionary",
            "list the metrics of results",
            "losslab metrics",
            "losslab metrics --json",
        ),
        "columns": _command(
            "study.dictionary",
            "explain the columns of CSV files",
            "losslab columns",
            "losslab columns my-run/queue.csv --json",
        ),
    },
    # Commands of packages.
    "ask what would have happened": {},
    "judge an algorithm or a change": {},
    "reproduce and verify": {
        "rerun": _command(
            "runs",
            "repeat a replicate and compare the bytes",
            "losslab rerun my-run",
            "losslab rerun results/cells/loss/CELL/0 --out again",
        ),
        "diff": _command(
            "runs",
            "compare two result sets cell by cell",
            "losslab diff results other-results",
            "losslab diff A B --metric retransmits --common",
            "losslab diff results docs/results/quick.tsv --common",
        ),
        "record": _command(
            "campaign.records",
            "record the digest and the primary metric of each measured cell",
            "losslab record results record.tsv",
        ),
        "origin": _command(
            "campaign.records",
            "write a table of the instrument, machines and dates of cells",
            "losslab origin results/summary/loss_cells.csv --out results/tables/origin.csv",
        ),
    },
    "add your own": {
        "init": _command(
            "new", "make a folder with a campaign of your own", "losslab init my-campaign"
        ),
        "new": _command(
            "new",
            "make a skeleton of your own algorithm, study, app, path mechanism or scheme",
            "losslab new algorithm mine --label Mine",
            "losslab new algorithm brutal --from tcp-brutal/",
            'losslab new study mine --title "My question"',
            "losslab new app bursts",
            "losslab new mechanism fading",
            "losslab new scheme gentle",
        ),
        "trace": _command(
            "traces",
            "convert another project's rate trace to a packet-delivery trace",
            "losslab trace import rates.csv --column throughput_mbps --interval-ms 1000",
            "losslab trace import report.log --out config/traces/tram.down",
        ),
        "kernel": _command(
            "kernelcommand",
            "build the pinned kernel and print its folder",
            "losslab kernel",
            "losslab kernel --name 6.1",
            "losslab kernel --algorithm mine",
        ),
        "source": _command(
            "kernelcommand",
            "print a file of a kernel's source, to change and check it",
            "losslab source tcp_cubic.c",
            "losslab source net/ipv4/tcp_bbr.c --kernel 6.12-bbr3",
        ),
        "image": _command(
            "instrument.records",
            "build an image and print its folder",
            "losslab image",
            "losslab image --variant engine",
        ),
    },
    "shell completion": {
        "completion": _command(
            "cli", "print a shell's completion script", 'eval "$(losslab completion bash)"'
        )
    },
    WORKFLOW: {
        "smoke-test": _command(
            "steps",
            "measure one short cell",
            "losslab smoke-test --record results/instrument/smoke-test-virtual-guest.json",
        ),
        "cell": _command(
            "steps", "run a cell's replicates", "losslab cell loss/cubic_loss1_symmetric_iperf3"
        ),
        "collect": _command("steps", "gather a study's cells into tables", "losslab collect loss"),
    },
}
COMMANDS = {name: each for group in GROUPS.values() for name, each in group.items()}


def find(name: str) -> Command | None:
    """Return a command of losslab or of an installed package; None if there is none."""
    if name in COMMANDS:
        return COMMANDS[name]
    found = metadata.entry_points(group=GROUP, name=name)
    return _load(next(iter(found))) if found else None


def installed() -> dict[str, Command]:
    """Return all commands by name, those of installed packages last."""
    added = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    if taken := sorted(added.keys() & COMMANDS.keys()):
        raise LosslabError(
            f"a package's command must have a new name, found {added[taken[0]].value} as {taken[0]}"
        )
    return COMMANDS | {name: _load(added[name]) for name in sorted(added)}


def sources(name: str) -> list[str]:
    """List the files of the package that adds a command; none if it is not installed."""
    command = None if name in COMMANDS else find(name)
    spec = importlib.util.find_spec(command.module.partition(".")[0]) if command else None
    found = Path(spec.origin).parent.rglob("*.*") if spec and spec.origin else []
    return sorted(str(path) for path in found if path.suffix != ".pyc")


def _load(entry: metadata.EntryPoint) -> Command:
    try:
        found: Command = entry.load()
    except Exception as error:
        raise LosslabError(
            f"{entry.value} must be importable for the command {entry.name}, found "
            f"{type(error).__name__}: {error}",
            hint=f"install or remove the package {entry.dist.name if entry.dist else ''}",
        ) from error
    return found


def _refuse_absent(name: str) -> None:
    """Refuse a command of one of this repository's packages that is not installed."""
    if found := package_with(GROUP, name):
        raise UsageError(
            f"`losslab {name}` needs the package {found[0]}, found it not installed", hint=found[1]
        )


class Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The parsers of commands, with the table's help."""

    def add_parser(self, name: str, **more: Any) -> Any:
        """Add the parser of a command."""
        command = find(name)
        return super().add_parser(name, **{"help": command.help if command else "", **more})

    def add(self, called: str | None = None) -> None:
        """Add all commands, or the called one with the others of its module.

        If there is none of that name, add the names of all.
        """
        command = None if called is None else find(called)
        if called is not None and command is None:
            _refuse_absent(called)
            for name in installed():
                self.add_parser(name)
            return
        wanted = [command] if command else installed().values()
        for module in dict.fromkeys(each.module for each in wanted):
            importlib.import_module(module).add_commands(self)


def leaves(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = (), summary: str = ""
) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield name, summary and parser of each command without subcommands."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield " ".join(words), summary, parser
    for action in below:
        summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, each in action.choices.items():
            yield from leaves(each, (*words, name), summaries.get(name, ""))


def examples(name: str) -> list[str]:
    """Return the examples of a command, such as `new study`."""
    command = find(name.split()[0])
    lines = command.examples if command else ()
    return [line for line in lines if f"losslab {name} " in f"{line} "]


def with_examples(parser: argparse.ArgumentParser) -> None:
    """Add examples to every command's help."""
    for name, summary, each in leaves(parser):
        each.description = each.description or summary[:1].upper() + summary[1:] + "."
        each.formatter_class = argparse.RawDescriptionHelpFormatter
        each.epilog = "\n".join(["examples:", *(f"  {line}" for line in examples(name))])


def overview() -> str:
    """List the commands by purpose, without those of the workflow."""
    known = installed()
    groups = {heading: {**group} for heading, group in GROUPS.items() if heading != WORKFLOW}
    for name in [each for each in known if each not in COMMANDS]:
        groups.setdefault(known[name].heading, {})[name] = known[name]
    groups.pop(WORKFLOW, None)
    width = max(map(len, known))
    lines = ["losslab measures how network paths affect TCP congestion control.", ""]
    for heading, group in groups.items():
        if group:
            lines += [f"{heading}:", *(f"  {n:<{width}}  {c.help}" for n, c in group.items()), ""]
    lines += ["Begin with:", f"  {COMMANDS['measure'].examples[0]}", ""]
    return "\n".join([*lines, "Options and examples: `losslab COMMAND --help`."])
