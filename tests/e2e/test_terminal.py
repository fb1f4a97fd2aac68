"""Terminal output of a workflow while it runs, when it fails and when it is interrupted."""

import os
import re
import signal
import subprocess
import time

import pytest

from losslab import cli

SNAKEFILE = """\
import time
from pathlib import Path
from losslab import lock

def wait_at(place):
    if config.get("wait_at") == place:
        Path("waiting").touch()
        time.sleep(600)

wait_at("plan")

onstart:
    lock.hold_for_life(Path(".snakemake"))
    wait_at("start")

rule all:
    default_target: True
    localrule: True
    input: "report.html"

rule measure_cell:
    output: "results/cells/s/c/cell.json"
    message: "Measure c"
    shell: "sleep $SLEEP_S; echo '{{\\"replicates\\": [{{\\"valid\\": true}}]}}' > {output}"

rule render_report:
    input: "results/cells/s/c/cell.json"
    output: "report.html"
    log: "report.log"
    run:
        Path(log[0]).write_text("what went wrong\\n")
        if Path("broken").exists():
            raise RuntimeError("broken")
        Path(output[0]).write_text("")
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    return tmp_path


def start(folder, *words, sleep_s="0"):
    """Start the workflow with the project's profile, without a terminal."""
    return subprocess.Popen(
        ["snakemake", "--cores", "1", "--scheduler", "greedy", "--logger", "losslab", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"SLEEP_S": sleep_s}, start_new_session=True,
    )  # fmt: skip


def test_log_has_a_line_per_stage_and_the_reports_path(folder, capsys):
    process = start(folder)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert [re.sub(r"\bin .*", "in", line) for line in said.splitlines()] == [
        "measure    1 of 1 cells, 1 runs, in",
        "report     1 of 1, in",
        "losslab: 1 of 1 cells, 1 runs, none invalid",
        "losslab: done in",
        "  report.html",
    ]
    again, _ = start(folder).communicate()
    assert again == "Nothing to be done (all requested files are present and up to date).\n"
    assert cli.main(["status", str(folder)]) == 0
    assert "losslab: done in" in capsys.readouterr().out


def test_verbose_prints_everything(folder):
    said, _ = start(folder, "--verbose").communicate()
    assert "Measure c" in said
    assert "Reason: " in said


def test_dry_run_lists_snakemakes_jobs(folder):
    said, _ = start(folder, "-n").communicate()
    assert "Measure c" in said
    assert not (folder / "results").exists()


def test_failure_names_its_log_and_kept_results(folder):
    (folder / "broken").touch()
    process = start(folder)
    said, _ = process.communicate()
    assert process.returncode == 1
    assert "FAILED: report.html\n  report.log:\n    what went wrong\n" in said
    assert "losslab: stopped after" in said
    assert "failed: report.html; finished jobs are kept" in said


def test_interrupt_names_kept_results_and_status_shows_them(folder, capsys):
    process = start(folder, sleep_s="600")
    end = time.monotonic() + 300
    while "measure" not in capsys.readouterr().out:
        assert time.monotonic() < end
        time.sleep(0.2)
        cli.main(["status", str(folder)])
    cli.main(["status", str(folder)])
    assert "losslab: running for" in capsys.readouterr().out
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=300)
    lines = said.splitlines()
    assert lines[0] == "losslab: interrupted; stopping running jobs"
    assert lines[-2] == "losslab: 0 of 1 cells, 0 runs, none invalid"
    assert lines[-1].startswith("losslab: stopped after")
    assert lines[-1].endswith("finished jobs are kept; repeat the same command to continue")
    assert len(lines) <= 4
    cli.main(["status", str(folder)])
    assert "losslab: stopped after" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["plan", "start"])
def test_interrupt_without_jobs_prints_no_traceback(folder, place):
    process = start(folder, "--config", f"wait_at={place}")
    end = time.monotonic() + 300
    while not (folder / "waiting").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=300)
    lines = said.splitlines()
    assert lines[-1] == "losslab: interrupted"
    assert lines[:-1] == [] or "losslab: stopped after" in lines[-2]
    assert "Traceback" not in said
    assert process.returncode == -signal.SIGINT  # so that a shell or make stops, too
