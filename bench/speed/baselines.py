"""Timings without guests: ns-3 on the same path, R, Snakemake, and a complete rebuild."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.speed import workflow
from losslab.errors import LosslabError
from losslab.instrument import kernel, kernels

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NS3_HEADERS = Path("/usr/include/ns3")
NS3_LIBRARIES = ("core", "network", "internet", "point-to-point", "applications", "traffic-control")
# The path of the part `rates` at 1 Gbit/s.
NS3_RATE_MBIT, NS3_RTT_MS, NS3_BUFFER_PACKETS = 1000, 20, 1651
NS3_SPAN_S = (1, 2)
NS3_CASES = (("cubic", 0), ("cubic", 1), ("bbr", 0), ("bbr", 1))
# Each run takes seconds; runs differ only by the machine's load.
NS3_RUNS = 3
# A second of ns-3's BBR (3.37) at 1 % loss took more than ten minutes.
NS3_LIMIT_S = 300
NS3_FOUND = (
    "emulated_s_per_core_s", "packet_transmissions_per_s", "packet_transmissions_per_core_s",
    "goodput_mbit",
)  # fmt: skip
REPLICATES = 10_000
RECORDED = ROOT / "tests" / "expected" / "analysis" / "input" / "cloud_replicates.csv"
CELLS = 1000


def ns3(runs: int) -> list[dict[str, Any]]:
    """Measure the cost per second of the same path in ns-3, if installed.

    Raises:
        LosslabError: ns-3 is not installed, or the program does not compile.
    """
    if not NS3_HEADERS.is_dir():
        raise LosslabError(
            f"ns-3's headers must be in {NS3_HEADERS}, found none",
            hint="Debian's package libns3-dev has it",
        )
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="losslab-ns3-") as name:
        program = Path(name) / "path"
        libraries = [f"-lns3-{library}" for library in NS3_LIBRARIES]
        # -O2 like Debian's own libraries.
        _output(["g++", "-O2", "-o", program, HERE / "path.cc", *libraries])
        for algorithm, loss_percent in NS3_CASES:
            row: dict[str, Any] = {
                "rate_mbit": NS3_RATE_MBIT, "algorithm": algorithm, "loss_percent": loss_percent,
                **dict.fromkeys(NS3_FOUND),
            }  # fmt: skip
            try:
                found = _ns3_second(program, algorithm, loss_percent, runs)
            except subprocess.TimeoutExpired:
                print(f"speed: ns-3: {algorithm} at {loss_percent} % loss had not ended after "
                      f"{NS3_LIMIT_S} s", file=sys.stderr, flush=True)  # fmt: skip
            else:
                row |= dict(zip(NS3_FOUND, found, strict=True))
            rows.append(row)
    return rows


def _ns3_second(
    program: Path, algorithm: str, loss_percent: float, runs: int
) -> tuple[float, float, float, float]:
    """Measure the cost per second from two durations; return `NS3_FOUND`.

    Raises:
        subprocess.TimeoutExpired: ns-3 needs more than `NS3_LIMIT_S`.
    """
    model = {"cubic": "TcpCubic", "bbr": "TcpBbr"}[algorithm]
    found: dict[int, list[list[float]]] = {duration_s: [] for duration_s in NS3_SPAN_S}
    for _ in range(min(runs, NS3_RUNS)):
        for duration_s in NS3_SPAN_S:
            words = [model, NS3_RATE_MBIT, NS3_RTT_MS, NS3_BUFFER_PACKETS, loss_percent, duration_s]
            said = _output([program, *words], limit_s=NS3_LIMIT_S)
            found[duration_s].append([float(word) for word in said.split()])
    short, long = (
        [statistics.median(column) for column in zip(*found[duration_s], strict=True)]
        for duration_s in NS3_SPAN_S
    )
    seconds, core_s, hops = NS3_SPAN_S[1] - NS3_SPAN_S[0], long[0] - short[0], long[1] - short[1]
    return round(seconds / core_s, 3), round(hops / seconds), round(hops / core_s), long[2]


def statistics_in_r(runs: int) -> dict[str, Any]:
    """Measure the cost of R's statistics of many replicates.

    Raises:
        LosslabError: R failed.
    """
    script = HERE / "statistics.R"
    begin = _children_s()
    text = _output(["Rscript", "--vanilla", script, RECORDED, REPLICATES])
    rows, cells, *seconds = (float(word) for word in text.split())
    return {
        "replicates": round(rows),
        "cells": round(cells),
        **dict(zip(("read_core_s", "summary_core_s", "ratios_core_s"), seconds, strict=True)),
        "with_start_core_s": round(_children_s() - begin, 2),
    }


def snakemake(runs: int) -> dict[str, Any]:
    """Measure Snakemake's cost per cell, in a campaign whose cells take no time."""
    with tempfile.TemporaryDirectory(prefix="losslab-workflow-") as name:
        cells = workflow.stand_in_clone(Path(name), CELLS)
        wall_s, core_s = workflow.run(Path(name))
        _, again_core_s = workflow.run(Path(name))
    return {
        "cells": cells,
        "core_s_per_cell": round(core_s / cells, 3),
        "wall_s_per_cell": round(wall_s / cells, 3),
        "nothing_to_do_core_s": round(again_core_s, 1),
    }


