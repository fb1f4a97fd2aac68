"""The parts of `bench.speed` that measure replicates."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from losslab.backends.base import (
    CONSOLE_FILE,
    JOB_FILE,
    RESULT_FILE,
    STARTED,
    Instrument,
    Job,
)
from losslab.backends.registry import BACKENDS
from losslab.backends.snapshot import Fork, Snapshots
from losslab.errors import LosslabError
from losslab.study.condition import Condition

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 1800.0
# The main study's path; parts vary rate and algorithm.
BASE = Condition(
    algorithm="bbr", loss_percent=0, path="symmetric", app="iperf3", rtt_ms=20, rate_mbit=1000,
    buffer_packets=1000, duration_s=2, warmup_s=0.1,
)  # fmt: skip
RATES_MBIT = (1, 10, 100, 1000, 10_000)
ALGORITHMS = ("cubic", "bbr")
LOSSES_PERCENT = (0, 1)
# The cost per second is the difference between these durations. Slow links need longer ones for a
# measurable difference, 10 Gbit/s shorter ones.
SPAN_S = {1: (2, 32), 10: (2, 17), 100: (2, 8), 1000: (2, 5), 10_000: (1, 2)}
# Few runs of these: each takes ten seconds.
RUNS_MAX = {10_000: 3}
DURATIONS_S = (5, 10, 20, 40)
FLOWS = (1, 2, 5, 10)
# The last number is the maximum (`study.background.FLOWS_MAX`, and the foreground flow).
MANY_FLOWS = (1, 2, 5, 10, 20, 50, 100, 1001)
# A replicate that has hardly more than the fixed cost.
CHEAPEST = replace(BASE, algorithm="cubic", rate_mbit=1, buffer_packets=20)
MIB = 2**20


@dataclass(frozen=True)
class Run:
    """Time and memory of one replicate."""

    wall_s: float
    cpu_s: float
    before_s: float  # wall time of preparing its snapshot; 0 if it was ready
    phases_s: dict[str, float]  # wall time
    memory_mib: dict[str, float]  # memory allocated by the snapshot, and peak memory of the fork
    packet_hops: int  # packets sent, by every interface on the path


@contextmanager
def _job(condition: Condition, seed: int, snapshots: Snapshots) -> Iterator[Job]:
    with tempfile.TemporaryDirectory(prefix="losslab-speed-") as name:
        what = {
            "kind": "replicate", "condition": condition.to_json(), "seed": seed, "video": False,
            "trace": False,
        }  # fmt: skip
        (Path(name) / JOB_FILE).write_text(json.dumps(what))
        (Path(name) / CONSOLE_FILE).touch()
        yield Job(what, Path(name), seed, LIMIT_S, snapshots=snapshots)


def measure(
    tools: Instrument, condition: Condition, seed: int, snapshots: Snapshots, watch: bool = False
) -> Run:
    """Measure a replicate like `losslab cell`, without keeping its files.

    Args:
        tools: Instrument.
        condition: Condition to measure.
        seed: Seed of every random draw.
        snapshots: Keeps the booted snapshot for the next replicate.
        watch: Whether to watch its memory, which takes time itself.

    Raises:
        LosslabError: The replicate is not valid.
    """
    backend = BACKENDS[tools.backend, tools.where]
    memory = {"snapshot": 0.0, "fork": 0.0}
    with _job(condition, seed, snapshots) as job, backend.start(tools, job) as start:
        if watch:
            memory["snapshot"] = _snapshot_mib()
        begin = time.time()
        copy = start.begin(None)
        assert isinstance(copy, Fork)
        status = _wait_for_end(copy, memory if watch else None)
        end = time.time()
        found = _result(job.folder, status)
        return Run(
            wall_s=end - begin,
            cpu_s=copy.cpu_s or 0.0,
            before_s=start.before_s,
            phases_s=_phases_s(job.folder, begin, end),
            memory_mib=memory,
            packet_hops=sum(
                link["tx"]["packets"]
                for host in found["observed"]["state"].values()
                for link in host["links"].values()
            ),
        )


def _wait_for_end(copy: Fork, memory: dict[str, float] | None) -> int:
    """Wait for a fork's end, watching its memory if requested."""
    if memory is None:
        return copy.wait(LIMIT_S)
    while (status := copy.poll()) is None:
        memory["fork"] = max(memory["fork"], _memory_mib(copy.pid))
        time.sleep(0.05)
    return status


