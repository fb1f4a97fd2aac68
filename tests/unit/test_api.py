"""Python interface: names, refusals before anything runs, and results as data frames."""

import inspect
import math
import subprocess
import sys

import pytest

import losslab
from losslab import api
from losslab.study.condition import AXES, Condition
from losslab.ui import drawing
from tests.unit.test_sweeps import cell


def write_cell(folder, goodputs, **axes):
    condition = Condition(**{"algorithm": "cubic", "warmup_s": 0, "duration_s": 2} | axes)
    cell(folder, condition, *goodputs, rtt_ms=40.0)


@pytest.fixture
def results(tmp_path):
    write_cell(tmp_path / "cells" / "s" / "a", [1, 2, 3, 4, 5], loss_percent=1)
    write_cell(tmp_path / "cells" / "s" / "b", [7, None], algorithm="bbr", loss_percent=1)
    return losslab.read(tmp_path)


def test_import_loads_neither_pandas_nor_commands():
    code = "import losslab, sys; print([m for m in ('pandas', 'losslab.api') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_others_are_not():
    assert {name: getattr(losslab, name).__name__ for name in losslab.__all__} == {
        name: name for name in losslab.__all__
    }
    assert set(losslab.__all__) <= set(dir(losslab))
    with pytest.raises(AttributeError, match="no attribute 'mesure'"):
        _ = losslab.mesure


def test_sweep_measures_each_combination_once(monkeypatch, tmp_path):
    numpy = pytest.importorskip("numpy")
    asked = []
    monkeypatch.setattr(api, "at_first_use", lambda *_: None)
    monkeypatch.setattr(api.sweeps, "can_draw", lambda: False)

    def measure(todo, *words):
        asked.append((todo, *words))
        for number, its in enumerate(todo):
            cell(its.file.parent, its.condition, *range(1 + number, 4 + number))

    monkeypatch.setattr(api.sweeps, "measure", measure)
    swept = losslab.sweep(
        algorithm=("cubic", "bbr", "cubic"),
        loss_percent=numpy.arange(2),
        replicates=3,
        out=tmp_path,
    )
    ((todo, replicates, _, *place),) = asked
    assert [(c.condition.algorithm, c.condition.loss_percent) for c in todo] == [
        ("cubic", 0), ("cubic", 1), ("bbr", 0), ("bbr", 1),
    ]  # fmt: skip
    assert (replicates, place) == (3, ["virtual", "guest"])
    assert swept.files == tuple(cell.file for cell in todo)
    # The files are those of the command.
    assert {path.name for path in tmp_path.iterdir()} == {
        "cells", "study.yaml", "sweep.csv", "replicates.csv",
    }  # fmt: skip
    rows = [line.split(",") for line in (tmp_path / "sweep.csv").read_text().splitlines()]
    assert rows[0][:3] == ["algorithm", "loss_percent", "metric"]
    assert [row[:2] for row in rows[1:]] == [
        [each.condition.algorithm, str(each.condition.loss_percent)] for each in todo
    ]
    assert len((tmp_path / "replicates.csv").read_text().splitlines()) == 13
    monkeypatch.chdir(tmp_path)
    losslab.sweep(algorithm="cubic", loss_percent=0, replicates=3)
    assert [path.name for path in api.SWEEPS.iterdir()] == ["cells"]


def test_interrupted_sweep_says_that_finished_runs_are_kept(monkeypatch, tmp_path, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "at_first_use", lambda *_: None)
    monkeypatch.setattr(api.sweeps, "measure", stop)
    with pytest.raises(KeyboardInterrupt):
        losslab.sweep(algorithm="cubic", out=tmp_path)
    assert "interrupted: finished runs are kept" in capsys.readouterr().err


def test_folder_without_results_says_what_it_is(tmp_path, root):
    with pytest.raises(losslab.UsageError, match=r"found no such folder\n.*such as recorded/full"):
        losslab.read(tmp_path / "recorded" / "full")
    (tmp_path / "loss.jsonl.xz").touch()
    with pytest.raises(losslab.UsageError, match="found a file"):
        losslab.read(tmp_path / "loss.jsonl.xz")
    with pytest.raises(losslab.UsageError, match="found only their digests"):
        losslab.read(root / "recorded" / "quick")


