"""What loss costs, in a minute: CUBIC and BBR at 0, 1 and 5 %, as a table and a figure."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign.cellrun import finished
from losslab.campaign.collect import write_csv
from losslab.campaign.folder import MANIFEST_FILE
from losslab.campaign.instrument import instrument
from losslab.errors import LosslabError
from losslab.screen import canvas, plot
from losslab.study.condition import AXES, Condition

ALGORITHMS = ("cubic", "bbr")
LOSSES_PERCENT = (0.0, 1.0, 5.0)
SEEDS = (1, 2, 3)
# A path on which every run takes two seconds of wall time: 40 ms are a continent's width, and the
# buffer holds what they and the rate have under way, 500 kB in packets of 1,500 bytes.
PATH = {"rate_mbit": 100.0, "rtt_ms": 40.0, "buffer_packets": 333, "duration_s": 10.0}
COLUMNS = (
    "algorithm", "loss_percent", "n_runs", "n_valid", "goodput_mbit", "least_mbit", "most_mbit",
    "retransmits", "rtt_loaded_ms",
)  # fmt: skip
RUN_COLUMNS = ("algorithm", "loss_percent", "seed", "goodput_mbit", "rate_mbit", "rtt_ms")
BAR_WIDTH = 24
POLL_S = 0.05


@dataclass(frozen=True)
class Measurement:
    """One run of the demo."""

    condition: Condition
    seed: int
    out: Path


def plan(folder: Path) -> list[Measurement]:
    """List the demo's runs."""
    return [
        Measurement(
            Condition.from_json({"algorithm": algorithm, "loss_percent": loss_percent, **PATH}),
            seed,
            folder / "runs" / f"{algorithm}-loss{loss_percent:g}-seed{seed}",
        )
        for loss_percent in LOSSES_PERCENT
        for algorithm in ALGORITHMS
        for seed in SEEDS
    ]


def command(condition: Condition, seed: int, out: Path) -> list[str]:
    """Write the arguments of `losslab` that measure a condition."""
    options = [
        word
        for name, its in AXES.items()
        if (value := getattr(condition, name)) != its.default
        for word in (
            f"--{name.replace('_', '-')}",
            f"{value:g}" if isinstance(value, float) else str(value),
        )
    ]
    return ["measure", *options, "--seed", str(seed), "--out", str(out)]


def measure(todo: Sequence[Measurement]) -> None:
    """Measure what is not there yet, a run per processor at a time.

    Raises:
        LosslabError: a run left no result.
    """
    tools = instrument(VIRTUAL, GUEST)
    left = [each for each in todo if not finished(each.out, each.condition, each.seed, tools)]
    for each in left:
        shutil.rmtree(each.out, ignore_errors=True)  # of another version of losslab
    total, running = len(left), dict[processes.Process, Measurement]()
    with tempfile.TemporaryDirectory(prefix="losslab-demo-") as logs:
        try:
            while left or running:
                while left and len(running) < len(os.sched_getaffinity(0)):
                    each = left.pop(0)
                    running[_start(each, Path(logs, each.out.name))] = each
                for process in [one for one in running if one.poll() is not None]:
                    ended = running.pop(process)
                    _require(ended, Path(logs, ended.out.name))
                    _say(total - len(left) - len(running), total)
                time.sleep(POLL_S)
        finally:
            for process in running:
                processes.end_session(process, processes.PATIENCE_S)


def _start(each: Measurement, log: Path) -> processes.Process:
    each.out.parent.mkdir(parents=True, exist_ok=True)
    words = command(each.condition, each.seed, each.out)
    with log.open("wb") as console:
        return processes.spawn([sys.executable, "-m", "losslab.cli", *words], console=console)


def _require(each: Measurement, log: Path) -> None:
    """Require a result; an invalid run is one, too.

    Raises:
        LosslabError: there is none.
    """
    if not (each.out / MANIFEST_FILE).is_file():
        said = log.read_text(errors="replace").strip().removeprefix("losslab: error: ")
        raise LosslabError(
            f"each of the demo's runs must leave a result, {each.out} has none: {said}",
            hint=".venv/bin/losslab doctor says what is missing here",
        )


