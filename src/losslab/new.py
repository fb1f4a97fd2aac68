"""`losslab new`: skeletons for a user's own algorithm."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from losslab.instrument import kernels
from losslab.reading import UsageError
from losslab.repository import INSTALLED, ROOT
from losslab.study import palette
from losslab.study.names import load_algorithms

TEMPLATE = "template"
# TCP_CA_NAME_MAX of the kernel is 16, with the zero at the end.
NAME = r"[a-z][a-z0-9_]{0,14}"
# Distinguishable shapes (ggplot2, filled first).
SHAPES = ("15", "16", "17", "18", "3", "4", "8", "0", "1", "2", "5", "6")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `new`."""
    command = commands.add_parser("new", help="make a skeleton of your own congestion control")
    kinds = command.add_subparsers(required=True, metavar="KIND")
    made = kinds.add_parser("algorithm", help="a congestion control, compiled into the kernel")
    made.add_argument("name", help="its name in the kernel: lower-case letters, digits and _")
    made.add_argument("--label", help="its name in figures and tables (default: NAME)")
    made.set_defaults(run=_algorithm)


def _algorithm(options: argparse.Namespace) -> int:
    if INSTALLED:
        raise UsageError(
            f"an algorithm's file and row must be in a clone of losslab, found {ROOT}, an "
            "installed package, whose files the next upgrade replaces",
            hint="clone losslab's repository, and install it with `make setup`",
        )
    name = options.name
    path = new_algorithm(name, options.label or name, ROOT)
    print(
        f"Wrote {path}, a copy of Reno to edit\n"
        f"Added a row to config/algorithms.tsv\n"
        f"Next: losslab measure --algorithm {name} --loss-percent 1 --out my-run\n"
        f"      losslab kernel --algorithm {name}    # compiles the kernel; needed once if this "
        "machine has not compiled one yet"
    )
    return 0


def new_algorithm(name: str, label: str, root: Path) -> Path:
    """Write an algorithm's file and its row; return the file, relative to the repository.

    Args:
        name: Its name in the kernel, not in use yet.
        label: Its name in figures and tables.
        root: The repository.
    """
    if not re.fullmatch(NAME, name):
        raise UsageError(f"an algorithm's name must match {NAME}, found {name!r}")
    table = root / "config" / "algorithms.tsv"
    rows = load_algorithms(table)
    path = kernels.source_of(name).relative_to(ROOT)
    if name in {row["name"] for row in rows} or (root / path).parent.exists():
        raise UsageError(
            f"an algorithm's name must be new, found {name} in config/algorithms.tsv or algorithms/"
        )
    template = root / kernels.source_of(TEMPLATE).relative_to(ROOT)
    text = re.sub(rf"(?<![a-z]){TEMPLATE}", name, template.read_text())
    (root / path).parent.mkdir()
    (root / path).write_text(text)
    colour = palette.next_colour([row["colour"] for row in rows])
    shape = min(SHAPES, key=[row["shape"] for row in rows].count)
    with table.open("a") as file:
        file.write("\t".join([name, label, colour, shape, "default"]) + "\n")
    return path
