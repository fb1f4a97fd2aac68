"""Cost of a replicate and of a second of a flow, in core-seconds: `python -m bench.speed`.

    python -m bench.speed                          all parts that this machine can measure
    python -m bench.speed --parts rates --runs 9   medians of nine runs
    python -m bench.speed --write                  record report/speed.csv, which the report reads,
                                                   and the page docs/reference/speed.md

A core-second is a second of CPU time of a guest's kernel and processes, which the host reports
after their end; other load affects it less than wall time. The cost per second of a flow is the
difference between a long and a short run.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from losslab.backends import base
from losslab.backends.base import CONTAINERNET, GUEST, VIRTUAL, Instrument, Job
from losslab.backends.registry import BACKENDS
from losslab.backends.snapshot import Fork, Snapshots
from losslab.campaign.instrument import instrument
from losslab.errors import LosslabError
from losslab.study.condition import Condition
from losslab.tools.realtime import watch

ROOT = Path(__file__).resolve().parents[1]
FILE, PAGE = ROOT / "report" / "speed.csv", ROOT / "docs" / "reference" / "speed.md"
RUNS, LIMIT_S, QUIET_S = 5, 1800.0, 2.0
# The main study's path; a buffer of one bandwidth-delay product at each rate.
BASE = Condition(
    algorithm="bbr", path="symmetric", app="iperf3", rtt_ms=20, duration_s=2, warmup_s=0.1
)
BUFFERS = {1: 20, 10: 20, 100: 165, 1000: 1651, 10_000: 16513}
MORE_TRANSMISSIONS, MORE_S = 500_000, (3, 600)  # of a long run, compared with a short one
# Duration of the runs that compare shapers, by rate: one to several core-seconds.
SHAPER_S = {1: 300, 100: 60, 1000: 5}
# A replicate that has hardly more than the fixed cost.
CHEAPEST = replace(BASE, algorithm="cubic", rate_mbit=1, buffer_packets=20)
NS3_LIBRARIES = ("core", "network", "internet", "point-to-point", "applications", "traffic-control")
NS3_MODELS = {"cubic": "TcpCubic", "bbr": "TcpBbr"}
# A second of ns-3's BBR (3.37) at 1 % loss took more than ten minutes.
NS3_LIMIT_S = 300
HEAD = """\
# Speed

This page shows how long losslab needs for a replicate, and for a second of a flow, on one machine.
`python -m bench.speed --write` measured it and wrote this page. All numbers are medians of the
number of runs that the first table has, or the table itself. A core-second is one second of CPU
time, of a guest's kernel and processes together.
"""
Rows = list[dict[str, Any]]


def machine(runs: int) -> Rows:
    """Describe this machine and its load."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    facts = {
        "processor": models[0] if models else platform.processor(),
        "processors": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "busy_with_others": round(watch.quiet_busy(QUIET_S), 3),
        "runs": runs,
    }
    return [facts]


def measure(
    tools: Instrument, condition: Condition, seed: int, snapshots: Snapshots
) -> tuple[float, float, int]:
    """Measure a replicate like `losslab cell`, without keeping its files.

    Returns its CPU time in s, the wall time of its snapshot's preparation (0 if that was ready),
    and the packets that all interfaces on the path sent. Raises LosslabError if it is not valid.
    """
    what = {
        "kind": "replicate", "condition": condition.to_json(), "seed": seed, "video": False,
        "trace": False,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="losslab-speed-") as name:
        folder = Path(name)
        (folder / base.JOB_FILE).write_text(json.dumps(what))
        (folder / base.CONSOLE_FILE).touch()
        job = Job(what, folder, seed, LIMIT_S, snapshots=snapshots)
        with BACKENDS[tools.backend, tools.where].start(tools, job) as start:
            copy = start.begin(None)
            assert isinstance(copy, Fork)
            status = copy.wait(LIMIT_S)
            file = folder / base.RESULT_FILE
            found = json.loads(file.read_text()) if file.is_file() else {"error": status}
            if reasons := found.get("reasons", [found.get("error")]):
                raise LosslabError(f"a replicate must be valid to be timed, found: {reasons}")
            links = [
                link for host in found["observed"]["state"].values()
                for link in host["links"].values()
            ]  # fmt: skip
            sent = sum(link["tx"]["packets"] for link in links)
            return copy.cpu_s or 0.0, start.before_s, sent


