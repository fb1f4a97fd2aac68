"""A campaign's progress: jobs by stage, cells by what lies in their folders, and the words."""

import fcntl
import io
import json
import os
import re
import time

import pytest

from losslab import cli
from losslab.errors import LosslabError
from losslab.screen import cells, stages, status, words
from losslab.screen.console import Console
from losslab.screen.stages import FOLDER, Stage, Tally

COUNTS = {"plot_figure": 2, "measure_cell": 3, "tabulate_loss": 1, "all": 1, "total": 7}
NAMES = [f"results/cells/loss/c{number}" for number in range(4)]


def run_of(name, number, root, valid=True, age_s=0.0):
    """A run's folder, measured some time ago."""
    manifest = root / name / str(number) / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"valid": valid}))
    then = time.time() - age_s
    os.utime(manifest, (then, then))


def result(name, root, *valid, age_s=0.0):
    path = root / name / "cell.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"replicates": [{"valid": v} for v in valid]}))
    then = time.time() - age_s
    os.utime(path, (then, then))


def note(root, todo=(0, 1, 2), least=2):
    cells.note(
        root / FOLDER, dict.fromkeys(NAMES, least), [NAMES[n] for n in todo], time.time() - 5
    )
    return cells.Cells.of(root / FOLDER, root)


def test_jobs_are_counted_by_stage_in_the_order_of_the_work():
    tally = Tally(began_s=0.0)
    tally.plan(COUNTS)
    assert {name: stage.total for name, stage in tally.stages.items()} == {
        "measure": 3, "tables": 1, "figures": 2,
    }  # fmt: skip
    assert list(tally.stages) == ["measure", "tables", "figures"]
    for job in range(3):
        tally.start(job, "measure_cell", 10.0)
    assert tally.finish(0, 11.0) is None
    assert tally.finish(1, 12.0) is None
    over = tally.finish(2, 20.0)
    assert over is tally.stages["measure"]
    assert over.wall_s(99.0) == 10.0
    assert not tally.complete


def test_stages_are_of_rules_that_there_are(root):
    """A rule that is in no stage is one by itself."""
    text = "".join(path.read_text() for path in (root / "workflow/rules").glob("*.smk"))
    rules = set(re.findall(r"^rule (\w+):", text, re.MULTILINE))
    assert set(stages.RULES) <= rules
    assert stages.stage_of("another_rule") == "another_rule"


def test_a_failed_job_is_not_done_and_nothing_is_complete():
    tally = Tally(began_s=0.0)
    tally.plan({"measure_cell": 1})
    tally.start(1, "measure_cell", 0.0)
    tally.fail(1, "measure_cell", "results/cells/x")
    assert (tally.stages["measure"].done, tally.stages["measure"].failed) == (0, 1)
    assert not tally.complete


def test_what_is_written_is_read_again(tmp_path):
    tally = Tally(began_s=1.0)
    tally.plan(COUNTS)
    tally.start(1, "measure_cell", 2.0)
    tally.write(tmp_path)
    again = Tally.read(tmp_path)
    assert again is not None
    assert again.stages == tally.stages
    assert Tally.read(tmp_path / "none") is None


def test_cells_count_when_this_start_has_measured_them(tmp_path):
    found = note(tmp_path)
    result(NAMES[0], tmp_path, True, False)
    result(NAMES[1], tmp_path, True, True, age_s=3600)  # of code that was another
    run_of(NAMES[1], 0, tmp_path)
    run_of(NAMES[1], 1, tmp_path, age_s=3600)
    result(NAMES[3], tmp_path, True, True, age_s=3600)  # nothing to do
    count = found.todo()
    assert (count.cells_done, count.cells, count.runs_done, count.runs) == (1, 3, 3, 6)
    assert (count.invalid, count.invalid_in) == (1, (NAMES[0],))
    every = found.every()
    assert (every.cells_done, every.cells, every.runs_done) == (2, 4, 5)


def test_a_cell_that_needs_more_runs_than_the_least_has_them_counted(tmp_path):
    found = note(tmp_path, todo=[0])
    for number in range(3):
        run_of(NAMES[0], number, tmp_path)
    assert (found.todo().runs_done, found.todo().runs) == (3, 3)
    result(NAMES[0], tmp_path, True, True, True, True)
    assert (found.todo().runs_done, found.todo().cells_done) == (4, 1)


def test_a_cell_that_is_being_written_is_not_done_yet(tmp_path):
    found = note(tmp_path, todo=[0])
    (tmp_path / NAMES[0]).mkdir(parents=True)
    (tmp_path / NAMES[0] / "cell.json").write_text('{"replicates": [')
    assert found.todo().cells_done == 0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (1500, "25 min"), (7500, "2 h 5 min")],
)
def test_lengths_of_time_are_written_as_people_say_them(seconds, said):
    assert words.duration(seconds) == said


def test_a_stage_has_one_line_with_rate_time_left_and_failures():
    stage = Stage(total=10, done=2, failed=1, began_s=0.0)
    assert words.stage_line("figures", stage, None, 60.0) == (
        "figures    2 of 10, 1 FAILED, 2 jobs/min, 4 min 0 s left"
    )
    count = cells.Count(cells=4, cells_done=1, runs=40, runs_done=10, invalid=2)
    assert words.stage_line("measure", stage, count, 60.0) == (
        "measure    1 of 4 cells, 10 of 40 runs, 2 invalid, 1 FAILED, 10 runs/min, 3 min 0 s left"
    )
    over = Stage(total=2, done=2, began_s=0.0, ended_s=30.0)
    assert words.stage_line("tables", over, None, 99.0) == "tables     2 of 2, in 30 s"
    both = words.short_line({"tables": stage, "figures": stage}, None, 60.0)
    assert both == "tables 2 of 10, 1 FAILED | figures 2 of 10, 1 FAILED"


