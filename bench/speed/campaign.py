"""Duration of a campaign: `python -m bench.speed.campaign [--config config/quick.yaml]`.

The estimate is from the configuration alone (`losslab.campaign.cost`). If a results folder has
replicates, the table also has their measured time. Replicates in real time take their own duration.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from losslab.campaign import cost, hosts
from losslab.campaign.folder import HOST_FILE
from losslab.errors import LosslabError
from losslab.repository import ROOT
from losslab.study import design


@dataclass
class Row:
    """Cost of a block's replicates."""

    cells: int = 0
    least: int = 0
    most: int = 0
    emulated_s: float = 0.0
    least_s: float = 0.0
    most_s: float = 0.0
    # Estimated and measured time in s of existing replicates.
    measured: list[tuple[float, float]] = field(default_factory=list)

    def __iadd__(self, other: Row) -> Row:
        """Add another row's costs."""
        for name in ("cells", "least", "most", "emulated_s", "least_s", "most_s", "measured"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def line(self) -> str:
        """Return the numbers as columns."""
        count = str(self.least) if self.most == self.least else f"{self.least}-{self.most}"
        text = f"{self.cells:6d} {count:>9} {self.emulated_s:10.0f} {self.least_s:9.0f}"
        if self.measured:
            estimated_s, measured_s = (sum(column) for column in zip(*self.measured, strict=True))
            text += f" {len(self.measured):9d} {estimated_s:9.0f} {measured_s:9.0f}"
            text += f" {measured_s / estimated_s:6.2f}"
        return text


def cost_of(cell: design.Cell, results: Path | None) -> Row:
    """Return a cell's estimated cost, and the measured time of its replicates."""
    one_s = cost.replicate_s(cell.condition, cell.backend)
    if cell.real_time:
        one_s = cell.condition.duration_s
    cell_s = cost.CELL_S[cell.backend]
    least, most = cell.stopping.minimum, cell.stopping.maximum
    emulated_s = least * cell.condition.duration_s
    row = Row(1, least, most, emulated_s, cell_s + least * one_s, cell_s + most * one_s)
    if results is not None:
        folder = results / "cells" / cell.study / cell.name
        for file in folder.glob(f"*/{HOST_FILE}"):
            wall_s = json.loads(file.read_text())["wall_s"]
            if wall_s is not None:
                row.measured.append((one_s, wall_s))
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row per block, the sum, and the duration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=ROOT / "config" / "quick.yaml")
    parser.add_argument("--results", type=Path, help="a results folder of this campaign")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args(arguments)
    blocks: dict[tuple[str, str], Row] = defaultdict(Row)
    for cell in design.load_cells(hosts.chosen(design.load_yaml(options.config)), ROOT):
        blocks[cell.study, cell.block] += cost_of(cell, options.results)
    head = "cells replicates emulated_s  core_s"
    print(f"{'':32} {head}" + ("  measured estimated_s  took_s  ratio" if options.results else ""))
    total = Row()
    for (study, block), row in blocks.items():
        print(f"{study + ' ' + block:32}{row.line()}")
        total += row
    print(f"{'total':32}{total.line()}")
    slower = cost.SIDE_BY_SIDE if options.cores > 1 else 1.0
    minutes = [s * slower / options.cores / 60 for s in (total.least_s, total.most_s)]
    span = f"{minutes[0]:.1f}" + (f" to {minutes[1]:.1f}" if total.most > total.least else "")
    print(f"{span} min of measuring on {options.cores} cores that have nothing else to do")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LosslabError as error:
        sys.exit(f"campaign: error: {error}")