def fixed(runs: int, backend: str = VIRTUAL) -> Rows:
    """Split the fixed cost: boot and set-up of a cell in wall time, and a replicate."""
    tools = instrument(backend, GUEST)
    with Snapshots() as snapshots:
        booting = measure(tools, replace(CHEAPEST, rate_mbit=2), 0, snapshots)
        first = measure(tools, CHEAPEST, 0, snapshots)
        copies = [measure(tools, CHEAPEST, 1 + n, snapshots)[0] for n in range(runs)]
    costs = booting[1] - first[1], first[1], statistics.median(copies)
    names = "boot_s", "cell_s", "replicate_core_s"
    return [{name: round(cost, 4) for name, cost in zip(names, costs, strict=True)}]


def per_second(
    seconds: float, pairs: Sequence[tuple[Sequence[float], Sequence[float]]]
) -> dict[str, float | None]:
    """Return the cost per emulated second, from short runs and runs that are `seconds` longer.

    Each run is its CPU time in s and its packets. A packet is transmitted by each interface on its
    way. Costs are None if long runs took no longer.
    """
    core_s, packets = (
        statistics.median(long[n] for _, long in pairs)
        - statistics.median(short[n] for short, _ in pairs)
        for n in range(2)
    )
    return {
        "emulated_s_per_core_s": round(seconds / core_s, 3) if core_s > 0 else None,
        "packet_transmissions_per_s": round(packets / seconds),
        "packet_transmissions_per_core_s": round(packets / core_s) if core_s > 0 else None,
    }