def test_what_waits_for_measuring_has_no_time_left():
    tally = Tally(began_s=0.0)
    tally.stages = {name: Stage(total=10, done=1, began_s=0.0) for name in ("measure", "tables")}
    assert words.lines(tally, None, 60.0) == [
        "measure    1 of 10, 1 jobs/min, 9 min 0 s left",
        "tables     1 of 10",
    ]
    tally.stages["measure"].done = 10
    assert words.lines(tally, None, 60.0)[1].endswith("9 min 0 s left")


def ended(**more):
    tally = Tally(began_s=0.0, ended_s=90.0, targets=["results/report/report.html"])
    tally.stages["measure"] = Stage(total=1, done=1, **more)
    return tally


COUNT = cells.Count(cells=5, cells_done=5, runs=50, runs_done=50, invalid=1, invalid_in=("x",))


def test_the_end_says_what_there_is_and_where():
    assert words.summary(ended(), COUNT, 99.0) == [
        "losslab: 5 of 5 cells, 50 runs, 1 invalid (x)",
        "losslab: done in 1 min 30 s:",
        "  results/report/report.html",
    ]


def test_an_early_end_says_what_is_kept_and_how_to_go_on():
    tally = ended()
    tally.stages["figures"] = Stage(total=1)
    last = words.summary(tally, COUNT, 99.0)[-1]
    assert last.startswith("losslab: interrupted after 1 min 30 s; what is finished is kept")
    assert "the same command goes on" in last
    tally.failures = ["a", "b", "c", "d"]
    assert "failed: a, b, c, 1 more;" in words.summary(tally, COUNT, 99.0)[-1]


def console(tmp_path, terminal):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    return Console(stream, tmp_path), stream


@pytest.mark.parametrize("terminal", [True, False])
def test_a_stage_that_is_over_leaves_one_line(tmp_path, monkeypatch, terminal):
    monkeypatch.setattr("losslab.screen.console.REFRESH_S", 0.01)
    note(tmp_path, todo=[0])
    screen, stream = console(tmp_path, terminal)
    screen.plan({"measure_cell": 1, "plot_figure": 1})
    screen.start(1, "measure_cell")
    time.sleep(0.1)
    result(NAMES[0], tmp_path, True, True)
    screen.finish(1)
    screen.start(2, "plot_figure")
    screen.finish(2)
    screen.end()
    screen.end()
    drawn = stream.getvalue()
    assert ("\r" in drawn) == terminal
    stay = [line.rsplit("\r\x1b[K", 1)[-1] for line in drawn.rstrip("\n").split("\n")]
    assert [re.sub(r" in .*|  .*", "", line) for line in stay] == [
        "measure", "figures", "losslab: 1 of 4 cells, 2 runs, none invalid",
        "losslab: done",
    ]  # fmt: skip


def test_a_failure_is_told_at_once_with_the_end_of_its_log(tmp_path):
    screen, stream = console(tmp_path, terminal=False)
    (tmp_path / "job.log").write_text("\n".join(f"line {n}" for n in range(100)))
    screen.plan({"measure_cell": 2})
    screen.start(1, "measure_cell")
    screen.fail(1, "measure_cell", "results/x", ["job.log", "none.log"])
    said = stream.getvalue()
    assert said.startswith("FAILED: results/x\n  job.log:\n    line 80\n")
    assert "line 99\n  none.log:\n    (no log)" in said
    screen.end()


def test_a_job_that_was_interrupted_is_no_failure(tmp_path):
    screen, stream = console(tmp_path, terminal=False)
    (tmp_path / "job.log").write_text("results/x/0: valid\nlosslab: interrupted: all is kept\n")
    screen.plan({"measure_cell": 2})
    for job in range(2):
        screen.start(job, "measure_cell")
        screen.fail(job, "measure_cell", "results/x", ["job.log"])
    screen.end()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "losslab: interrupted; ending what is at work"
    assert "FAILED" not in stream.getvalue()
    assert lines[-1].startswith("losslab: interrupted after")


def test_status_says_how_far_it_is_while_it_runs_and_how_it_ended(tmp_path, capsys, monkeypatch):
    note(tmp_path, todo=[0])
    now_s = time.time()
    monkeypatch.setattr(status.time, "time", lambda: now_s)
    tally = Tally(began_s=now_s - 100)
    tally.plan({"measure_cell": 1, "plot_figure": 3})
    tally.start(1, "measure_cell", now_s - 60)
    tally.write(tmp_path / FOLDER)
    run_of(NAMES[0], 0, tmp_path)
    holder = os.open(tmp_path / ".snakemake", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    assert cli.main(["status", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("losslab: running for 1 min 40 s (process ")
    assert lines[1] == "measure    0 of 1 cells, 1 of 2 runs, 1 runs/min, 1 min 0 s left"
    assert len(lines) == 2  # figures have not begun
    os.close(holder)
    assert cli.main(["status", str(tmp_path)]) == 0
    assert "interrupted after" in capsys.readouterr().out


def test_status_of_a_folder_without_a_campaign_says_so(tmp_path):
    with pytest.raises(LosslabError, match="must have a campaign, found none"):
        status.report(tmp_path)
