"""`losslab run`: a test in virtual time, for many seeds.

A seed is everything that is random in the guest: what its kernel draws (ports, sequence numbers,
losses and delays of netem, `getrandom`), what languages draw from that, and when the test begins. A
failed seed fails again in the same way.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from datetime import date

from losslab import cellspec
from losslab.backends.snapshot import Snapshots
from losslab.reading import CONTROL, UsageError, out_file, whole_option, write_text
from losslab.runs import seeds
from losslab.runs.command import DIFFERING, FAILED, PASSED, End, Test, first_differences, prepared
from losslab.study.condition import DEFAULT_IMAGE, DEFAULT_KERNEL
from losslab.study.units import number_option

LIMIT_S, TIMEOUT_S = 3600.0, 600.0
TAIL_LINES = 10  # of a failed test's output
FIRST_DATE, LAST_DATE = date(1970, 1, 2), date(2099, 12, 31)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `run`."""
    parser = commands.add_parser("run", usage="%(prog)s [OPTION ...] -- COMMAND [ARGUMENT ...]")
    parser.add_argument(
        "command", nargs="*", metavar="COMMAND", help="command to run in the guest, as root"
    )
    parser.add_argument(
        "--seeds", default="1", help="seeds to run, such as 7, 1:100 or 1,5,9:12 (default 1)"
    )
    parser.add_argument("--image", default=DEFAULT_IMAGE, help="image of the guest")
    parser.add_argument("--kernel", default=DEFAULT_KERNEL, help="kernel of the guest")
    parser.add_argument(
        "--bring", action="append", default=[], metavar="PATH[=NAME]",
        help="your file or folder; the command runs in a folder with a copy of it, or of the "
        "folder's content; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--until-fail", action="store_true", help="stop at the first seed that does not pass"
    )
    parser.add_argument(
        "--repeat", type=whole_option("repeat", 1), default=1, metavar="N",
        help="run each seed N times, which must give the same bytes (default 1; failed seeds 2)",
    )  # fmt: skip
    parser.add_argument(
        "--diff", nargs=2, type=cellspec.SEED, metavar=("A", "B"),
        help="show the first line of the output, packet and TCP event in which two seeds differ",
    )  # fmt: skip
    parser.add_argument(
        "--junit", type=out_file, metavar="FILE", help="also write the results as JUnit XML"
    )
    parser.add_argument(
        "--limit-s", type=number_option("limit-s", above=0), default=LIMIT_S,
        help=f"virtual time after which a test has failed (default {LIMIT_S:g})",
    )  # fmt: skip
    parser.add_argument(
        "--timeout-s", type=number_option("timeout-s", above=0), default=TIMEOUT_S,
        help=f"wall time after which a test has failed (default {TIMEOUT_S:g})",
    )  # fmt: skip
    parser.add_argument(
        "--date", type=_date, metavar="YYYY-MM-DD",
        help="date in the guest when the test begins (default 2024-01-01), such as one on which "
        "the certificates of your test are valid",
    )  # fmt: skip
    cellspec.cores_option(parser, "seeds")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    chosen = seeds.parsed(options.seeds)
    if not options.command:
        raise UsageError(
            "a test must have a command, found none", hint="losslab run --seeds 1:40 -- ./my-test"
        )
    if options.diff and (options.seeds != "1" or options.until_fail or options.junit):
        raise UsageError("--diff runs its two seeds, and excludes --seeds, --until-fail, --junit")
    test = prepared(
        options.command, options.bring, options.image, options.kernel, options.limit_s,
        options.timeout_s, options.repeat, options.date,
    )  # fmt: skip
    with test as ready:
        if options.diff:
            return _diff(ready, *options.diff)
        if len(chosen) == 1 and options.repeat == 1:
            return _single(ready, chosen[0], options)
        return _many(ready, chosen, options)


def _date(text: str) -> date:
    day: date | None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or not FIRST_DATE <= day <= LAST_DATE:
        raise argparse.ArgumentTypeError(
            f"must be a date from {FIRST_DATE} to {LAST_DATE}, such as 2026-08-01, found {text!r}"
        )
    return day


