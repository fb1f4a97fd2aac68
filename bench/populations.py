"""Measure cells so often that they stand for all their runs: `python -m bench.populations`.

`bench/coverage.R` draws from these populations. Each is one kind of what the studies measure: CUBIC
under light random loss, CUBIC that lives from timeouts, BBR, Reno that follows a formula, the time
of a page behind a long queue with its two modes, and the fairness of two flows, which cannot exceed
one. It writes `bench/populations.csv`; finished replicates in `--folder` are kept.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from losslab.campaign.cellrun import cell_result, run_cell
from losslab.campaign.instrument import instrument
from losslab.study import design
from losslab.study.condition import Condition
from losslab.study.stopping import StoppingRule

OUT = Path(__file__).parent / "populations.csv"
# A population's name to its metric and to what its cell is called in config/quick.yaml.
POPULATIONS = {
    "CUBIC, 1 % loss": (
        "goodput_mbit", "loss", dict(algorithm="cubic", loss_percent=1, app="iperf3")
    ),
    "CUBIC, 10 % loss": (
        "goodput_mbit", "loss", dict(algorithm="cubic", loss_percent=10, app="iperf3")
    ),
    "BBR, 10 % loss": (
        "goodput_mbit", "loss", dict(algorithm="bbr", loss_percent=10, app="iperf3")
    ),
    "Reno, 1 % loss, 100 ms": (
        "goodput_mbit", "calibration", dict(algorithm="reno", loss_percent=1, rtt_ms=100)
    ),
    "Page behind Reno": (
        "download_s", "bufferbloat",
        dict(algorithm="reno", competitor="reno", buffer_packets=100, queue="fifo", app="web"),
    ),
    "Two CUBIC flows": (
        "jain_index", "calibration", dict(algorithm="cubic", competitor="cubic"),
    ),
}  # fmt: skip


def condition_of(study: str, axes: dict[str, object]) -> Condition:
    """Find the first cell of the quick campaign's study that has these values of its axes."""
    campaign = design.load_yaml(design.ROOT / "config" / "quick.yaml")
    studies = {its.name: its for its in design.load_studies(campaign, design.ROOT)}
    for cell in studies[study].cells:
        values = cell.condition.to_json()
        if all(values[axis] == value for axis, value in axes.items()):
            return cell.condition
    raise LookupError(f"{study} must have a cell with {axes}, found none")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where replicates are kept")
    parser.add_argument("--replicates", type=int, default=120)
    options = parser.parse_args(arguments)
    rows = []
    for name, (metric, study, axes) in POPULATIONS.items():
        condition = condition_of(study, axes)
        folder = options.folder / name.lower().replace(",", "").replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        rule = StoppingRule(options.replicates, options.replicates, None)
        count = run_cell(condition, folder, rule, instrument())
        found = cell_result(study, "bench", condition, folder, count)["replicates"]
        for number, row in enumerate(found):
            if row["valid"]:
                rows.append({
                    "population": name, "metric": metric, "replicate": number,
                    "value": json.dumps(round(row["summary"][metric], 6)),
                })  # fmt: skip
    with OUT.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
