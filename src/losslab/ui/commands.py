"""Commands that show runs and progress: `plot` and `status`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from losslab.reading import out_file
from losslab.ui import plot, status


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `plot` and `status`."""
    drawn = commands.add_parser("plot")
    drawn.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="folder of a run or a cell"
    )
    drawn.add_argument(
        "--out", type=out_file, action="append", default=[], metavar="FILE",
        help=f"plot to this file ({', '.join(plot.FORMATS)}); may be repeated",
    )  # fmt: skip
    drawn.set_defaults(run=_plot)

    shown = commands.add_parser("status")
    shown.add_argument("folder", nargs="?", type=Path, default=Path(), help="the campaign's folder")
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.set_defaults(run=_status)


def say(text: str) -> None:
    """Print text, with replacements for characters that the terminal lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def _plot(options: argparse.Namespace) -> int:
    plot.require_drawable(options.out)
    runs = plot.load(options.folders)
    if options.out:
        plot.figure(runs, options.out)
        say("\n".join(map(str, options.out)))
    else:
        say(plot.text(runs, shutil.get_terminal_size().columns))
    return 0


def _status(options: argparse.Namespace) -> int:
    if options.json:
        say(json.dumps(status.facts(options.folder), indent=1))
    else:
        say("\n".join(status.report(options.folder)))
    return 0
