"""The commands `path from-tc` and `path to-tc`."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import yaml

from losslab import cellspec, runs
from losslab.campaign import rerun
from losslab.reading import CONFIG_BYTES, CONTROL, UsageError, read_text
from losslab.study import dictionary
from losslab.study.condition import Condition
from losslab.tools.paths import tclines, to_tc
from losslab.tools.paths.from_tc import Reading


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `path from-tc` and `path to-tc`."""
    below = commands.add_parser("path").add_subparsers(metavar="COMMAND", required=True)
    source = below.add_parser("from-tc", help="print the condition that lines of tc describe")
    source.add_argument("file", help="shell script or Mininet program; -: standard input")
    source.add_argument("--algorithm", default="cubic", help="congestion control (default cubic)")
    for role, what in (
        ("forward", "router's interface that sends data"),
        ("reverse", "router's interface that sends acknowledgements"),
        ("sender", "the sender's own interface"),
    ):
        source.add_argument(f"--{role}", metavar="IF", help=what)
    source.add_argument(
        "--var", action="append", default=[], metavar="NAME=VALUE",
        help="value of a variable of the script, such as 1=eth0; may be repeated",
    )  # fmt: skip
    form = source.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--yaml", action="store_true", help="print a block for a study")
    source.set_defaults(run=_from_tc)
    made = below.add_parser("to-tc", help="print a script that sets a path on a Linux router")
    made.add_argument("manifest", type=Path, nargs="?", metavar="RUN", help="a run's folder")
    dictionary.add_options(made, algorithm="cubic")
    made.set_defaults(run=_to_tc)


def _from_tc(options: argparse.Namespace) -> int:
    if options.file == "-":
        data = sys.stdin.buffer.read(CONFIG_BYTES + 1) if sys.stdin else b""
        if len(data) > CONFIG_BYTES:
            raise UsageError(f"the lines must have at most {CONFIG_BYTES} bytes, found more")
        text = CONTROL.sub(" ", data.decode(errors="replace"))
    else:
        text = read_text(Path(options.file), CONFIG_BYTES)
    given = {}
    for pair in options.var:
        name, equals, given[name] = pair.partition("=")
        if not equals or not re.search(rf"\b{re.escape(name)}\b", text):
            raise UsageError(f"--var must be NAME=VALUE of a variable in the lines, found {pair}")
    found = Reading(tclines.read(text, given), vars(options), options.algorithm)
    condition = cellspec.condition(found.values)
    left, traps = [*dict.fromkeys(found.left)], [*dict.fromkeys(found.traps)]
    if options.json:
        rows = {
            "condition": found.values,
            "from": [{"tc": words, "axes": axes} for words, axes in found.taken],
            "left_out": [{"tc": words, "reason": reason} for words, reason in left],
            "beware": traps,
        }
        print(json.dumps(rows, indent=1))
        return 1 if left else 0
    lines = [f"# {words} -> {axes}" for words, axes in found.taken]
    lines += [f"# left out: {words} ({reason})" for words, reason in left]
    print("\n".join([*lines, *(f"# beware: {trap}" for trap in traps)]))
    if options.yaml:
        print(yaml.safe_dump({"blocks": {"from-tc": found.values}}, sort_keys=False).rstrip())
    else:
        print(cellspec.measure_command(condition, 1, to_tc.OUT))
    return 1 if left else 0


def _to_tc(options: argparse.Namespace) -> int:
    if options.manifest is not None:
        condition = Condition.from_json(rerun.load_manifest(options.manifest)["cell"])
        if problems := condition.problems():
            raise UsageError("; ".join(problems))
    else:
        condition = runs.condition_of(options)
    print(to_tc.script(condition))
    return 1 if to_tc.not_carried(condition) else 0
