"""Measure cells drawn from a record again, and compare their bytes with it.

`python -m bench.recorded --config config/quick.yaml docs/results/quick.tsv` draws 40 cells,
measures them in a new folder, and exits with 1 unless all have the recorded bytes. Another `--seed`
draws other cells.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path

from losslab.campaign import cellrecord
from losslab.ui import difftable

ROOT = Path(__file__).resolve().parents[1]


def drawn(names: list[str], count: int, seed: int) -> list[str]:
    """Draw cells by name; all of them if there are no more than `count`."""
    return sorted(random.Random(seed).sample(sorted(names), min(count, len(names))))


def measure(cells: list[str], config: Path, folder: Path, cores: int) -> None:
    """Measure cells of a campaign in a folder, by the workflow.

    Raises:
        CalledProcessError: The workflow failed.
    """
    # fmt: off
    subprocess.run(
        [
            Path(sys.executable).with_name("snakemake"), "--quiet", "all", "--cores", str(cores),
            "--snakefile", ROOT / "Snakefile", "--configfile", config.resolve(),
            "--directory", folder, *(f"results/cells/{cell}/cell.json" for cell in cells),
        ],
        check=True,
    )
    # fmt: on


def main() -> None:
    """Draw, measure and compare."""
    parser = argparse.ArgumentParser(prog="recorded.py", description=__doc__)
    parser.add_argument("record", type=Path, help="docs/results/NAME.tsv")
    parser.add_argument("--config", type=Path, required=True, help="the campaign's configuration")
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("recorded"), help="folder; it may exist")
    options = parser.parse_args()
    cells = drawn([*cellrecord.read(options.record)], options.cells, options.seed)
    options.out.mkdir(exist_ok=True)
    measure(cells, options.config, options.out, options.cores)
    found = cellrecord.compare(options.out / "results", options.record, common=True)
    print(difftable.text(found))
    sys.exit(0 if found.agree and len(found.cells) == len(cells) else 1)


if __name__ == "__main__":
    main()
