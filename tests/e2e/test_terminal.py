"""Terminal output of a workflow that is interrupted or fails."""

import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from losslab.repository import ROOT

SNAKEFILE = """\
import sys
import time
from pathlib import Path
from losslab import lock
from losslab.workflow import without_traceback

sys.excepthook = without_traceback

def wait_at(place):
    if config["wait_at"] == place:
        Path("waiting").touch()
        time.sleep(600)

wait_at("plan")

onstart:
    lock.hold_for_life(Path(".snakemake"))
    wait_at("start")

rule measure_cell:
    output: "cell.json"
    log: "cell.log"
    message: "Measure a/b"
    shell: "touch job; [ {config[wait_at]} != job ] || sleep 600; losslab cell a/b &> {log}"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    return tmp_path


def start(folder, wait_at="nothing", output=subprocess.PIPE):
    """Start the workflow, by default without a terminal."""
    return subprocess.Popen(
        [
            sys.executable, "-m", "snakemake", "--cores", "1", "--scheduler", "greedy",
            "--logger", "losslab", "--config", f"wait_at={wait_at}",
        ],
        cwd=folder, stdout=output, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80", "TERM": "xterm"},
    )  # fmt: skip


def wait_for(path):
    end = time.monotonic() + 300
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_failure_prints_the_log_of_its_job_and_names_it_last(folder):
    process = start(folder)
    said, _ = process.communicate()
    assert process.returncode == 1
    assert "losslab: error: results/plan.json must be the plan of a campaign" in said
    assert said.splitlines()[-1] == "losslab: error: Measure a/b failed; its log: cell.log"


@pytest.mark.parametrize("place", ["plan", "start"])
def test_interrupt_without_jobs_prints_no_traceback(folder, place):
    process = start(folder, place)
    wait_for(folder / "waiting")
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=300)
    assert "losslab: interrupted" in said.splitlines()
    assert "Traceback" not in said
    assert process.returncode == -signal.SIGINT  # so that a shell or make stops, too


def test_terminal_has_a_bar_and_an_interrupted_job_is_no_error(folder):
    here, there = pty.openpty()
    process = start(folder, "job", there)
    os.close(there)
    wait_for(folder / "job")
    time.sleep(1)  # the bar is drawn four times a second
    os.killpg(process.pid, signal.SIGINT)
    shown = b""
    while True:
        try:
            shown += os.read(here, 4096)
        except OSError:  # the terminal has no program any more
            break
    assert process.wait(timeout=300) == 1
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "0 of 1 cells, 0 runs invalid" in text
    assert "Measure a/b" in text
    assert text.splitlines()[-1] == "losslab: interrupted; the same command continues"
    assert "error" not in text
    assert "cell.json" not in text  # no list of files
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l"), "the cursor is visible"