def setup(runs: int) -> dict[str, Any]:
    """Measure `make setup` in a clone whose cache has only downloads.

    Raises:
        LosslabError: It failed.
    """
    cache = Path(os.environ.get("LOSSLAB_CACHE", Path.home() / ".cache" / "losslab"))
    with tempfile.TemporaryDirectory(prefix="losslab-setup-") as name:
        clone, fresh = Path(name) / "clone", Path(name) / "cache"
        _output(["git", "clone", "--quiet", ROOT, clone])
        fresh.mkdir()
        if (cache / "files").is_dir():
            shutil.copytree(cache / "files", fresh / "files", copy_function=os.link)
        begin, core_begin = time.monotonic(), _children_s()
        _output(["make", "-C", clone, "setup"], LOSSLAB_CACHE=str(fresh))
        return {
            "wall_s": round(time.monotonic() - begin),
            "core_s": round(_children_s() - core_begin),
        }


def own_algorithm(runs: int) -> dict[str, Any]:
    """Time the way to the first number of a new algorithm, on a machine after `make setup`.

    Raises:
        LosslabError: A command failed.
    """
    times: dict[str, list[float]] = {"new_s": [], "first_number_s": [], "next_number_s": []}
    with tempfile.TemporaryDirectory(prefix="losslab-algorithm-") as name:
        clone = Path(name) / "clone"
        _output(["git", "clone", "--quiet", ROOT, clone])
        for number in range(runs):
            # A name that no earlier run had: the cache keeps every kernel.
            algorithm = f"t{uuid.uuid4().hex[:8]}"
            commands = {
                "new_s": ["new", "algorithm", algorithm],
                "first_number_s": ["measure", "--algorithm", algorithm, "--out", f"{number}-1"],
                "next_number_s": ["measure", "--algorithm", algorithm, "--out", f"{number}-2"],
            }
            for what, words in commands.items():
                begin = time.monotonic()
                command = [sys.executable, "-m", "losslab.cli", *words]
                _output(command, cwd=clone, PYTHONPATH=str(clone / "src"))
                times[what].append(time.monotonic() - begin)
            source = clone / "algorithms" / algorithm / f"tcp_{algorithm}.c"
            made = replace(kernels.default(), algorithms=(source,))
            shutil.rmtree(kernel.target(made))
    return {what: round(statistics.median(values), 1) for what, values in times.items()}


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _output(
    words: list[Any], limit_s: float | None = None, cwd: Path = ROOT, **variables: str
) -> str:
    """Run a program, in the project's folder by default; return its output.

    Raises:
        LosslabError: It failed.
    """
    command = [str(word) for word in words]
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | variables, capture_output=True, text=True, check=False,
        timeout=limit_s,
    )  # fmt: skip
    if done.returncode:
        raise LosslabError(f"{command[0]} must succeed, found:\n{done.stderr[-2000:]}")
    return done.stdout