def rates(runs: int) -> Rows:
    """Measure the cost of a second of a flow by rate, algorithm and loss."""
    tools, rows = instrument(VIRTUAL, GUEST), []
    for rate, algorithm, loss in product(BUFFERS, NS3_MODELS, (0, 1)):
        axes: dict[str, Any] = {"rate_mbit": rate, "algorithm": algorithm, "loss_percent": loss}
        short = replace(BASE, buffer_packets=BUFFERS[rate], **axes)
        with Snapshots() as of_short, Snapshots() as of_long:
            per_s = measure(tools, short, 0, of_short)[2] / short.duration_s
            more_s = min(max(round(MORE_TRANSMISSIONS / per_s), MORE_S[0]), MORE_S[1])
            long = replace(short, duration_s=short.duration_s + more_s)
            # In turn, so that the machine's load affects both equally.
            pairs = [
                (measure(tools, short, n, of_short)[::2], measure(tools, long, n, of_long)[::2])
                for n in range(1, 1 + (min(runs, 3) if rate == 10_000 else runs))
            ]
        rows.append(axes | per_second(more_s, pairs))
        print(f"  {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def shapers(runs: int) -> Rows:
    """Compare the CPU time of long runs behind the exact link and behind a token bucket."""
    tools, rows = instrument(VIRTUAL, GUEST), []
    for rate, algorithm in product((1, 100, 1000), NS3_MODELS):
        axes: dict[str, Any] = {"rate_mbit": rate, "algorithm": algorithm}
        long = replace(
            BASE, buffer_packets=BUFFERS[rate], duration_s=SHAPER_S[rate], loss_percent=0, **axes
        )
        core_s: dict[str, list[float]] = {"link": [], "tbf": []}
        with Snapshots() as of_link, Snapshots() as of_tbf:
            # In turn, so that the machine's load affects both equally.
            for seed in range(1, 1 + runs):
                for shaper, snapshots in (("link", of_link), ("tbf", of_tbf)):
                    condition = replace(long, shaper=shaper)
                    core_s[shaper].append(measure(tools, condition, seed, snapshots)[0])
        medians = {f"{shaper}_core_s": statistics.median(of) for shaper, of in core_s.items()}
        ratios = [one / other for one, other in zip(*core_s.values(), strict=True)]
        rows.append(
            axes | {"duration_s": long.duration_s, "runs": runs}
            | {name: round(value, 3) for name, value in medians.items()}
            | {"ratio": round(statistics.median(ratios), 3),
               "smallest_ratio": round(min(ratios), 3), "largest_ratio": round(max(ratios), 3)}
        )  # fmt: skip
        print(f"  {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def ns3(runs: int) -> Rows:
    """Measure the cost of a second of the same path in ns-3; LosslabError if not installed."""
    if not Path("/usr/include/ns3").is_dir():
        raise LosslabError("ns-3 must be installed, found none: Debian's package is libns3-dev")
    rows: Rows = []
    with tempfile.TemporaryDirectory(prefix="losslab-ns3-") as name:
        program, source = f"{name}/path", ROOT / "bench" / "ns3_path.cc"
        # -O2 like Debian's own libraries.
        libraries = [f"-lns3-{library}" for library in NS3_LIBRARIES]
        subprocess.run(["g++", "-O2", "-o", program, source, *libraries], check=True)

        def simulated(*words: object) -> list[float]:
            said = subprocess.run(
                [program, *map(str, words)], check=True, capture_output=True, timeout=NS3_LIMIT_S
            )
            return [float(word) for word in said.stdout.split()]

        for algorithm, loss in product(NS3_MODELS, (0, 1)):
            axes = {"rate_mbit": 1000, "algorithm": algorithm, "loss_percent": loss}
            words = (NS3_MODELS[algorithm], 1000, 20, BUFFERS[1000], loss)
            try:
                more_s = min(max(round(MORE_TRANSMISSIONS / simulated(*words, 1)[1]), 1), 60)
                pairs = [
                    (simulated(*words, 1), simulated(*words, 1 + more_s))
                    for _ in range(min(runs, 3))
                ]
                rows.append(axes | per_second(more_s, pairs))
            except subprocess.TimeoutExpired:
                rows.append({**axes, "emulated_s_per_core_s": None})
    return rows


# Each part with the title of its table.
PARTS: dict[str, tuple[str, Callable[[int], Rows]]] = {
    "machine": ("Machine. `busy_with_others` is the load before the measurement", machine),
    "fixed": ("Fixed cost of a replicate: boot, once for all cells, and set-up of a cell in wall "
              "time, and a replicate with almost no traffic", fixed),
    "containers": ("The same in containers", lambda runs: fixed(runs, CONTAINERNET)),
    "rates": ("One second of a flow over three links in each direction, RTT 20 ms, a buffer of one "
              "bandwidth-delay product. Each interface on the way transmits a packet once", rates),
    "shapers": ("CPU time of a run without loss on the same path: the exact link beside a token "
                "bucket. A ratio is of two runs with the same seed", shapers),
    "ns-3": ("The same path in ns-3 (`bench/ns3_path.cc`). A run that did not end within five "
             "minutes has no numbers", ns3),
}  # fmt: skip


def tables(found: dict[str, Rows]) -> str:
    """Return a Markdown table of each part."""
    texts = []
    for part, rows in found.items():
        lines = [[*rows[0]], ["---"] * len(rows[0])]
        lines += [
            ["–" if row.get(name) is None else str(row[name]) for name in rows[0]] for row in rows
        ]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        texts.append(f"## {part}\n\n{PARTS[part][0]}.\n\n{table}\n")
    return "\n".join(texts)


def run(parts: Sequence[str], runs: int) -> dict[str, Rows]:
    """Measure parts; a part that this machine cannot measure is left out with its reason."""
    found = {}
    for part in ("machine", *parts):
        print(f"speed: {part}", file=sys.stderr, flush=True)
        try:
            found[part] = PARTS[part][1](runs)
        except LosslabError as error:
            print(f"speed: {part}: skipped: {error}", file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the named parts; print their tables, and record them if requested."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.speed", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    usual = [part for part in PARTS if part != "machine"]
    parser.add_argument("--parts", nargs="+", choices=usual, default=usual)
    parser.add_argument("--runs", type=int, default=RUNS, help="of which the median is taken")
    parser.add_argument("--write", action="store_true", help="into the report and the docs")
    options = parser.parse_args(arguments)
    found = run(options.parts, options.runs)
    if options.write:
        with FILE.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("part", "row", "quantity", "value"))
            for part, rows in found.items():
                for number, row in enumerate(rows, 1):
                    writer.writerows((part, number, name, value) for name, value in row.items())
        PAGE.write_text(HEAD + "\n" + tables(found))
    print(tables(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
