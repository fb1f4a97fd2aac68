"""Progress of a campaign: jobs by stage, replicates of measured cells, and the printed text."""

import fcntl
import io
import json
import os
import re
import time

import pytest

from losslab import cli
from losslab.errors import LosslabError
from losslab.ui import console, progress, status
from losslab.ui.progress import FOLDER, Stage, Tally

COUNTS = {"plot_loss": 2, "measure_cell": 3, "tabulate_loss": 1, "all": 1, "total": 7}
NAMES = [f"results/cells/loss/c{number}" for number in range(4)]


def result(name, root, *valid):
    path = root / name / "cell.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"replicates": [{"valid": v} for v in valid]}))
    return f"{name}/cell.json"


def test_jobs_are_counted_by_stage_in_the_order_of_work(tmp_path):
    tally = Tally(began_s=0.0)
    tally.plan(COUNTS)
    assert {name: stage.total for name, stage in tally.stages.items()} == {
        "measure": 3, "tables": 1, "figures": 2,
    }  # fmt: skip
    assert list(tally.stages) == ["measure", "tables", "figures"]
    for job in range(3):
        tally.start(job, "measure_cell", [], 10.0)
    assert tally.finish(0, tmp_path, 11.0) is None
    assert tally.finish(1, tmp_path, 12.0) is None
    assert tally.finish(2, tmp_path, 20.0) == "measure"
    assert tally.stages["measure"].wall_s(99.0) == 10.0
    assert not tally.complete


def test_every_rule_of_the_workflow_has_its_stage(root):
    files = (root / "workflow/rules").glob("*.smk")
    named = {name for file in files for name in re.findall(r"^rule (\w+):", file.read_text(), re.M)}
    assert named == set(progress.RULES)
    assert progress.stage_of("another_rule") == "another_rule"
    assert progress.stage_of("losslab_measure_cell") == "measure"  # a rule of the module
    assert progress.stage_of("losslab_tabulate_mine") == "tables"


def test_failed_job_is_not_done():
    tally = Tally(began_s=0.0)
    tally.plan({"measure_cell": 1})
    tally.start(1, "measure_cell", [], 0.0)
    tally.fail(1, "results/cells/x")
    assert tally.stages["measure"].done == 0
    assert tally.failures == ["results/cells/x"]
    assert not tally.complete


def test_progress_survives_a_round_trip(tmp_path):
    tally = Tally(began_s=1.0, runs=3, invalid={NAMES[0]: 1})
    tally.plan(COUNTS)
    tally.start(1, "measure_cell", [f"{NAMES[0]}/cell.json"], 2.0)
    tally.write(tmp_path)
    again = Tally.read(tmp_path)
    assert again is not None
    assert (again.stages, again.runs, again.invalid) == (tally.stages, 3, {NAMES[0]: 1})
    assert Tally.read(tmp_path / "none") is None


def test_measured_cell_has_its_replicates_counted(tmp_path):
    tally = Tally(began_s=0.0)
    for job, valid in enumerate([(True, False), (True, True, True)]):
        tally.start(job, "measure_cell", [result(NAMES[job], tmp_path, *valid)], 0.0)
        tally.finish(job, tmp_path, 1.0)
    assert (tally.runs, tally.invalid) == (5, {NAMES[0]: 1})


def test_unreadable_cell_is_ignored_by_progress(tmp_path):
    (tmp_path / NAMES[0]).mkdir(parents=True)
    (tmp_path / NAMES[0] / "cell.json").write_text('{"replicates": [')
    tally = Tally(began_s=0.0)
    tally.start(1, "measure_cell", [f"{NAMES[0]}/cell.json"], 0.0)
    tally.finish(1, tmp_path, 1.0)
    assert tally.runs == 0


def test_stage_has_one_line_and_measuring_the_time_left():
    tally = Tally(began_s=0.0, runs=10, invalid={"x": 2})
    tally.stages = {
        "measure": Stage(total=4, done=1, began_s=0.0),
        "tables": Stage(total=2, done=2, began_s=0.0, ended_s=30.0),
        "figures": Stage(total=10, done=2, began_s=0.0),
    }
    assert status.stage_lines(tally, 60.0) == [
        "measure    1 of 4 cells, 10 runs, 2 invalid, 10 runs/min, 0:03:00 left",
        "tables     2 of 2, in 0:00:30",
        "figures    2 of 10",
    ]


def ended(**more):
    targets = ["results/report/report.html", ".snakemake/losslab/rendered"]
    tally = Tally(began_s=0.0, ended_s=90.0, targets=targets, runs=50)
    tally.stages["measure"] = Stage(total=5, done=5, **more)
    return tally


