"""Short recorded cells of every app, and the tables made from them.

    python -m tests.golden.seam             makes the tables of the recorded cells again
    python -m tests.golden.seam --measure   also measures the cells and the netlink replies again

A metric renamed in the measuring modules, in `losslab collect` or in R changes these tables. If
the change is intended, record them again and give the reason in the commit message. The study is
in tests/golden/study; its cells take half a minute. Large files are compressed.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.golden import without_later_axes
from losslab.campaign import plan, records
from losslab.reading import read_yaml
from losslab.study import design
from tests import madeup, sealed
from tests.golden import netlink

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
STUDY, CELLS, EXPECTED = HERE / "study", HERE / "cells", HERE / "expected"
NAME = "seam"
# Larger files are compressed: nobody reviews them as text.
PLAIN_BYTES = 6_000
# Files of the repository that the analysis needs besides the study's.
NEEDED = ("analysis", "config", "studies", "tests/scripts.R")


def project(folder: Path) -> Path:
    """Write the files of a repository with the study that the analysis needs."""
    for name in NEEDED:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target)
        else:
            shutil.copy(ROOT / name, target)
    shutil.copytree(STUDY, folder, dirs_exist_ok=True)
    return folder


def load_study(folder: Path) -> design.Study:
    """Read the study of a `project`; its own file has the run settings."""
    runs = read_yaml(folder / f"studies/{NAME}/study.yaml")["runs"]
    [study] = design.load_studies({"studies": {NAME: runs}}, folder)
    return study


def unpack(folder: Path, cells: Path = CELLS) -> Path:
    """Unpack the recorded cells in the layout of `losslab cell`."""
    for path in sorted(cells.rglob("*")):
        if path.is_dir():
            continue
        target = folder / path.relative_to(cells)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".gz":
            target.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, target)
    return folder


def pack(folder: Path, cells: Path = CELLS) -> None:
    """Replace the recorded cells by measured ones."""
    shutil.rmtree(cells, ignore_errors=True)
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.name.startswith("."):
            continue
        target = cells / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        if len(content) > PLAIN_BYTES:
            Path(f"{target}.gz").write_bytes(gzip.compress(content, mtime=0))
        else:
            target.write_bytes(content)


def in_plan(project: Path, folder: Path) -> plan.CampaignPlan:
    """Write the plan of the study of a `project` to the results folder in `folder`."""
    runs = read_yaml(project / f"studies/{NAME}/study.yaml")["runs"]
    _, found = plan.make({"studies": {NAME: runs}}, project, records.available)
    found.write(folder / "results")
    return found


def losslab(folder: Path, *words: str) -> None:
    """Run a command in a folder; subprocess.CalledProcessError if it failed."""
    subprocess.run([sys.executable, "-m", "losslab.cli", *words], cwd=folder, check=True)


def measure(project: Path, folder: Path) -> Path:
    """Measure the cells of the study of a `project` with `losslab cell`; return their folder."""
    names = map("/".join, in_plan(project, folder).cells)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: losslab(folder, "cell", name), names))
    return folder / "results/cells" / NAME


def tables(folder: Path) -> dict[str, str]:
    """Make every table of the recorded cells in a new folder; return text by path.

    Raises:
        subprocess.CalledProcessError: `losslab collect` failed.
        RuntimeError: R failed.
    """
    root = project(folder / "project")
    results = folder / "results"
    in_plan(root, folder)
    unpack(results / "cells" / NAME)
    losslab(folder, "collect", NAME)
    job = {"name": NAME, "folder": ".", "studies": [NAME], "until": "claims"}
    done = madeup.run_scripts(root, folder, [job])
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return {
        str(path.relative_to(results)): without_later_axes(path.read_text())
        for path in sorted(results.rglob("*.csv"))
        if not path.is_relative_to(results / "cells")
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the tables, and the cells with --measure."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden.seam", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--measure", action="store_true", help="measure the cells first")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="losslab-seam-") as name:
        folder = Path(name)
        if options.measure:
            cells = measure(project(folder / "project"), folder / "new")
            sealed.forget_host(cells)
            pack(cells)
            netlink.record()
        made = tables(folder / "made")
        shutil.rmtree(EXPECTED, ignore_errors=True)
        for path, text in made.items():
            (EXPECTED / path).parent.mkdir(parents=True, exist_ok=True)
            (EXPECTED / path).write_text(text)
    print(f"recorded in {HERE.relative_to(ROOT)}; say in the commit why numbers changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
