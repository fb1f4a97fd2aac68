"""`losslab init`: a folder with a campaign that uses losslab's workflow as a Snakemake module."""

from __future__ import annotations

import argparse
from pathlib import Path

from losslab.reading import UsageError
from losslab.repository import BASE, MARK

SNAKEFILE = '''\
"""Measure the campaign of config/config.yaml with losslab's workflow."""

from losslab.repository import ROOT


configfile: "config/config.yaml"


module losslab:
    snakefile:
        str(ROOT / "workflow" / "Snakefile")
    config:
        config


use rule * from losslab as losslab_*


onstart:
    losslab.onstart()


onsuccess:
    losslab.onsuccess()


onerror:
    losslab.onerror()


# Rules of your own can read results/claims.csv, results/summary and results/figures.
rule all:
    default_target: True
    input:
        rules.losslab_all.input,
'''
CONFIG = """\
# The campaign: studies, and the number and length of the runs in each of their blocks.
# `losslab cells --config config/config.yaml` checks this file and lists its cells.
campaign: mine
studies:
  loss:
    main: { only: { app: iperf3 }, replicates: 5, duration_s: 4, warmup_s: 2 }
"""
README = """\
# A campaign of losslab

    snakemake --cores all --dry-run    # list the jobs
    snakemake --cores all              # measure; writes results/report/report.html and report.pdf
    losslab status                     # show the progress from another terminal

An interrupted campaign continues with the same command. Edit `config/config.yaml` to measure other
studies, and `workflow/Snakefile` to add rules of your own.

    losslab new algorithm NAME         # your own congestion control in C
    losslab new study NAME             # your own study: cells, figure, table, claim and chapter
    losslab new app NAME               # programs of your own; also: new mechanism, new scheme

In this folder, losslab also reads the algorithms and studies that these commands write, and your
own packet-delivery traces in `config/traces`. `profiles/default/profile.yaml` has
Snakemake's options.
"""
# Snakemake's options, losslab's display of the progress among them; copied from losslab's files.
PROFILE = "profiles/default/profile.yaml"
FILES = {
    "workflow/Snakefile": SNAKEFILE,
    "config/config.yaml": CONFIG,
    "README.md": README,
    ".gitignore": "results/\nruns/\nlogs/\n.snakemake/\n",
    MARK: "In this folder, losslab also reads the folder's own algorithms, studies and traces.\n",
}


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `init`."""
    command = commands.add_parser("init", help="make a folder with a campaign of your own")
    command.add_argument("folder", type=Path, help="new or empty folder")
    command.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> int:
    make(options.folder)
    print(
        f"Wrote {', '.join([*FILES, PROFILE])} to {options.folder}\n"
        f"Next: cd {options.folder} && snakemake --cores all --dry-run"
    )
    return 0


def make(folder: Path) -> None:
    """Write a campaign's files to a new or empty folder; UsageError for any other."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"the folder must be new or empty, found files in {folder}",
            hint="name another folder; losslab overwrites nothing",
        )
    profile = (BASE / PROFILE).read_text()
    for name, text in {**FILES, PROFILE: profile}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
