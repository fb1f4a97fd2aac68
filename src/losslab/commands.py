"""The commands: where each is, what it does, and examples; a test parses each example.

A command's module is imported when the command is called. Its `add_commands` adds the parsers.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

WORKFLOW = "the workflow"  # commands of its rules, which the overview does not list


class Command(NamedTuple):
    """A command: its module below `losslab`, its help and examples."""

    module: str
    help: str
    examples: tuple[str, ...]


def _command(module: str, text: str, *examples: str) -> Command:
    return Command(module, text, examples)


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
            "doctor",
            "fetch or build the default kernel and image, and test them",
            "losslab setup",
        ),
        "instrument": _command(
            "instrument.recipes",
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
            "shell",
            "open a shell inside the emulated path",
            "losslab shell --path asymmetric --rtt-ms 20",
            "losslab shell -c 'sender ping -c 3 10.0.3.2'",
        ),
    },
    "inspect runs and campaigns": {
        "plot": _command(
            "ui.commands",
            "plot runs in the terminal or to a file",
            "losslab plot my-run other-run",
            "losslab plot my-run --out run.svg",
        ),
        "export": _command(
            "campaign.export",
            "write a run as qlog or pcap",
            "losslab export my-run --qlog --out my-run.qlog",
            "losslab export my-run --pcap r1-r2 --out bottleneck.pcap",
        ),
        "status": _command(
            "ui.commands",
            "show a campaign's progress from another terminal",
            "losslab status",
            "losslab status /data/campaign",
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
            "losslab claims loss",
            "losslab claims --check quick",
            "losslab claims --record quick",
        ),
        "axes": _command(
            "study.axisdocs",
            "list the axes of a study's design",
            "losslab axes",
            "losslab axes --write",
        ),
        "metrics": _command(
            "study.axisdocs",
            "list the metrics of results",
            "losslab metrics",
            "losslab metrics --json",
        ),
        "columns": _command(
            "study.axisdocs",
            "explain the columns of CSV files",
            "losslab columns",
            "losslab columns my-run/queue.csv --json",
        ),
    },
    "ask what would have happened": {
        "whatif": _command(
            "whatif",
            "run other futures of a replicate from a time on",
            "losslab whatif my-run --at 3.2 --list",
            "losslab whatif my-run --at 3.2 --spare 1461 --set loss_percent=0 --algorithm bbr",
            "losslab whatif my-run --at 3.2 --drop 1500 --seeds 64 --figure futures.svg",
        ),
        "why": _command(
            "why",
            "find the dropped packets that caused a stall",
            "losslab why my-run --stall --out cause",
            "losslab why my-run --below 2.5 --out cause",
            "losslab why my-run --metric fct_p99_s --out cause",
            "losslab why my-run --timeout --at 2.5 --out cause",
        ),
    },
    "judge an algorithm or a change": {
        "score": _command(
            "score",
            "judge algorithms by the criteria of RFC 9743",
            "losslab score cubic bbr --quick --out scores",
            "losslab score mine --out scores --against recorded/scorecard.json",
        ),
        "check": _command(
            "check",
            "report what a change does to a suite's cells",
            "losslab check tcp_cubic.c --out check",
            "losslab check series/ --only loss --only deep/bbr --fail-on worse --out check",
            "losslab check net/ipv4/tcp_input.c=new.c --base net/ipv4/tcp_input.c=old.c "
            "--out check",
        ),
        "bisect": _command(
            "bisection",
            "find the first commit that changes a run",
            "losslab bisect --git ~/linux --good v1 --bad v2 --out bisect",
            "losslab bisect --patches series --metric goodput_mbit --at-least 9 --out bisect",
            "losslab bisect --releases 6.1,6.12,7.2 --only loss --out bisect",
        ),
    },
    "reproduce and verify": {
        "verify": _command(
            "artifact.commands",
            "recompute results, from raw files to the report, and compare",
            "losslab verify results",
            "losslab verify /data/results --json",
        ),
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
            "losslab diff my-run other-run --packets",
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
        "artifact": _command(
            "artifact.commands",
            "pack a campaign as an archive, or verify one",
            "losslab artifact pack --campaign config/quick.yaml",
            "losslab artifact pack --raw-limit-mb 0 --no-instrument --out small.tar.gz",
            "losslab artifact pack --wheels",
            "losslab artifact verify",
            "losslab artifact verify losslab-artifact --sample 60 --seed 8023415",
            "losslab artifact verify losslab-artifact --sample all",
        ),
    },
    "add your own": {
        "init": _command(
            "init",
            "make a folder with a campaign of your own",
            "losslab init my-campaign",
        ),
        "new": _command(
            "new",
            "make a skeleton of your own algorithm, study, app, path mechanism or scheme",
            "losslab new algorithm mine --label Mine",
            'losslab new study mine --title "My question"',
            "losslab new app bursts",
            "losslab new mechanism fading",
            "losslab new scheme gentle",
        ),
        "kernel": _command(
            "instrument.recipes",
            "build the pinned kernel and print its folder",
            "losslab kernel",
            "losslab kernel --name 6.1",
            "losslab kernel --algorithm mine",
        ),
        "image": _command(
            "instrument.recipes",
            "build an image and print its folder",
            "losslab image",
            "losslab image --variant engine",
        ),
    },
    "shell completion": {
        "completion": _command(
            "cli",
            "print a shell's completion script",
            'eval "$(losslab completion bash)"',
        ),
    },
    WORKFLOW: {
        "smoke-test": _command(
            "steps",
            "measure one short cell",
            "losslab smoke-test --record results/instrument/smoke-test-virtual-guest.json",
        ),
        "cell": _command(
            "steps",
            "run a cell's replicates",
            "losslab cell loss/cubic_loss1_symmetric_iperf3",
        ),
        "collect": _command(
            "steps",
            "gather a study's cells into tables",
            "losslab collect loss",
        ),
        "explorer": _command(
            "ui.commands",
            "make the run explorer",
            "losslab explorer results/summary/loss_cells.csv --out results/report/explorer.html",
        ),
    },
}
COMMANDS = {name: each for group in GROUPS.values() for name, each in group.items()}


class Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The parsers of commands, with the table's help."""

    def add_parser(self, name: str, **more: Any) -> Any:
        """Add the parser of a command."""
        return super().add_parser(name, **{"help": COMMANDS[name].help, **more})

    def add(self, called: str | None = None) -> None:
        """Add all commands, or the called one with the others of its module.

        If there is none of that name, add the names of all.
        """
        if called is not None and called not in COMMANDS:
            for name in COMMANDS:
                self.add_parser(name)
            return
        wanted = COMMANDS.values() if called is None else [COMMANDS[called]]
        for module in dict.fromkeys(each.module for each in wanted):
            importlib.import_module(f"losslab.{module}").add_commands(self)


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
    group = COMMANDS[name.split()[0]].examples
    return [line for line in group if f"losslab {name} " in f"{line} "]


def with_examples(parser: argparse.ArgumentParser) -> None:
    """Add examples to every command's help."""
    for name, summary, each in leaves(parser):
        each.description = each.description or summary[:1].upper() + summary[1:] + "."
        each.formatter_class = argparse.RawDescriptionHelpFormatter
        each.epilog = "\n".join(["examples:", *(f"  {line}" for line in examples(name))])


def overview() -> str:
    """List the commands by purpose, without those of the workflow."""
    width = max(map(len, COMMANDS))
    lines = ["losslab measures how network paths affect TCP congestion control.", ""]
    for title, group in GROUPS.items():
        if title != WORKFLOW:
            lines += [f"{title}:", *(f"  {n:<{width}}  {c.help}" for n, c in group.items()), ""]
    lines += ["Begin with:", f"  {COMMANDS['measure'].examples[0]}", ""]
    return "\n".join([*lines, "Options and examples: `losslab COMMAND --help`."])