def again(options: argparse.Namespace, *words: object) -> str:
    """Return the command that runs the same test with other first options."""
    named = [
        *itertools.chain.from_iterable(("--bring", each) for each in options.bring),
        *(("--image", options.image) if options.image != DEFAULT_IMAGE else ()),
        *(("--kernel", options.kernel) if options.kernel != DEFAULT_KERNEL else ()),
        *(("--limit-s", f"{options.limit_s:g}") if options.limit_s != LIMIT_S else ()),
        *(("--date", f"{options.date}") if options.date else ()),
    ]
    return shlex.join(["losslab", "run", *map(str, words), *named, "--", *options.command])


def _single(test: Test, seed: int, options: argparse.Namespace) -> int:
    """Run one seed; pass on its output and status."""
    with Snapshots() as snapshots:
        end = test.once(seed, snapshots)
    sys.stdout.flush()
    sys.stdout.buffer.write(end.output)
    sys.stdout.buffer.flush()
    if end.verdict != PASSED:
        print(f"losslab: seed {seed} {end.verdict}: {end.why}", file=sys.stderr)
    if options.junit:
        write_text(options.junit, junit([end], options))
    # A test that passed, but not its kernel, has failed.
    return (end.status or 1) if end.verdict != PASSED else 0


def _many(test: Test, chosen: Sequence[int], options: argparse.Namespace) -> int:
    """Run seeds; print each, and the counts of verdicts."""
    ends = list[End]()

    def is_last(end: End) -> bool:
        return bool(options.until_fail) and end.verdict != PASSED

    for end in seeds.in_order(test.end, chosen, options.cores, is_last):
        ends.append(end)
        print(line(end), flush=True)
        if end.verdict != PASSED:
            tail = end.output.decode(errors="replace").splitlines()[-TAIL_LINES:]
            print("".join(f"    | {CONTROL.sub('?', text)}\n" for text in tail), end="")
            print(f"    {again(options, '--seeds', end.seed)}", flush=True)
    counts = Counter(end.verdict for end in ends)
    outputs = len({end.code for end in ends})
    print(
        ", ".join(f"{counts[name]} {name}" for name in (PASSED, FAILED, DIFFERING))
        + f" of {len(ends)} seeds; {outputs} different output{'s' if outputs > 1 else ''}"
    )
    good, bad = (next((e.seed for e in ends if e.verdict == v), None) for v in (PASSED, FAILED))
    if good is not None and bad is not None:
        print(f"the first difference: {again(options, '--diff', good, bad)}")
    if options.junit:
        write_text(options.junit, junit(ends, options))
    return int(counts[PASSED] != len(ends))


def line(end: End) -> str:
    """Return the line of a seed."""
    why = f"  {CONTROL.sub('?', end.why.splitlines()[0])}" if end.why else ""
    return f"seed {end.seed:<5} {end.verdict:<9} {end.virtual_s:9.3f} s  output {end.code}{why}"


def junit(ends: Sequence[End], options: argparse.Namespace) -> str:
    """Return JUnit XML: a test case for each seed; one that losslab ended is an error."""
    failed = [end for end in ends if end.verdict != PASSED]
    errors = sum(end.status is None for end in failed)
    root = ET.Element(
        "testsuite", name="losslab run", tests=str(len(ends)), errors=str(errors),
        failures=str(len(failed) - errors), time=f"{sum(end.virtual_s for end in ends):.6f}",
    )  # fmt: skip
    for end in ends:
        case = ET.SubElement(
            root, "testcase", classname=_xml(shlex.join(options.command)), name=f"seed {end.seed}",
            time=f"{end.virtual_s:.6f}",
        )  # fmt: skip
        if end.verdict != PASSED:
            kind = "error" if end.status is None else "failure"
            problem = ET.SubElement(case, kind, message=_xml(f"{end.verdict}: {end.why}"))
            problem.text = _xml(again(options, "--seeds", end.seed))
            output = ET.SubElement(case, "system-out")
            output.text = _xml(end.output.decode(errors="replace"))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Replace what XML cannot have."""
    return CONTROL.sub("?", text.encode(errors="replace").decode())


def _diff(test: Test, first: int, second: int) -> int:
    """Show the first differences of two seeds; return 1 if there is one."""
    with Snapshots() as snapshots:
        ends = [test.once(seed, snapshots, records=True) for seed in (first, second)]
    for name, end in zip("AB", ends, strict=True):
        print(f"{name}: {line(end)}")
    found = first_differences(*ends)
    print("\n".join(found) if found else "A and B have the same output, packets and TCP events")
    return int(bool(found) or ends[0].status != ends[1].status)