def _say(done: int, total: int) -> None:
    """Keep one line up to date; where there is no terminal, say the end alone."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rlosslab: measured {done} of {total} runs", end=end, file=sys.stderr, flush=True)
    elif done == total:
        print(f"losslab: measured {total} runs", file=sys.stderr)


def read(runs: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Sum the runs up by algorithm and loss; only valid ones count."""
    rows = []
    for loss_percent in LOSSES_PERCENT:
        for algorithm in ALGORITHMS:
            wanted = (algorithm, loss_percent)
            manifests = [
                json.loads((run.out / MANIFEST_FILE).read_text())
                for run in runs
                if (run.condition.algorithm, run.condition.loss_percent) == wanted
            ]
            valid = [manifest["summary"] for manifest in manifests if manifest["valid"]]
            goodputs = [summary["goodput_mbit"] for summary in valid]
            rows.append(
                {
                    "algorithm": algorithm,
                    "loss_percent": loss_percent,
                    "n_runs": len(manifests),
                    "n_valid": len(valid),
                    "goodput_mbit": _mean(goodputs),
                    "least_mbit": min(goodputs, default=None),
                    "most_mbit": max(goodputs, default=None),
                    "retransmits": _mean([summary["retransmits"] for summary in valid]),
                    "rtt_loaded_ms": _mean([summary["rtt_loaded_ms"] for summary in valid]),
                    "reasons": [why for manifest in manifests for why in manifest["reasons"]],
                    "goodputs": goodputs,
                }
            )
    return rows


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def write(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write table and figure; return their files."""
    table = folder / "goodput.csv"
    write_csv(table, COLUMNS, [dict(row) for row in rows])
    figures = [folder / "goodput.svg", folder / "goodput.png"]
    points = [
        {**row, **PATH, "seed": seed, "goodput_mbit": value}
        for row in rows
        for seed, value in enumerate(row["goodputs"])
    ]
    if not points:
        return [table]
    plot.draw("demo.R", RUN_COLUMNS, points, figures)
    return [table, *figures]


def text(rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> str:
    """Write the result for a terminal: table, bars, and what it says.

    Args:
        rows: What `read` found.
        labels: Algorithms' names as they are written.
    """
    goodput = {(row["algorithm"], row["loss_percent"]): row["goodput_mbit"] for row in rows}
    counts = sorted({row["n_valid"] for row in rows})
    n = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    lines = [
        f"One flow over {PATH['rate_mbit']:g} Mbit/s and {PATH['rtt_ms']:g} ms, a buffer of "
        f"{PATH['buffer_packets']} packets, {PATH['duration_s']:g} s",
        f"Goodput at the receiver in Mbit/s after {AXES['warmup_s'].default:g} s of warm-up, mean "
        f"of runs with different seeds, {n}",
        "",
        "  loss  "
        + "".join(f"{labels[name]:<{BAR_WIDTH + 8}}" for name in ALGORITHMS)
        + f"{labels['bbr']} / {labels['cubic']}",
    ]
    for loss_percent in LOSSES_PERCENT:
        parts = [f"  {loss_percent:>2g} %  "]
        for name in ALGORITHMS:
            value = goodput[name, loss_percent]
            drawn = "" if value is None else canvas.bar(value / PATH["rate_mbit"], BAR_WIDTH)
            number = "none" if value is None else f"{value:.1f}"
            parts.append(f"{number:>5} {drawn:<{BAR_WIDTH + 2}}")
        cubic, bbr = goodput["cubic", loss_percent], goodput["bbr", loss_percent]
        parts.append(f"{bbr / cubic:.3g}" if cubic and bbr else "")
        lines.append("".join(parts).rstrip())
    lines.append("")
    lines += [
        f"  {labels[name]}: 1 % of loss takes {_taken(goodput, name, 1.0)} of its goodput, "
        f"5 % take {_taken(goodput, name, 5.0)}."
        for name in ALGORITHMS
        if all(goodput[name, loss_percent] for loss_percent in LOSSES_PERCENT)
    ]
    lines += [
        f"  INVALID, not in these numbers: {row['algorithm']}, {row['loss_percent']:g} %: {why}"
        for row in rows
        for why in row["reasons"]
    ]
    return "\n".join(lines)


def _taken(goodput: Mapping[tuple[str, float], float], name: str, loss_percent: float) -> str:
    """Say how much of an algorithm's goodput a loss takes."""
    return f"{100 * (1 - goodput[name, loss_percent] / goodput[name, 0.0]):.0f} %"


def next_steps(folder: Path) -> str:
    """Say what to try next."""
    runs = {run.out.name: run for run in plan(folder)}
    one, other = runs["cubic-loss1-seed1"], runs["bbr-loss1-seed1"]
    reno = Condition.from_json(one.condition.to_json() | {"algorithm": "reno"})
    tool = ".venv/bin/losslab"
    steps = {
        f"{tool} plot {one.out} {other.out}": "the windows, the queue and the RTT behind it",
        " ".join([tool, *command(reno, 1, Path("my-run"))]): "a run of your own",
        f"{tool} rerun {other.out}": "the same run again: the same bytes",
        f"{tool} shell --loss-percent 1 --rtt-ms 40": "the path itself, with ping, tc and ss",
        "make report": "the quick campaign: its studies, their claims",
    }
    lines = [f"  {words}\n      {what}" for words, what in steps.items()]
    return "\n".join(["What to try next", *lines])