def _result(folder: Path, status: int) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / RESULT_FILE).read_text())
    except (OSError, json.JSONDecodeError):
        found = {"error": f"no result, status {status}; {(folder / CONSOLE_FILE).read_text()}"}
    reasons = found.get("reasons", [found.get("error")])
    if reasons:
        raise LosslabError(f"a replicate must be valid to be timed, found: {reasons}")
    return found


# A phase ends with the last write to its file in the job's folder.
PHASES = {
    "fork": STARTED,
    "shaping, idle ping": "raw/ping_idle.csv",
    "read-back, programs, traffic": "raw/tcp.csv",
    "read-back, collection": "raw/intervals.csv",
    "summary": RESULT_FILE,
}


def _phases_s(folder: Path, begin: float, end: float) -> dict[str, float]:
    phases, last = {}, begin
    for name, file in PHASES.items():
        if not (folder / file).exists():
            continue  # an app without intervals: its time counts for the next phase
        at = (folder / file).stat().st_mtime
        phases[name] = at - last
        last = at
    return phases | {"power-off": end - last}


def _memory_mib(pid: int) -> float:
    """Return the allocated size of the largest unnamed file that a process has open."""
    sizes = [0.0]
    try:
        for path in Path(f"/proc/{pid}/fd").iterdir():
            if "(deleted)" in os.readlink(path):
                sizes.append(path.stat().st_blocks * 512 / MIB)
    except OSError:
        pass  # the process has just ended
    return max(sizes)


def _snapshot_mib() -> float:
    """Return the memory of this process's snapshot."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return max((_memory_mib(int(child)) for child in children), default=0.0)


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 4)


def fixed(tools: Instrument, runs: int) -> dict[str, Any]:
    """Split the fixed cost of a replicate into boot, set-up for a cell, and fork.

    The result also has the memory of the cell's snapshot and of the fork.
    """
    with Snapshots() as snapshots:
        booting = measure(tools, replace(CHEAPEST, rate_mbit=2), 0, snapshots)
        first = measure(tools, CHEAPEST, 0, snapshots)
        copies = [measure(tools, CHEAPEST, seed + 1, snapshots) for seed in range(runs)]
        watched = measure(tools, CHEAPEST, runs + 1, snapshots, watch=True)
    return {
        "boot_s": round(booting.before_s - first.before_s, 4),
        "cell_s": round(first.before_s, 4),
        "replicate_s": _median([run.wall_s for run in copies]),
        "replicate_core_s": _median([run.cpu_s for run in copies]),
        "phases_s": {
            name: _median([run.phases_s[name] for run in copies]) for name in first.phases_s
        },
        "memory_mib": {name: round(value, 1) for name, value in watched.memory_mib.items()},
    }


def bandwidth_delay_packets(rate_mbit: float) -> int:
    """Return the bandwidth-delay product of BASE's path in packets, at least 20."""
    return max(20, round(rate_mbit * 1e6 * BASE.rtt_ms / 1e3 / 12_112))


def cost(tools: Instrument, condition: Condition, runs: int) -> dict[str, float | None]:
    """Return the cost per second of a condition, from runs of two durations."""
    rate_mbit = round(condition.rate_mbit)
    short_s, long_s = SPAN_S[rate_mbit]
    found: dict[int, list[Run]] = {short_s: [], long_s: []}
    with Snapshots() as for_short, Snapshots() as for_long:
        # In turn, so that the machine's load affects both equally.
        for n in range(min(runs, RUNS_MAX.get(rate_mbit, runs))):
            for duration_s, snapshots in ((short_s, for_short), (long_s, for_long)):
                what = replace(condition, duration_s=duration_s)
                found[duration_s].append(measure(tools, what, 1 + n, snapshots))
    short, long = found[short_s], found[long_s]

    def more(value: Callable[[Run], float]) -> float:
        return statistics.median(map(value, long)) - statistics.median(map(value, short))

    return per_second(
        long_s - short_s,
        core_s=more(lambda run: run.cpu_s),
        wall_s=more(lambda run: run.wall_s),
        hops=more(lambda run: run.packet_hops),
    )


