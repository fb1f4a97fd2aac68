"""The commands `path from-tc` and `path to-tc`."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shlex
import sys
from pathlib import Path

import yaml

from losslab import cellspec
from losslab.campaign import rerun
from losslab.reading import CONFIG_BYTES, CONTROL, UsageError, read_text
from losslab.study import dictionary
from losslab.study.condition import Condition
from losslab.tools.paths import linux, others, tclines, to_tc
from losslab.tools.paths.from_tc import Reading

# In the place of a value that the lines have, and that losslab cannot read.
UNKNOWN = "?"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `path from-tc` and `path to-tc`."""
    below = commands.add_parser("path").add_subparsers(metavar="COMMAND", required=True)
    source = below.add_parser("from-tc", help="print the condition that lines of tc describe")
    source.add_argument(
        "file",
        help="shell script, Mininet program, or output of `tc qdisc show`; -: standard input",
    )
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
    source.add_argument("--between", metavar="A,B", help="two hosts of a Mininet program")
    source.add_argument("--class", metavar="ID", help="class that the flow takes, such as 1:10")
    source.add_argument(
        "--run", dest="arguments", nargs="?", const="", metavar="ARGUMENTS",
        help="execute the file in a guest, a shell script or a Python program, and read what it "
        "sets; --run='-n 2' gives it arguments",
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
    if options.arguments is None:
        if text.lstrip()[:1] in ("[", "{"):
            with contextlib.suppress(ValueError, RecursionError):
                others.require_no_proxies(json.loads(text))
        source = tclines.read(text, given)
    else:
        given_words = [f"{name}={value}" for name, value in given.items() if not name.isdigit()]
        if given_words:
            raise UsageError("--run and --var exclude each other but for --var 1=..., found "
                             f"{', '.join(given_words)}")  # fmt: skip
        words = shlex.split(options.arguments) or [given[n] for n in sorted(given)]
        source = linux.run(text.encode(), words)
    linux.judge(source)
    found = Reading(tclines.Lines.of(source), vars(options), options.algorithm)
    condition = cellspec.condition(found.values)
    left, traps = [*dict.fromkeys(found.left)], [*dict.fromkeys(found.traps)]
    if options.json:
        rows = {
            "condition": found.values,
            "from": [{"tc": words, "axes": axes} for words, axes in found.taken],
            "unknown": found.unknown,
            "left_out": [{"tc": words, "reason": reason} for words, reason in left],
            "beware": traps,
        }
        print(json.dumps(rows, indent=1))
        return 1 if left or found.unknown else 0
    lines = [f"# {words} -> {axes}" for words, axes in found.taken]
    lines += [f"# left out: {words} ({reason})" for words, reason in left]
    lines += [f"# unknown: {axis}, set by {words}" for axis, words in found.unknown.items()]
    print("\n".join([*lines, *(f"# beware: {trap}" for trap in traps)]))
    if options.yaml:
        values = found.values | dict.fromkeys(found.unknown, UNKNOWN)
        print(yaml.safe_dump({"blocks": {"from-tc": values}}, sort_keys=False).rstrip())
    else:
        # A question mark, which `losslab measure` refuses, is no default.
        words = [f"--{axis.replace('_', '-')} '{UNKNOWN}'" for axis in found.unknown]
        print(" ".join([cellspec.measure_command(condition, 1, to_tc.OUT, path_only=True), *words]))
    return 1 if left or found.unknown else 0


def _to_tc(options: argparse.Namespace) -> int:
    if options.manifest is not None:
        condition = Condition.from_json(rerun.load_manifest(options.manifest)["cell"])
        if problems := condition.problems():
            raise UsageError("; ".join(problems))
    else:
        condition = cellspec.condition_of(options)
    print(to_tc.script(condition))
    return 1 if to_tc.not_carried(condition) else 0
