"""Gather a study's replicates into three tidy tables for the statistics."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

AXES = (
    "algorithm",
    "loss_percent",
    "path",
    "app",
    "rtt_ms",
    "rate_mbit",
    "buffer_packets",
    "offloads",
    "duration_s",
    "warmup_s",
)
METRICS = (
    "goodput_mbit",
    "retransmits",
    "rtt_measured_ms",
    "rtt_loaded_ms",
    "loss_measured_percent",
    "time_to_first_frame_s",
    "stall_count",
    "stall_s",
    "frames_on_time_percent",
    "frames_delivered_percent",
    "completion_s",
    "throughput_mbit",
)
REPLICATE_COLUMNS = (
    "study", "block", "cell", *AXES, "replicate", "seed", "valid", "reasons", *METRICS
)  # fmt: skip
SHARED = ("block", "cell", "algorithm", "loss_percent", "path", "app", "rtt_ms", "offloads")
INTERVAL_COLUMNS = (*SHARED, "replicate", "t_s", "goodput_mbit")
CWND_COLUMNS = (
    "cell", "algorithm", "loss_percent", "path", "replicate", "t_s", "cwnd_packets",
    "ssthresh_packets", "srtt_ms",
)  # fmt: skip
# The losses whose congestion window the source's readers would want to see.
CWND_LOSSES_PERCENT = (0, 1, 5)


def write_tables(cells: Sequence[Path], replicates: Path, intervals: Path, cwnd: Path) -> None:
    """Write the three tables from cell.json files and the replicate folders beside them."""
    replicate_rows: list[dict[str, Any]] = []
    interval_rows: list[dict[str, Any]] = []
    cwnd_rows: list[dict[str, Any]] = []
    for path in cells:
        cell = json.loads(path.read_text())
        condition = cell["condition"]
        shared = {"block": cell["block"], "cell": cell["cell"], **condition}
        for number, replicate in enumerate(cell["replicates"]):
            folder = path.parent / str(number)
            summary = replicate["summary"]
            replicate_rows.append(
                {
                    **shared,
                    **{name: summary.get(name) for name in METRICS},
                    "study": cell["study"],
                    "replicate": number,
                    "seed": replicate["seed"],
                    "valid": "TRUE" if replicate["valid"] else "FALSE",
                    "reasons": "; ".join(replicate["reasons"]),
                    "rtt_measured_ms": summary.get("rtt_ms"),
                }
            )
            if not replicate["valid"] or condition["app"] != "iperf3":
                continue
            for t_s, goodput_mbit in one_second_means(
                read_csv(folder / "intervals.csv"), condition["warmup_s"], condition["duration_s"]
            ):
                interval_rows.append(
                    {**shared, "replicate": number, "t_s": t_s, "goodput_mbit": goodput_mbit}
                )
            if (
                cell["block"] == "main"
                and number == 0
                and condition["loss_percent"] in CWND_LOSSES_PERCENT
            ):
                cwnd_rows += [
                    {**shared, "replicate": number, **row}
                    for row in bulk_flow(read_csv(folder / "tcp.csv"))
                ]
    _write(replicates, REPLICATE_COLUMNS, replicate_rows)
    _write(intervals, INTERVAL_COLUMNS, interval_rows)
    _write(cwnd, CWND_COLUMNS, cwnd_rows)


def one_second_means(
    rows: Sequence[dict[str, str]], warmup_s: float, duration_s: float
) -> list[tuple[int, float]]:
    """Average 0.1 s goodputs into whole seconds between the warm-up and the end.

    Returns:
        (end of the second, mean goodput in Mbit/s); the last 0.1 s may be missing from the last.
    """
    seconds: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        middle = float(row["t_s"]) - 0.05
        if warmup_s <= middle < duration_s:
            seconds[int(middle) + 1].append(float(row["goodput_mbit"]))
    return [(end, sum(values) / len(values)) for end, values in sorted(seconds.items())]


def bulk_flow(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Keep iperf3's data flow, not its control connection."""
    from losslab.apps.iperf3 import FLOW_PORT

    return [row for row in rows if row["flow"] == str(FLOW_PORT)]


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read a table as a list of rows."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
