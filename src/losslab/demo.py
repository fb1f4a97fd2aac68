"""`losslab demo`: a sweep that shows how loss affects CUBIC and BBR."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from losslab import sweeps
from losslab.emulation.goodput import read_rows
from losslab.reading import out_folder
from losslab.ui.plot import say

LABELS = {"cubic": "CUBIC", "bbr": "BBR"}
LOSSES_PERCENT = (0, 1, 5)
# Each run takes about two seconds of wall time. An RTT of 40 ms spans a continent. The buffer holds
# one bandwidth-delay product: 500 kB in packets of 1,500 bytes.
PATH = {"rate-mbit": 100, "rtt-ms": 40, "buffer-packets": 333, "duration-s": 10}
REPLICATES = 5  # the fewest with a confidence interval


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `demo`."""
    parser = commands.add_parser("demo")
    parser.add_argument("--out", type=out_folder, default=Path("results", "demo"), help="folder")
    parser.set_defaults(run=_demo, interrupted=sweeps.KEPT)


def sweep() -> dict[str, list[str | float]]:
    """Return the values of the sweep's axes."""
    path: dict[str, list[str | float]] = {n.replace("-", "_"): [value] for n, value in PATH.items()}
    return {"algorithm": [*LABELS], "loss_percent": [*LOSSES_PERCENT], **path}


def _demo(options: argparse.Namespace) -> int:
    status = sweeps.run(sweep(), REPLICATES, options.out, len(os.sched_getaffinity(0)))
    say(f"\n{text(options.out)}\n\n{next_steps(options.out)}")
    return status


def text(out: Path) -> str:
    """Describe the path and the goodput lost to packet loss, from the sweep's table."""
    rows = read_rows(out / "sweep.csv")
    means = {(row["algorithm"], float(row["loss_percent"])): row["mean"] for row in rows}
    lines = [
        f"One flow over {PATH['rate-mbit']} Mbit/s and {PATH['rtt-ms']} ms, a buffer of "
        f"{PATH['buffer-packets']} packets, {PATH['duration-s']} s"
    ]
    for name, label in LABELS.items():
        goodput_means = [means[name, loss] for loss in LOSSES_PERCENT]
        if not all(goodput_means):
            lines.append(f"{label}: no valid run at some loss rates")
            continue
        lossless, *goodputs = map(float, goodput_means)
        first, *more = (
            f"{loss} % loss costs {100 * (1 - goodput / lossless):.0f} %"
            for loss, goodput in zip(LOSSES_PERCENT[1:], goodputs, strict=True)
        )
        lines.append(f"{label}: {first} of its goodput, {', '.join(more)}.")
    return "\n".join(lines)


def next_steps(out: Path) -> str:
    """List commands to try next."""
    tool = ".venv/bin/losslab"
    cubic, bbr = (sorted((out / "cells").glob(f"{name}_loss1_*"))[0] / "0" for name in LABELS)
    axes = " ".join(["--loss-percent 1", *(f"--{name} {value}" for name, value in PATH.items())])
    steps = {
        f"{tool} plot {cubic} {bbr}": "plot the runs' cwnd, queue and RTT",
        f"{tool} measure --algorithm reno {axes} --out my-run": "measure a run of your own",
        f"{tool} rerun {bbr}": "repeat a run and compare its bytes",
        f"{tool} shell --loss-percent 1 --rtt-ms 40": "explore the path with ping, tc and ss",
        "make report": "measure the quick campaign and write the report",
    }
    return "\n".join(["What to try next", *(f"  {c}\n      {what}" for c, what in steps.items())])