def per_second(
    seconds: float, core_s: float, wall_s: float, hops: float
) -> dict[str, float | None]:
    """Return the cost per emulated second, and packet transmissions per core-second.

    A packet is transmitted once by each interface on its way; simulators are compared by this rate.
    Costs are None if runs of both durations took equally long.
    """
    return {
        "emulated_s_per_core_s": round(seconds / core_s, 2) if core_s > 0 else None,
        "wall_s_per_emulated_s": round(wall_s / seconds, 4) if wall_s > 0 else None,
        "packet_transmissions_per_s": round(hops / seconds),
        "packet_transmissions_per_core_s": round(hops / core_s) if core_s > 0 else None,
    }


def rates(tools: Instrument, runs: int) -> list[dict[str, Any]]:
    """Measure the cost per emulated second of a flow by rate, algorithm and loss."""
    rows = []
    for rate_mbit in RATES_MBIT:
        for algorithm in ALGORITHMS:
            for loss_percent in LOSSES_PERCENT:
                condition = replace(
                    BASE, rate_mbit=rate_mbit, algorithm=algorithm, loss_percent=loss_percent,
                    buffer_packets=bandwidth_delay_packets(rate_mbit),
                )  # fmt: skip
                found = cost(tools, condition, runs)
                rows.append(
                    {"rate_mbit": rate_mbit, "algorithm": algorithm, "loss_percent": loss_percent}
                    | found
                )
                print(f"  {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def flows(tools: Instrument, runs: int) -> list[dict[str, Any]]:
    """Measure the cost of more flows and of the asymmetric path at 100 Mbit/s."""
    base = replace(BASE, rate_mbit=100, buffer_packets=165)
    cases = {
        f"{count} flow{'s' if count > 1 else ''}": with_flows(base, count) for count in FLOWS
    } | {"1 flow, asymmetric": replace(base, path="asymmetric")}
    return [{"case": name} | cost(tools, what, runs) for name, what in cases.items()]


def with_flows(base: Condition, count: int) -> Condition:
    """Return a condition with `count` flows, including the foreground flow."""
    return replace(base, flows=f"same,count={count - 1}" if count > 1 else "none")


def many_flows(tools: Instrument, runs: int) -> list[dict[str, Any]]:
    """Measure time and peak guest memory of a replicate with many flows.

    Each is measured twice: for its time, and for its memory, because watching takes time itself.
    """
    base = replace(BASE, algorithm="cubic", rate_mbit=100, buffer_packets=165, duration_s=10,
                   warmup_s=2)  # fmt: skip
    rows = []
    for count in MANY_FLOWS:
        with Snapshots() as snapshots:
            condition = with_flows(base, count)
            timed = measure(tools, condition, 1, snapshots)
            watched = measure(tools, condition, 1, snapshots, watch=True)
        rows.append(
            {"flows": count, "wall_s": round(timed.wall_s, 2), "core_s": round(timed.cpu_s, 2),
             "memory_mib": round(watched.memory_mib["fork"])}
        )  # fmt: skip
        print(f"  {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def durations(tools: Instrument, runs: int) -> list[dict[str, Any]]:
    """Measure how a replicate's time grows with its duration at 100 Mbit/s."""
    rows = []
    for duration_s in DURATIONS_S:
        what = replace(BASE, rate_mbit=100, buffer_packets=165, duration_s=duration_s)
        with Snapshots() as snapshots:
            found = [measure(tools, what, 1 + n, snapshots) for n in range(runs)]
        rows.append(
            {"duration_s": duration_s, "wall_s": _median([run.wall_s for run in found]),
             "core_s": _median([run.cpu_s for run in found])}
        )  # fmt: skip
    return rows


def pair(tools: Instrument, runs: int) -> dict[str, Any]:
    """Measure a cell alone and two at once, each in its own process."""
    words = [
        sys.executable, "-m", "bench.speed", "--cell", json.dumps(
            replace(BASE, duration_s=3).to_json()
        ),
    ]  # fmt: skip

    def wall_s(number: int) -> float:
        begin = time.monotonic()
        jobs = [subprocess.Popen(words, cwd=ROOT) for _ in range(number)]
        if any(job.wait() for job in jobs):
            raise LosslabError("both cells must be measured, found that one failed")
        return time.monotonic() - begin

    wall_s(1)
    one = statistics.median(wall_s(1) for _ in range(runs))
    two = statistics.median(wall_s(2) for _ in range(runs))
    return {"one_s": round(one, 3), "two_s": round(two, 3), "two_over_one": round(two / one, 3)}