def test_end_names_results_and_their_place():
    tally = ended()
    tally.invalid = {"x": 1}
    assert status.summary(tally) == [
        "losslab: 5 of 5 cells, 50 runs, 1 invalid (x)",
        "losslab: done in 0:01:30:",
        "  results/report/report.html",
    ]


def test_early_end_names_kept_results_and_the_next_command():
    tally = ended()
    tally.stages["figures"] = Stage(total=1)
    last = status.summary(tally)[-1]
    assert last.startswith("losslab: stopped after 0:01:30; finished jobs are kept")
    assert "repeat the same command" in last
    tally.failures = ["a", "b", "c", "d"]
    assert "failed: a, b, c, 1 more;" in status.summary(tally)[-1]


def screen(tmp_path, terminal=False):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    return console.Screen(stream, tmp_path), stream


@pytest.mark.parametrize("terminal", [True, False])
def test_finished_stage_leaves_one_line(tmp_path, monkeypatch, terminal):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(console, "REFRESH_S", 0.02)
    shown, stream = screen(tmp_path, terminal)
    shown.plan({"measure_cell": 1, "plot_loss": 1})
    shown.start(1, "measure_cell", [result(NAMES[0], tmp_path, True, True)])
    time.sleep(0.1)
    shown.finish(1)
    shown.start(2, "plot_loss", [])
    shown.finish(2)
    shown.end()
    shown.end()
    drawn = stream.getvalue()
    assert ("━" in drawn) == terminal
    plain = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", drawn).replace("\r", "\n")
    stay = [line for line in plain.splitlines() if line.strip() and "━" not in line]
    assert [re.sub(r" in .*|  .*", "", line) for line in stay] == [
        "measure", "figures", "losslab: 1 of 1 cells, 2 runs, none invalid", "losslab: done",
    ]  # fmt: skip


def test_log_has_a_line_at_intervals(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "LOG_REFRESH_S", 0.02)
    shown, stream = screen(tmp_path)
    shown.plan({"measure_cell": 1, "plot_loss": 1})
    shown.start(1, "measure_cell", [])
    shown.start(2, "plot_loss", [])
    time.sleep(0.2)
    lines = stream.getvalue().splitlines()
    shown.end()
    assert set(lines) == {"measure    0 of 1 cells, 0 runs"}


def test_failure_is_reported_at_once_with_the_end_of_its_log(tmp_path):
    shown, stream = screen(tmp_path)
    (tmp_path / "job.log").write_text("\n".join(f"line {n} [red]" for n in range(100)))
    shown.plan({"measure_cell": 2})
    shown.start(1, "measure_cell", [])
    shown.fail(1, "results/x", ["job.log", "none.log"])
    said = stream.getvalue()
    assert said.startswith("FAILED: results/x\n  job.log:\n    line 80 [red]\n")
    assert "line 99 [red]\n  none.log:\n    (no log)" in said
    shown.end()


def test_long_log_line_stays_one_line(tmp_path):
    shown, stream = screen(tmp_path)
    shown.say("x" * 500)
    assert stream.getvalue() == "x" * 500 + "\n"


def test_interrupted_job_is_no_failure(tmp_path):
    shown, stream = screen(tmp_path)
    (tmp_path / "job.log").write_text("results/x/0: valid\nlosslab: interrupted: all is kept\n")
    shown.plan({"measure_cell": 2})
    for job in range(2):
        shown.start(job, "measure_cell", [])
        shown.fail(job, "results/x", ["job.log"])
    shown.end()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "losslab: interrupted; stopping running jobs"
    assert "FAILED" not in stream.getvalue()
    assert lines[-1].startswith("losslab: stopped after")


def test_status_has_the_progress_and_the_outcome(tmp_path, capsys, monkeypatch):
    now_s = time.time()
    monkeypatch.setattr(status.time, "time", lambda: now_s)
    tally = Tally(began_s=now_s - 100, runs=2)
    tally.plan({"measure_cell": 2, "plot_loss": 3})
    tally.start(1, "measure_cell", [], now_s - 60)
    tally.finish(1, tmp_path, now_s)
    tally.write(tmp_path / FOLDER)
    holder = os.open(tmp_path / ".snakemake", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    assert cli.main(["status", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("losslab: running for 0:01:40 (process ")
    assert lines[1] == "measure    1 of 2 cells, 2 runs, 2 runs/min, 0:01:00 left"
    assert len(lines) == 2  # no figure has begun
    os.close(holder)
    assert cli.main(["status", str(tmp_path)]) == 0
    assert "stopped after" in capsys.readouterr().out


def test_status_needs_a_started_campaign(tmp_path):
    with pytest.raises(LosslabError, match="must have a started campaign, found none"):
        status.report(tmp_path)