def test_recorded_campaign_is_read_in_any_folder(tmp_path, root, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert losslab.read("recorded/full").folder == root / "recorded" / "full"
    # A folder of the user's own comes first.
    write_cell(tmp_path / "recorded" / "full" / "cells" / "s" / "a", [1, 2], loss_percent=1)
    assert len(losslab.read("recorded/full").files) == 1


def test_results_have_a_row_per_cell_and_per_replicate(results):
    assert results.cells[["cell", "n_replicates", "n_valid"]].to_numpy().tolist() == [
        ["a", 5, 5], ["b", 2, 1],
    ]  # fmt: skip
    replicates = results.replicates
    assert replicates["valid"].tolist() == [True] * 6 + [False]
    assert replicates["goodput_mbit"].tolist()[:5] == [1, 2, 3, 4, 5]
    assert set(replicates["rtt_measured_ms"]) == {40.0}
    assert results.intervals["goodput_mbit"].tolist()[:2] == [5.0, 8.0]


def test_means_have_the_reports_confidence_intervals(results):
    one, other = results.means().to_dict("records")
    assert (one["algorithm"], one["mean"], one["n_values"]) == ("cubic", 3, 5)
    # Every axis has a column, and those that vary come first.
    assert (one["loss_percent"], one["rtt_ms"]) == (1, AXES["rtt_ms"].default)
    assert [*one][3:6] == ["algorithm", "metric", "n_runs"]
    assert set(AXES) < set(one)
    # R: mean_interval(1:5)
    assert (one["low"], one["high"]) == pytest.approx((1.318, 7.710), abs=1e-3)
    assert math.isnan(other["low"])
    assert results.means("rtt_ms")["mean"].tolist() == [40.0, 40.0]
    with pytest.raises(losslab.UsageError, match="did you mean goodput_mbit"):
        results.means("goodputt_mbit")


def test_runs_are_selected_by_axes_without_invalid_ones(results):
    assert [run.folder.name for run in results.runs(algorithm="bbr")] == ["0"]
    assert len(results.runs(loss_percent="1%", rate_mbit="1G")) == 6
    assert results.runs(loss_percent=2) == []
    with pytest.raises(losslab.UsageError, match="found los"):
        results.runs(los=1)


def test_run_has_its_summary_condition_and_tables(results):
    (run,) = results.runs(algorithm="bbr")
    assert (run.valid, run.violations) == (True, [])
    assert run.summary == {"goodput_mbit": 7, "rtt_ms": 40.0}
    assert run.condition["algorithm"] == "bbr"
    assert run.intervals["t_s"].tolist() == [0.5, 1.0, 2.0]
    with pytest.raises(losslab.LosslabError, match="this run has intervals"):
        _ = run.tcp


def test_notebook_shows_runs_results_and_plots(results, tmp_path, monkeypatch):
    (run,) = results.runs(algorithm="bbr")
    assert "7 Mbit/s" in run._repr_html_()
    assert f"<td>{3}</td>" in results._repr_html_()
    assert repr(results) == f"<Results of 2 cells in {tmp_path}>"
    assert "bbr" in repr(results.plot())
    lost = losslab.Run(tmp_path / "cells" / "s" / "b" / "1")
    assert "INVALID" in lost._repr_html_()
    (lost.folder / "manifest.json").unlink()
    assert "unreadable" in losslab.Run(lost.folder)._repr_html_()


def test_notebook_shows_a_figure_or_text_and_why(recorded, monkeypatch, tmp_path):
    run = losslab.Run(recorded("bulk_bbr") / "0")
    drawn = run.plot(run)
    assert "Congestion window (packets)" in repr(drawn)
    with pytest.raises(losslab.UsageError, match="others must be a run, found"):
        run.plot([run])

    def figure(runs, paths):
        assert len(runs) == 2
        paths[0].write_text("<?xml?>\n<svg>drawn</svg>")

    monkeypatch.setattr(drawing.plot, "require_drawable", lambda paths: None)
    monkeypatch.setattr(drawing.plot, "figure", figure)
    assert drawn._repr_html_() == "<svg>drawn</svg>"
    drawn.save(tmp_path / "both.svg")
    assert (tmp_path / "both.svg").is_file()

    def absent(paths):
        raise losslab.LosslabError("a figure needs R, found none")

    monkeypatch.setattr(drawing.plot, "require_drawable", absent)
    assert "A figure was not drawn: a figure needs R" in drawn._repr_html_()
    assert "Congestion window" in drawn._repr_html_()


@pytest.mark.parametrize("function", [losslab.measure, losslab.sweep])
def test_notebooks_complete_the_axes(function):
    its = inspect.signature(function).parameters
    assert set(AXES) < set(its)
    assert its["rate_mbit"].default == AXES["rate_mbit"].default
    assert its["algorithm"].default is its["algorithm"].empty
    assert "replicates" in its or "seed" in its


@pytest.fixture
def ready(monkeypatch):
    """Need no instrument."""
    for name in ("at_first_use", "instrument", "finished"):
        monkeypatch.setattr(api, name, lambda *_: None)


@pytest.mark.usefixtures("ready")
def test_invalid_run_raises_with_its_files(monkeypatch, tmp_path):
    write_cell(tmp_path / "a", [None])
    monkeypatch.setattr(api, "finished", lambda *_: {})
    with pytest.raises(losslab.InvalidRunError, match="found: lost") as error:
        losslab.measure(algorithm="cubic", out=tmp_path / "a" / "0")
    assert error.value.run.folder == tmp_path / "a" / "0"
    kept = losslab.measure(algorithm="cubic", out=tmp_path / "a" / "0", allow_invalid=True)
    assert kept.violations == ["lost"]


def test_results_of_another_folder_are_not_read_in_place_of_a_missing_one(monkeypatch, tmp_path):
    """Only losslab's own records are found from any folder."""
    write_cell(tmp_path / "clone" / "results" / "cells" / "s" / "a", [1, 2], loss_percent=1)
    monkeypatch.setattr(api, "ROOT", tmp_path / "clone")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(losslab.UsageError, match="results must contain measured cells, found no"):
        losslab.read("results")
