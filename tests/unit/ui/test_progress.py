"""Progress of a campaign on a screen and in a file."""

import io
import json
import re
import time
from pathlib import Path

import pytest

from losslab.ui.progress import Job, Progress, duration


class Terminal(io.StringIO):
    def isatty(self):
        return True


def text(stream):
    """Return what a stream got, without escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


@pytest.fixture(autouse=True)
def terminal_of_80_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")


def cell(number, valid=True):
    """Write a cell.json with two runs, the second of which may be invalid."""
    path = Path("results/cells/loss", f"cubic_loss{number}", "cell.json")
    path.parent.mkdir(parents=True)
    rows = [
        {"seed": seed, "valid": good, "reasons": [] if good else ["timer ran 30 ms late"],
         "summary": {}, "instrument": {}}
        for seed, good in ((1, True), (2, valid))
    ]  # fmt: skip
    condition = {"algorithm": "cubic", "path": "symmetric", "app": "iperf3", "duration_s": 4,
                 "warmup_s": 1, "loss_percent": 0, "loss_direction": "both"}  # fmt: skip
    content = {"study": "loss", "block": "main", "cell": path.parent.name, "condition": condition,
               "replicates": rows}  # fmt: skip
    path.write_text(json.dumps(content))
    return path


def measure(progress, count, invalid=()):
    for number in range(count):
        progress.start(number, Job(f"Measure {number}", cell=cell(number, number not in invalid)))
        progress.finish(number)


def test_file_has_a_line_per_ten_cells_and_one_per_other_job():
    stream = io.StringIO()
    progress = Progress(stream)
    progress.begin(jobs=26, cells=24)
    measure(progress, 24)
    progress.start(24, Job("Render the report"))
    progress.finish(24)
    progress.start(25, Job("The campaign is complete"))
    progress.finish(25)
    progress.close()
    lines = [re.sub(r", \S+ s left$", "", line) for line in stream.getvalue().splitlines()]
    assert lines == [
        "losslab: 10 of 24 cells, 0 runs invalid",
        "losslab: 20 of 24 cells, 0 runs invalid",
        "losslab: 24 of 26 jobs, 0 runs invalid",
        "losslab: Render the report: done, 25 of 26 jobs",
        "losslab: 24 of 24 cells, 26 of 26 jobs done in 0 s, 0 runs invalid",
    ]


def test_invalid_runs_are_named_and_counted():
    stream = io.StringIO()
    progress = Progress(stream)
    progress.begin(jobs=3, cells=3)
    measure(progress, 3, invalid={1})
    progress.close()
    assert "loss/cubic_loss1: 1 of 2 runs invalid: timer ran 30 ms late\n" in stream.getvalue()
    assert stream.getvalue().endswith("done in 0 s, 1 run invalid\n")


def test_terminal_shows_the_jobs_under_way_and_leaves_only_the_last_line():
    stream = Terminal()
    progress = Progress(stream)
    progress.begin(jobs=8, cells=8)
    for number in range(6):
        progress.start(number, Job(f"Measure loss/cubic_{number}" + "_x" * 40, cell=Path("a")))
    time.sleep(0.6)
    shown = text(stream)
    assert "0 of 8 cells" in shown and "Measure loss/cubic_3" in shown and "and 2 more" in shown
    assert "Measure loss/cubic_4" not in shown
    assert max(map(len, re.split(r"[\r\n]+", shown))) < 80, "the bar must not wrap"
    progress.close()
    assert text(stream).splitlines()[-1] == (
        "losslab: 0 of 8 cells, 0 of 8 jobs done in 1 s, 0 runs invalid"
    )


def test_time_left_follows_the_estimated_times_of_the_cells(monkeypatch):
    stream = io.StringIO()
    progress = Progress(stream)
    paths = [cell(number) for number in range(10)]
    # The last cell takes as long as a hundred others.
    progress.expect({str(path): 100.0 if path == paths[9] else 1.0 for path in paths})
    progress.begin(jobs=10, cells=10)
    clock_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: clock_s)
    progress.start(0, Job("Measure", cell=paths[0], start_s=clock_s))
    clock_s += 60
    progress.finish(0)
    assert progress._state().endswith(", 1 h 48 min left")


def test_failed_job_is_shown_with_its_log_and_named_again_at_the_end():
    Path("cell.log").write_text("".join(f"line {number}\n" for number in range(100)))
    stream = io.StringIO()
    progress = Progress(stream)
    progress.begin(jobs=3, cells=2)
    progress.start(0, Job("Measure a", (Path("cell.log"),)))
    progress.start(1, Job("Measure b", (Path("absent.log"),)))
    progress.fail(0)
    progress.fail(1)
    progress.start(1, Job("Measure b", (Path("absent.log"),)))
    progress.finish(1)  # its second attempt
    progress.close()
    said = stream.getvalue()
    assert "error: Measure a failed\n  end of cell.log:\n  line 70\n" in said
    assert "  line 99\nlosslab: error: Measure b failed" in said
    assert "(No such file or directory)" in said
    assert said.endswith("losslab: error: Measure a failed; its log: cell.log\n")


def test_interrupted_jobs_are_no_errors():
    stream = io.StringIO()
    progress = Progress(stream)
    progress.begin(jobs=2, cells=2)
    progress.start(0, Job("Measure a"))
    progress.interrupt()
    progress.fail(0)
    progress.close()
    assert "error" not in stream.getvalue()
    assert stream.getvalue().endswith("losslab: interrupted; the same command continues\n")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0 s"), (59, "59 s"), (61, "1 min"), (3599, "1 h 00 min"),
                           (7500, "2 h 05 min")]
)  # fmt: skip
def test_duration(seconds, shown):
    assert duration(seconds) == shown
