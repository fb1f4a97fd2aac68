"""`losslab init --paper`: the paper that its CI makes, in a new folder."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(sys.executable).parent


def run(folder, *words):
    """Run a command; return its output."""
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
    )  # fmt: skip
    logs = "\n".join(path.read_text() for path in (folder / "logs").rglob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    return done.stdout


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="scripts/packages.sh latex")
def test_quick_paper_has_the_measured_numbers(tmp_path):
    run(tmp_path, "losslab", "init", "paper", "--paper")
    folder = tmp_path / "paper"
    run(folder, "snakemake", "--cores", "2", "--configfile", "config/quick.yaml")
    macros = dict(
        re.findall(
            r"^\\newcommand{\\(\w+)}{(.*)}$", (folder / "paper/numbers.tex").read_text(), re.M
        )
    )
    assert macros["ClaimFills"] == "reproduced"
    assert macros["CubicLossyRuns"] == "5"
    assert 0 < float(macros["CubicLossy"]) < float(macros["CubicClean"]) < 20
    assert (folder / "paper/paper.pdf").read_bytes().startswith(b"%PDF")
    log = (folder / "paper/paper.log").read_text()
    assert "undefined" not in log
    assert "results/figures/mine/goodput.pdf" in log
