"""A copy of the project whose cells take no time, to measure Snakemake alone."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import yaml

from losslab.repository import ROOT
from losslab.study import design

COPIED = (
    "Snakefile", "analysis", "config", "containers", "profiles", "report", "scripts", "src",
    "tests", "workflow", "README.md", "pyproject.toml",
)  # fmt: skip
# Replaces `losslab`; the last argument is the path of the file to write.
STAND_IN = '#!/bin/sh\nfor out; do :; done\necho {} >"$out"\n'


def campaign(cells: int) -> dict[str, object]:
    """Return a campaign of about `cells` cells, from the largest blocks of the studies."""
    blocks = [
        ("score", "fifo-wide"), ("map", "imc"), ("map", "grid"), ("loss", "main"),
        ("map", "shallow-paused"), ("loss", "sensitivity"), ("score", "crowd-large"),
    ]  # fmt: skip
    studies: dict[str, dict[str, object]] = defaultdict(dict)
    for study, block in blocks:
        studies[study][block] = {"replicates": 1, "duration_s": 5, "warmup_s": 0}
        if len(design.load_cells({"studies": dict(studies)}, ROOT)) >= cells:
            break
    return {"studies": dict(studies)}


def stand_in_clone(folder: Path, cells: int) -> int:
    """Copy the project with stand-ins for measuring; return its number of cells."""
    for name in COPIED:
        source = ROOT / name
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
    return len(design.load_cells(content, ROOT))


def run(folder: Path) -> tuple[float, float]:
    """Run the clone's workflow up to its cells; return wall and CPU seconds."""
    variables = {"PYTHONPATH": str(folder / "src"), "LOSSLAB_CACHE": str(folder / "cache")}
    command = ["environment/bin/python", "-m", "snakemake", "--cores", "2", "--no-hooks"]
    command += ["--configfile", "config/many.yaml", "--until", "measure_cell"]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=folder, env=os.environ | variables, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begin, processor_s
