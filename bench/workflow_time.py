"""What the workflow itself costs, besides measuring: `python -m bench.workflow_time`.

Snakemake's own time per cell, at many cells that a stand-in "measures" at once; how long it then
takes to find nothing to do; and, of a folder in which a campaign ran, the seconds that the jobs of
each rule took, as Snakemake noted them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import yaml

from losslab.study import design

COPIED = (
    "Snakefile", "analysis", "config", "containers", "profiles", "report", "scripts", "src",
    "tests", "workflow", "README.md", "pyproject.toml",
)  # fmt: skip
# In place of `losslab`; the last of its words is the name of the file that it is to write.
STAND_IN = '#!/bin/sh\nfor out; do :; done\necho {} >"$out"\n'


def campaign(cells: int) -> dict[str, object]:
    """Name so many cells: all of the map's largest block, and of others until it is enough."""
    blocks = [("map", "imc"), ("map", "grid"), ("loss", "main"), ("loss", "sensitivity")]
    studies: dict[str, dict[str, object]] = defaultdict(dict)
    for study, block in blocks:
        studies[study][block] = {"replicates": 1, "duration_s": 5, "warmup_s": 0}
        if len(design.load_cells({"studies": dict(studies)}, design.ROOT)) >= cells:
            break
    return {"studies": dict(studies)}


def stand_in_clone(folder: Path, cells: int) -> int:
    """Copy the project into a folder where nothing is measured; return how many cells it has."""
    for name in COPIED:
        source = design.ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    content = campaign(cells)
    (folder / "config" / "many.yaml").write_text(yaml.safe_dump(content))
    programs = folder / "environment" / "bin"
    programs.mkdir(parents=True)
    (programs.parent / "lib").symlink_to(Path(sys.prefix) / "lib")
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", programs.parent)
    (programs / "python").symlink_to(Path(sys.prefix) / "bin" / "python")
    (programs / "losslab").write_text(STAND_IN)
    (programs / "losslab").chmod(0o755)
    return len(design.load_cells(content, design.ROOT))


def run(folder: Path) -> tuple[float, float]:
    """Run the clone's workflow up to its cells; return wall and processor seconds."""
    variables = {"PYTHONPATH": str(folder / "src"), "LOSSLAB_CACHE": str(folder / "cache")}
    command = ["environment/bin/python", "-m", "snakemake", "--cores", "2", "--no-hooks"]
    command += ["--configfile", "config/many.yaml", "--until", "measure_cell"]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=folder, env=os.environ | variables, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begin, processor_s


def noted(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Read from Snakemake's notes when the jobs of each rule began and ended."""
    jobs: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for file in (folder / ".snakemake" / "metadata").glob("**/*"):
        if file.is_file():
            note = json.loads(file.read_text())
            if note.get("endtime") is not None:
                # A note per output; those of a job have its log. The last one is of its last run.
                times, job = jobs[note["rule"]], " ".join(note["log"])
                run = note["starttime"], note["endtime"]
                times[job] = max(times.get(job, run), run, key=lambda pair: pair[1])
    return {rule: sorted(times.values()) for rule, times in jobs.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print Snakemake's cost per cell, and the rules' of a campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=800, help="at least; 0: do not try")
    parser.add_argument("--campaign", type=Path, help="folder in which a campaign ran")
    options = parser.parse_args(arguments)
    if options.cells:
        with tempfile.TemporaryDirectory(prefix="losslab-workflow-") as name:
            cells = stand_in_clone(Path(name), options.cells)
            wall_s, processor_s = run(Path(name))
            print(
                f"{cells} cells: {wall_s / cells:.3f} s each on the clock, "
                f"{processor_s / cells:.3f} s of a processor"
            )
            wall_s, processor_s = run(Path(name))
            print(f"nothing to do: {wall_s:.1f} s, {processor_s:.1f} s of a processor")
    if options.campaign:
        rules = noted(options.campaign)
        print(f"{'rule':24} jobs   sum_s  from first to last_s")
        for rule, times in sorted(rules.items(), key=lambda item: item[1][0]):
            total_s = sum(end - begin for begin, end in times)
            span_s = max(end for _, end in times) - times[0][0]
            print(f"{rule:24} {len(times):4d} {total_s:7.1f} {span_s:7.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
