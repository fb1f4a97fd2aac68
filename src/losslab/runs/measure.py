"""Measure one run: `losslab measure`."""

from __future__ import annotations

import argparse
import json
import sys

from losslab import cellspec
from losslab.campaign import halves, packets
from losslab.campaign.instrument import at_first_use, instrument, video
from losslab.campaign.replicate import run
from losslab.campaign.results import Replicate
from losslab.reading import out_folder
from losslab.study import dictionary, runlength, units
from losslab.study.condition import AXES
from losslab.ui import plot, runsummary


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `measure`."""
    usage = "%(prog)s --algorithm NAME --out FOLDER [OPTION ...]"
    measure = commands.add_parser("measure", usage=usage)
    groups = dictionary.add_options(measure)
    run_options = groups["run"].add_argument
    run_options("--seed", type=cellspec.SEED, default=1, help="seed of all random draws")
    measure.add_argument("--out", type=out_folder, required=True, help="new folder of the results")
    cellspec.backend_options(groups["instrument"])
    limit = units.number_option("timeout-s", above=0)
    run_options("--timeout-s", type=limit, help="wall-clock limit of the guest")
    run_options(
        "--capture", action="append", default=[], metavar="LINK",
        help="capture an interface's packets, such as r1-r2, in capture-LINK.pcap, or the state of "
        "the congestion control (`state`); may be repeated",
    )  # fmt: skip
    measure.add_argument("--json", action="store_true", help="print the metrics as JSON")
    # Without a length of the user's, the rule gives one.
    measure.set_defaults(duration_s=None, warmup_s=None)
    measure.set_defaults(run=_measure, interrupted="the unfinished run was removed")


def _measure(options: argparse.Namespace) -> int:
    given = [getattr(options, name) is not None for name in runlength.LENGTH_AXES]
    for name, is_given in zip(runlength.LENGTH_AXES, given, strict=True):
        if not is_given:
            setattr(options, name, AXES[name].default)
    (condition,), note = runlength.with_length([cellspec.condition_of(options)], *given)
    if note:
        print(f"losslab: {note}", file=sys.stderr)
    captures = packets.links(options.capture, condition, options.where)
    with cellspec.claimed(options.out):
        at_first_use(condition, options.backend, options.where)
        tools = instrument(options.backend, options.where, condition)
        movie = video(condition, tools, options.timeout_s)
        manifest = run(
            condition, options.seed, options.out, tools, movie, options.timeout_s, attempts=1,
            captures=captures,
        )  # fmt: skip
    for reason in manifest["reasons"]:
        print(f"losslab: invalid: {reason}", file=sys.stderr)
    if options.json:
        print(json.dumps(manifest["summary"], indent=1, sort_keys=True))
    else:
        plot.say(runsummary.text(manifest, options.out))
    for warning in halves.warnings([Replicate(options.out)], condition):
        print(f"losslab: warning: {warning}", file=sys.stderr)
    return 0 if manifest["valid"] else 1
