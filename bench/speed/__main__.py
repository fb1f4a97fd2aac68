"""Speed of a replicate and breakdown of its time: `python -m bench.speed`.

    python -m bench.speed                          measure all parts that this machine supports
    python -m bench.speed --parts fixed rates      measure these parts
    python -m bench.speed --runs 9 --out FILE      medians over nine runs, also as JSON
    python -m bench.speed --write                  write report/speed.csv, the source of tables in
                                                   the report and in docs/reference/speed.md

All parts take ten minutes on a quiet machine; the command first prints the load by other programs.
A core-second is a second of CPU time of a guest's kernel and processes, which the host reports
after their end; other load affects it less than wall time. The cost per second of a flow is the
difference between a long and a short run. The parts `setup`, which builds everything in another
folder, and `many-flows`, with up to 1,001 flows, run only if named. `bench.speed.before` compares
two checkouts, `bench.speed.campaign` estimates a campaign.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.speed import baselines, page, parts
from losslab.backends.base import CONTAINERNET, GUEST, VIRTUAL, Instrument
from losslab.backends.snapshot import Snapshots
from losslab.campaign.instrument import instrument
from losslab.emulation import realtime
from losslab.errors import LosslabError
from losslab.study.condition import Condition

RUNS = 5
QUIET_S = 2.0
PARTS: dict[str, Callable[[Instrument, int], Any]] = {
    "fixed": parts.fixed, "rates": parts.rates, "flows": parts.flows,
    "durations": parts.durations, "pair": parts.pair, "many-flows": parts.many_flows,
}  # fmt: skip
# Parts without guests.
BASELINES: dict[str, Callable[[int], Any]] = {
    "ns-3": baselines.ns3, "statistics": baselines.statistics_in_r,
    "snakemake": baselines.snakemake, "own-algorithm": baselines.own_algorithm,
    "setup": baselines.setup,
}  # fmt: skip
CONTAINERS = "containers"  # the part `fixed` in containers
NAMED = ("many-flows", "setup")  # parts that run only if named


def machine() -> dict[str, Any]:
    """Return a description of this machine, and its load."""
    model = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": model[0] if model else platform.processor(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "busy_with_others": round(realtime.quiet_busy(QUIET_S), 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the named parts; print a table, and write JSON if requested."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.speed", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = ["fixed", CONTAINERS, *(part for part in (*PARTS, *BASELINES) if part != "fixed")]
    usual = [name for name in names if name not in NAMED]
    parser.add_argument("--parts", nargs="+", choices=names, default=usual)
    parser.add_argument("--runs", type=int, default=RUNS, help="of which the median is taken")
    parser.add_argument("--out", type=Path, help="a file for the numbers, as JSON")
    parser.add_argument("--write", action="store_true", help="into the report and the docs")
    parser.add_argument("--cell", help=argparse.SUPPRESS)  # `pair` starts it twice
    options = parser.parse_args(arguments)
    try:
        if options.cell:
            with Snapshots() as snapshots:
                for seed in range(2):
                    condition = Condition.from_json(json.loads(options.cell))
                    parts.measure(instrument(), condition, seed, snapshots)
            return 0
        return _run(options)
    except LosslabError as error:
        print(f"speed: error: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    found: dict[str, Any] = {"machine": machine(), "runs": options.runs, "parts": {}}
    for part in options.parts:
        print(f"speed: {part}", file=sys.stderr, flush=True)
        begin = time.monotonic()
        try:
            if part in BASELINES:
                found["parts"][part] = BASELINES[part](options.runs)
            elif part == CONTAINERS:
                found["parts"][part] = parts.fixed(instrument(CONTAINERNET, GUEST), options.runs)
            else:
                found["parts"][part] = PARTS[part](instrument(VIRTUAL, GUEST), options.runs)
        except LosslabError as error:
            if part not in (CONTAINERS, *BASELINES):
                raise
            print(f"speed: {part}: skipped: {error}", file=sys.stderr, flush=True)
        print(f"speed: {part}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        if options.out is not None:  # after each part: an interrupt keeps the finished ones
            options.out.write_text(json.dumps(found, indent=1) + "\n")
    rows = page.rows(found)
    if options.write:
        page.write(rows)
    print(page.tables(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
