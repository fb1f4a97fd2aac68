"""How long a campaign takes, extrapolated from a sample of its cells: `python -m bench.grid_time`.

Draws cells of a campaign with a fixed seed, measures one replicate of each, one at a time, and
multiplies. Replicates that an adaptive rule adds are counted at the least and at the most.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from losslab.campaign.instrument import instrument, video
from losslab.campaign.replicate import run
from losslab.study import design
from losslab.study.seeds import replicate_seed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the sample and print the extrapolation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=design.ROOT / "config" / "imc.yaml")
    parser.add_argument("--block", default="imc")
    parser.add_argument("--sample", type=int, default=24, help="cells to measure")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args(arguments)
    cells = design.load_cells(design.load_yaml(options.config), design.ROOT)
    cells = [cell for cell in cells if cell.block == options.block]
    if not cells or options.sample < 2:
        parser.error(
            "--block must name a block of --config, and --sample be 2 or more for an error of the "
            f"mean; found block {options.block} with {len(cells)} cells and sample {options.sample}"
        )
    chosen = random.Random(1).sample(cells, min(options.sample, len(cells)))
    tools = instrument()
    # Encoded once per campaign: not part of a replicate's time.
    movies = {
        cell.name: video(cell.condition.video, cell.condition.duration_s, tools)
        for cell in chosen
        if cell.condition.app == "ffmpeg"
    }
    times_s: list[float] = []
    with tempfile.TemporaryDirectory(prefix="losslab-grid-") as folder:
        for number, cell in enumerate(chosen):
            begin = time.monotonic()
            seed = replicate_seed(cell.condition, 0)
            out = Path(folder) / str(number)
            manifest = run(cell.condition, seed, out, tools, movies.get(cell.name))
            times_s.append(time.monotonic() - begin)
            verdict = "valid" if manifest["valid"] else "; ".join(manifest["reasons"])
            print(f"{times_s[-1]:7.1f} s  {cell.name}  {verdict}", flush=True)
    mean_s = statistics.fmean(times_s)
    error_s = statistics.stdev(times_s) / len(times_s) ** 0.5
    print(
        f"{len(times_s)} of {len(cells)} cells: {mean_s:.1f} +- {error_s:.1f} s per replicate "
        "(standard error)"
    )
    for words, count in (
        ("at the least", sum(cell.stopping.least for cell in cells)),
        ("at the most", sum(cell.stopping.most for cell in cells)),
    ):
        hours = count * mean_s / 3600 / options.cores
        print(f"{words} {count} replicates: {hours:.1f} h on {options.cores} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
