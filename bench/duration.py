"""Duration of a campaign: `python -m bench.duration [--config config/campaigns/quick.yaml]`.

The estimate is from the configuration alone (`losslab.campaign.cost`). With a results folder, the
table also has the CPU time that its replicates took over their estimate, and their number, and a
line has the constants that fit this machine best.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from losslab.backends.base import VIRTUAL
from losslab.campaign import cost, plan
from losslab.campaign.results import HOST_FILE, MANIFEST_FILE
from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.repository import ROOT
from losslab.study import background, design, features
from losslab.study.condition import Condition
from losslab.study.design import Cell


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row per block, the sum, and the duration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=ROOT / "config/campaigns/quick.yaml")
    parser.add_argument("--results", type=Path, help="a results folder of this campaign")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args(arguments)
    # Cells, core-seconds at least and at most, and what replicates took and were estimated to take.
    rows: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    ratios: dict[str, list[float]] = defaultdict(list)
    bulk: list[tuple[Condition, float, float]] = []  # with its goodput in Mbit/s and CPU time in s
    for cell in design.load_cells(plan.with_hosts(read_yaml(options.config)), ROOT):
        one_s = cost.replicate_s(cell.condition, cell.backend)
        if cell.real_time:
            one_s = cell.condition.duration_s
        runs = cell.stopping.minimum, cell.stopping.maximum
        new = [1, *(cost.CELL_S[cell.backend] + number * one_s for number in runs)]
        for name in (f"{cell.study} {cell.block}", "total"):
            rows[name] = [old + more for old, more in zip(rows[name], new, strict=True)]
            folder = (options.results or Path()) / "cells" / cell.study / cell.name
            for file in folder.glob(f"*/{HOST_FILE}") if options.results else ():
                host = json.loads(file.read_text())
                # Runs of older versions have only the wall time, which includes other load.
                used_s = host.get("cpu_s", host["wall_s"])
                ratios[name] += [] if used_s is None else [used_s / one_s]
                if name == "total" and used_s is not None and _is_bulk(cell):
                    manifest = json.loads((file.parent / MANIFEST_FILE).read_text())
                    if goodput_mbit := manifest["summary"].get("total_goodput_mbit"):
                        bulk.append((cell.condition, goodput_mbit, used_s))
    rows["total"] = rows.pop("total")
    print(f"{'':32} cells  core_s" + ("  measured / estimated (n)" if options.results else ""))
    for name, (cells, *span) in rows.items():
        found = ratios[name]
        took = f"  {sum(found) / len(found):.2f} ({len(found)})" if found else ""
        print(f"{name:32} {cells:5.0f}  {_span(*span)}{took}")
    slower = cost.SIDE_BY_SIDE if options.cores > 1 else 1.0
    span = [seconds * slower / options.cores / 60 for seconds in rows["total"][1:]]
    if bulk:
        fixed_s, awake_per_s, per_gb_s = fit(bulk)
        print(
            f"least squares on {len(bulk)} replicates of iperf3 without other flows: "
            f"FIXED_S {fixed_s:.2g}, AWAKE_PER_S {awake_per_s:.2g}, PER_GB_S {per_gb_s:.2g}"
        )
    print(f"{_span(*span)} min of measuring on {options.cores} cores that have nothing else to do")
    return 0


def _is_bulk(cell: Cell) -> bool:
    """Return whether a cell costs what `cost.py` assumes of each second and byte, and no more."""
    c = cell.condition
    return (
        cell.backend == VIRTUAL
        and c.app == "iperf3"
        and not background.parse(c.flows)
        and not any(feature.per_gb_s for feature in features.used_by(c))
    )


def fit(bulk: Sequence[tuple[Condition, float, float]]) -> tuple[float, float, float]:
    """Return the seconds that a replicate, a second with busy hosts and a gigabyte cost.

    Args:
        bulk: conditions with their goodputs in Mbit/s and CPU times in s.
    """
    causes = [
        (1.0, c.duration_s * min(1.0, mbit / cost.AWAKE_MBIT), mbit * c.duration_s / 8000)
        for c, mbit, _ in bulk
    ]
    fixed_s, awake_per_s, per_gb_s = np.linalg.lstsq(causes, [cpu_s for *_, cpu_s in bulk])[0]
    return float(fixed_s), float(awake_per_s), float(per_gb_s)


def _span(least: float, most: float) -> str:
    return f"{least:.0f}" if f"{least:.0f}" == f"{most:.0f}" else f"{least:.0f} to {most:.0f}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LosslabError as error:
        sys.exit(f"duration: error: {error}")
