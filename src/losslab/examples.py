"""Examples of each command, for `--help` and the reference; a test parses each."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

OF_WORKFLOW = "(used by the workflow)"
# Commands by purpose; any other command is listed under `more`.
GROUPS = {
    "check this machine": ("doctor", "setup", "pins", "instrument fetch", "instrument pack"),
    "measure": ("demo", "measure", "sweep", "shell"),
    "inspect runs and campaigns": (
        "plot",
        "export",
        "status",
        "cells",
        "claims",
        "axes",
        "metrics",
        "columns",
    ),
    "ask what would have happened": ("whatif", "why"),
    "judge an algorithm or a change": ("score", "check", "bisect"),
    "reproduce and verify": (
        "verify",
        "rerun",
        "diff",
        "record",
        "origin",
        "artifact verify",
        "artifact pack",
    ),
    "add your own": (
        "init",
        "new algorithm",
        "new study",
        "new app",
        "new mechanism",
        "new scheme",
        "kernel",
        "image",
    ),
    "shell completion": ("completion",),
}
_RESULTS = "results/summary/loss_cells.csv"
EXAMPLES: dict[str, tuple[str, ...]] = {
    "measure": (
        "losslab measure --algorithm bbr --loss-percent 1 --rate-mbit 20 --out my-run",
        "losslab measure --algorithm cubic --path asymmetric --rtt-ms 40 --seed 7 --out other-run",
    ),
    "sweep": (
        "losslab sweep --algorithm cubic,bbr --loss-percent 0:10 --out my-sweep",
        "losslab sweep --algorithm reno --rtt-ms 10,20,40 --rate-mbit 20 --replicates 3 --out rtts",
    ),
    "cells": ("losslab cells loss", "losslab cells --config config/quick.yaml --why"),
    "columns": ("losslab columns my-run/tcp.csv", "losslab columns my-run/queue.csv --json"),
    "metrics": ("losslab metrics", "losslab metrics --json"),
    "score": (
        "losslab score cubic bbr --quick --out scores",
        "losslab score mine --out scores --against recorded/scorecard.json",
    ),
    "export": (
        "losslab export my-run --qlog --out my-run.qlog",
        "losslab export my-run --pcap r1-r2 --out bottleneck.pcap",
    ),
    "whatif": (
        "losslab whatif my-run --at 3.2 --list",
        "losslab whatif my-run --at 3.2 --spare 1461 --set loss_percent=0 --algorithm bbr",
        "losslab whatif my-run --at 3.2 --drop 1500 --seeds 64 --figure futures.svg",
    ),
    "why": (
        "losslab why my-run --stall --out cause",
        "losslab why my-run --below 2.5 --out cause",
        "losslab why my-run --metric fct_p99_s --out cause",
        "losslab why my-run --timeout --at 2.5 --out cause",
    ),
    "check": (
        "losslab check tcp_cubic.c --out check",
        "losslab check series/ --only loss --only deep/bbr --fail-on worse --out check",
        "losslab check net/ipv4/tcp_input.c=new.c --base net/ipv4/tcp_input.c=old.c --out check",
    ),
    "bisect": (
        "losslab bisect --git ~/linux --good v1 --bad v2 --out bisect",
        "losslab bisect --patches series --metric goodput_mbit --at-least 9 --out bisect",
        "losslab bisect --releases 6.1,6.12,7.2 --only loss --out bisect",
    ),
    "rerun": ("losslab rerun my-run", "losslab rerun results/cells/loss/CELL/0 --out again"),
    "diff": (
        "losslab diff results other-results",
        "losslab diff A B --metric retransmits --common",
        "losslab diff results docs/results/quick.tsv --common",
        "losslab diff my-run other-run --packets",
    ),
    "record": ("losslab record results record.tsv",),
    "smoke-test": ("losslab smoke-test --record results/instrument/smoke-test-virtual-guest.json",),
    "cell": (
        "losslab cell --study loss --block main --condition '{...}' --replicates 10 "
        "--out CELL/cell.json",
    ),
    "collect": (
        "losslab collect results/cells/loss/*/cell.json --overview o.csv --replicates r.csv "
        "--intervals i.csv --flows f.csv --queue q.csv",
    ),
    "doctor": ("losslab doctor", "losslab doctor --where host", "losslab doctor --self-test"),
    "shell": (
        "losslab shell --path asymmetric --rtt-ms 20",
        "losslab shell -c 'sender ping -c 3 10.0.3.2'",
    ),
    "claims": (
        "losslab claims loss",
        "losslab claims --history loss/cubic-1",
        "losslab claims --freeze --why 'the source states this range'",
        "losslab claims --check report/verdicts/quick.tsv",
        "losslab claims --record report/verdicts/quick.tsv --why 'the warm-up is longer'",
    ),
    "origin": (f"losslab origin {_RESULTS} --out results/tables/origin.csv",),
    "axes": ("losslab axes", "losslab axes --write"),
    "kernel": (
        "losslab kernel",
        "losslab kernel --name 6.1",
        "losslab kernel --algorithm mine",
    ),
    "image": ("losslab image", "losslab image --variant engine"),
    "instrument pack": (
        "losslab instrument pack --out instruments",
        "losslab instrument pack kernel-6.1 image-engine",
    ),
    "instrument fetch": ("LOSSLAB_INSTRUMENTS=/media/usb/instruments losslab instrument fetch",),
    "pins": ("losslab pins", "losslab pins --check"),
    "plot": ("losslab plot my-run other-run", "losslab plot my-run --out run.svg"),
    "status": ("losslab status", "losslab status /data/campaign"),
    "explorer": (f"losslab explorer {_RESULTS} --out results/report/explorer.html",),
    "demo": ("losslab demo", "losslab demo --out /tmp/demo"),
    "setup": ("losslab setup",),
    "init": ("losslab init my-campaign",),
    "new algorithm": ("losslab new algorithm mine --label Mine",),
    "new app": ("losslab new app bursts",),
    "new mechanism": ("losslab new mechanism fading",),
    "new scheme": ("losslab new scheme gentle",),
    "new study": ('losslab new study mine --title "My question"',),
    "artifact pack": (
        "losslab artifact pack --campaign config/quick.yaml",
        "losslab artifact pack --raw-limit-mb 0 --no-instrument --out small.tar.gz",
        "losslab artifact pack --wheels",
        "losslab artifact pack --sign ~/.ssh/id_ed25519",
    ),
    "artifact verify": (
        "losslab artifact verify",
        "losslab artifact verify losslab-artifact --sample 60 --seed 8023415",
        "losslab artifact verify losslab-artifact --sample all --signer allowed_signers",
    ),
    "verify": ("losslab verify results", "losslab verify /data/results --json"),
    "completion": ('eval "$(losslab completion bash)"',),
}


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


def with_examples(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add examples to every command's help."""
    for name, summary, each in leaves(parser):
        lines = EXAMPLES.get(name, ())
        each.description = each.description or summary[:1].upper() + summary[1:] + "."
        each.formatter_class = argparse.RawDescriptionHelpFormatter
        each.epilog = "\n".join(["examples:", *(f"  {line}" for line in lines)]) if lines else None
    return parser


def overview(parser: argparse.ArgumentParser) -> str:
    """List the commands by purpose."""
    summaries = {name: summary for name, summary, _ in leaves(parser)}
    width = max(map(len, summaries))
    named = {name for names in GROUPS.values() for name in names}
    more = [n for n, said in summaries.items() if n not in named and OF_WORKFLOW not in said]
    lines = ["losslab measures how network paths affect TCP congestion control.", ""]
    for title, names in {**GROUPS, "more": more}.items():
        there = [f"  {name:<{width}}  {summaries[name]}" for name in names if name in summaries]
        lines += [f"{title}:", *there, ""] if there else []
    first = EXAMPLES["measure"][0]
    lines += ["Begin with:", f"  {first}", "", "Options and examples: `losslab COMMAND --help`."]
    return "\n".join(lines)
