"""Terminal output of a workflow that is interrupted or fails."""

import os
import signal
import subprocess
import time

import pytest

SNAKEFILE = """\
import sys
import time
from pathlib import Path
from losslab import lock
from losslab.workflow import without_traceback

sys.excepthook = without_traceback

def wait_at(place):
    if config.get("wait_at") == place:
        Path("waiting").touch()
        time.sleep(600)

wait_at("plan")

onstart:
    lock.hold_for_life(Path(".snakemake"))
    wait_at("start")

rule measure_cell:
    output: "cell.json"
    log: "cell.log"
    shell: "losslab cell a/b &> {log}"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    return tmp_path


def start(folder, *words):
    """Start the workflow without a terminal."""
    return subprocess.Popen(
        ["snakemake", "--cores", "1", "--scheduler", "greedy", "--show-failed-logs", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def test_failure_prints_the_log_of_its_job(folder):
    process = start(folder)
    said, _ = process.communicate()
    assert process.returncode == 1
    assert "losslab: error: results/plan.json must be the plan of a campaign" in said


@pytest.mark.parametrize("place", ["plan", "start"])
def test_interrupt_without_jobs_prints_no_traceback(folder, place):
    process = start(folder, "--config", f"wait_at={place}")
    end = time.monotonic() + 300
    while not (folder / "waiting").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=300)
    assert said.splitlines()[-1] == "losslab: interrupted"
    assert "Traceback" not in said
    assert process.returncode == -signal.SIGINT  # so that a shell or make stops, too
