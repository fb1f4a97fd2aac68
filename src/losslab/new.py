"""`losslab new`: skeletons of what users add."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from losslab.instrument import kernels
from losslab.reading import UsageError
from losslab.study import design
from losslab.study.names import load_algorithms

TEMPLATE = "template"
# TCP_CA_NAME_MAX of the kernel is 16, with the zero at the end.
NAME = r"[a-z][a-z0-9_]{0,14}"
# What the eye tells apart: Okabe and Ito's colours (2008) without black, and filled shapes of
# ggplot2 before open ones.
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
SHAPES = ("15", "16", "17", "18", "3", "4", "8", "0", "1", "2", "5", "6")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `new`."""
    command = commands.add_parser("new", help="make the skeleton of something of your own")
    kinds = command.add_subparsers(required=True, metavar="WHAT")
    made = kinds.add_parser("algorithm", help="a congestion control, compiled into the kernel")
    made.add_argument("name", help="as the kernel is to know it: small letters, digits and _")
    made.add_argument("--label", help="how figures and tables call it (default: its name)")
    made.set_defaults(run=_algorithm)


def _algorithm(options: argparse.Namespace) -> int:
    name = options.name
    path = new_algorithm(name, options.label or name, design.ROOT)
    print(
        f"{path}: Reno, to be changed\n"
        f"config/algorithms.tsv: its row\n"
        f"Then: losslab measure --algorithm {name} --loss-percent 1 --out my-run\n"
        f"      losslab kernel --algorithm {name}    # compiles it; needed once by itself, where "
        "the kernel's objects are not kept yet"
    )
    return 0


def new_algorithm(name: str, label: str, root: Path) -> Path:
    """Write an algorithm's file and its row; return the file, relative to the repository.

    Args:
        name: The kernel's name of it, which must be free.
        label: The name in figures and tables.
        root: The repository.
    """
    if not re.fullmatch(NAME, name):
        raise UsageError(f"an algorithm's name must match {NAME}, found {name!r}")
    table = root / "config" / "algorithms.tsv"
    rows = load_algorithms(table)
    path = kernels.source_of(name).relative_to(design.ROOT)
    if name in {row["name"] for row in rows} or (root / path).parent.exists():
        raise UsageError(
            f"an algorithm's name must be new, found {name} in config/algorithms.tsv or algorithms/"
        )
    template = root / kernels.source_of(TEMPLATE).relative_to(design.ROOT)
    text = re.sub(rf"(?<![a-z]){TEMPLATE}", name, template.read_text())
    (root / path).parent.mkdir()
    (root / path).write_text(text)
    colour = min(COLOURS, key=[row["colour"] for row in rows].count)  # the least used
    shape = min(SHAPES, key=[row["shape"] for row in rows].count)
    with table.open("a") as file:
        file.write("\t".join([name, label, colour, shape, "default"]) + "\n")
    return path
