"""Values, cells and table of a sweep, and the demo's text, without measuring."""

import csv

import pytest

from losslab import analysis, cli, demo, sweeps
from losslab.campaign.results import read_cell
from losslab.campaign.tables import write_csv
from losslab.cellspec import UsageError
from losslab.reading import read_yaml
from losslab.study import design
from losslab.study.condition import AXES, Condition
from losslab.study.studyfiles import block_grid
from losslab.ui import plot, printed
from tests import sealed


@pytest.mark.parametrize(
    ("name", "said", "meant"),
    [
        ("algorithm", "cubic,bbr", ["cubic", "bbr"]),
        ("algorithm", "a,a,b=1,c=0,x,t=1,2", ["a", "a,b=1,c=0", "x,t=1,2"]),
        ("algorithm", "cubic,beta=512|717,bbr", ["cubic,beta=512", "cubic,beta=717", "bbr"]),
        ("algorithm", "a,b=1|2,c=3|4", ["a,b=1,c=3", "a,b=1,c=4", "a,b=2,c=3", "a,b=2,c=4"]),
        ("algorithm", "x,t=1,2|3,4", ["x,t=1,2", "x,t=3,4"]),
        ("competitor", "same,bbr,x=1", ["same", "bbr,x=1"]),
        ("loss_percent", "0,0.5,5", [0, 0.5, 5]),
        ("loss_percent", "0:3", [0, 1, 2, 3]),
        ("loss_percent", "0:0.3:0.1", [0, 0.1, 0.2, 0.3]),
        ("rtt_ms", "10:20:4,100", [10, 14, 18, 100]),
        ("scheme", "ewma,alpha=0.9", ["ewma,alpha=0.9"]),
        ("rtt_ms", "20.0000000001", [20.0000000001]),
        ("rate_mbit", "10,20M,1G", [10, 20, 1000]),
        ("rtt_ms", "10ms:50ms:20ms", [10, 30, 50]),
        ("loss_percent", "0.5%", [0.5]),
        ("buffer_packets", "1bdp,2MB,70", ["1bdp", "2MB", 70]),
    ],
)
def test_values_are_lists_and_ranges_also_with_units(name, said, meant):
    assert sweeps.values(AXES[name], said) == meant


@pytest.mark.parametrize(
    ("name", "said"),
    [*(("loss_percent", said) for said in ("", "a", "5:1", "1:5:0", "1:2:3:4", "1:", "1,1",
                                           "1:3,2")),
     # Ranges without a clear step.
     ("rtt_ms", "1s:3s"), ("buffer_packets", "1MB:3MB:1MB"), ("rtt_ms", "20M")],
)  # fmt: skip
def test_malformed_list_of_numbers_is_refused(name, said):
    with pytest.raises(UsageError, match=f"{name} must"):
        sweeps.values(AXES[name], said)


def test_every_combination_is_a_cell_with_its_own_folder(tmp_path):
    given = {"algorithm": ["cubic", "bbr"], "loss_percent": [0.0, 1.0], "rate_mbit": [10.0]}
    found = sweeps.cells(given, tmp_path)
    assert len({cell.folder for cell in found}) == 4
    assert {(c.condition.algorithm, c.condition.loss_percent) for c in found} == {
        (a, loss) for a in given["algorithm"] for loss in given["loss_percent"]
    }
    found = sweeps.cells({"algorithm": ["cubic", "bbr"], "competitor": ["same"]}, tmp_path)
    assert [c.condition.competitor for c in found] == ["cubic", "bbr"]
    with pytest.raises(UsageError, match="must set algorithm"):
        sweeps.cells({"competitor": ["same"]}, tmp_path)
    with pytest.raises(UsageError, match="rtt_ms must be"):
        sweeps.cells({"algorithm": ["cubic"], "rtt_ms": [-1.0]}, tmp_path)
    with pytest.raises(UsageError, match="at most"):
        sweeps.cells({"algorithm": ["cubic"], "rtt_ms": list(range(1, 10_003))}, tmp_path)
    (tmp_path / "manifest.json").touch()
    with pytest.raises(UsageError, match="found a run in"):
        sweeps.cells(given, tmp_path)


def test_written_study_has_the_sweeps_cells(root, tmp_path):
    given = {"algorithm": ["cubic", "bbr"], "rtt_ms": [20.0], "duration_s": [3.0]}
    left = sweeps.study(given, 7)
    study = read_yaml(root / "studies/loss/study.yaml")
    study = {k: v for k, v in study.items() if k != "time_series"} | {"defaults": {}} | left
    design.check_schema(study, "study", "study.yaml")
    points = list(block_grid({"defaults": {}}, left["blocks"]["main"]))
    run = left["runs"]["main"]
    assert run == {"replicates": 7, "duration_s": 3.0, "warmup_s": 1.0}
    assert sweeps.study(given | {"duration_s": [3.0, 6.0]}, 7)["runs"] == {
        "main": run, "main1": run | {"duration_s": 6.0}
    }  # fmt: skip
    slugs = [Condition(**p, duration_s=3, warmup_s=1).slug() for p in points]
    assert slugs == [cell.condition.slug() for cell in sweeps.cells(given, tmp_path)]


INTERVALS = "t_s,goodput_mbit\n0.5,4\n1.0,6\n2.0,8\n"


def cell(folder, its, *goodputs, metric="goodput_mbit", **summary):
    """Write a cell with a replicate per goodput; None is an invalid one."""
    condition = its if isinstance(its, Condition) else Condition(algorithm=its)
    for number, value in enumerate(goodputs):
        manifest = {
            "cell": condition.to_json(), "seed": number, "instrument": {},
            "valid": value is not None, "reasons": [] if value else ["lost"],
            "summary": {metric: value} | summary,
        }  # fmt: skip
        sealed.replicate(folder / str(number), manifest, {"intervals.csv": INTERVALS})
    return read_cell(sealed.cell(folder, condition.to_json(), len(goodputs)))


def test_sweep_table_has_means_intervals_and_invalid_runs(tmp_path):
    measured = [cell(tmp_path / "a", "cubic", 1, 2, 3, 4, 5), cell(tmp_path / "b", "bbr", 7, None)]
    one, other = printed.rows(measured, ["algorithm"], None)
    assert (one["mean"], one["n_runs"], one["n_valid"]) == (3, 5, 5)
    # The report's interval on logarithms. R: mean_interval(1:5)
    assert (one["low"], one["high"]) == pytest.approx((1.318, 7.710), abs=1e-3)
    assert (other["low"], other["n_valid"], other["reasons"]) == (None, 1, "lost")
    words = printed.text([one, other], ["algorithm"]).splitlines()
    assert words[0].split() == ["algorithm", "goodput_mbit", "95", "%", "CI", "n"]
    assert words[2].endswith("1 of 2")
    assert words[3] == "Cells with fewer than 5 valid runs have no confidence interval (CI)."


def test_cells_with_different_metrics_name_them(tmp_path):
    pages = cell(tmp_path / "b", "bbr", 3, metric="download_s")
    measured = [cell(tmp_path / "a", "cubic", 1, 2), pages]
    found = printed.rows(measured, ["algorithm"], None)
    head, *lines = printed.text(found, ["algorithm"]).splitlines()
    assert head.split() == ["algorithm", "metric", "mean", "95", "%", "CI", "n"]
    assert [line.split()[1] for line in lines[:2]] == ["goodput_mbit", "download_s"]


@pytest.fixture
def goodputs(monkeypatch):
    """Measure these goodputs, or 5 Mbit/s, in the cells of a sweep, and draw nothing."""
    values = []

    def measure(todo, *_):
        for each in todo:
            each.folder.parent.mkdir(parents=True, exist_ok=True)
            cell(each.folder, each.condition, values.pop(0) if values else 5)

    monkeypatch.setattr(sweeps, "measure", measure)
    monkeypatch.setattr(plot, "draw", lambda *_: None)
    return values


@pytest.mark.parametrize(("second", "status"), [(7, 0), (None, 1)])
def test_sweep_succeeds_only_if_every_cell_has_a_value(tmp_path, goodputs, capsys, second, status):
    goodputs += [5, second]
    words = ["sweep", "--algorithm", "cubic,bbr", "--out", str(tmp_path)]
    assert cli.main(words) == status
    said = "no valid run with a value of goodput_mbit in 1 of 2 cells"
    assert (said in capsys.readouterr().err) == bool(status)
    with (tmp_path / "replicates.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["algorithm"] for row in rows] == ["cubic", "bbr"]
    assert [row["valid"] for row in rows] == ["TRUE", "TRUE" if second else "FALSE"]
    assert rows[0]["goodput_mbit"] == "5"


@pytest.mark.usefixtures("goodputs")
def test_sweep_over_parameters_has_a_column_of_them(tmp_path, capsys):
    words = ["sweep", "--algorithm", "cubic,cubic,beta=800", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["parameters", "goodput_mbit"]
    assert [line.split()[0] for line in lines[:2]] == ["none", "cubic.beta=800"]


@pytest.mark.usefixtures("goodputs")
def test_sweep_without_r_says_so_and_writes_its_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(analysis, "missing_r_packages", lambda: ["ragg"])
    words = ["sweep", "--algorithm", "cubic", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    assert "the figure of losslab sweep needs R packages" in capsys.readouterr().err
    assert (tmp_path / "sweep.csv").is_file()
    assert not (tmp_path / "sweep.svg").exists()


@pytest.mark.parametrize("name", ["duration_s", "warmup_s"])
def test_lengths_of_runs_are_different_cells_of_a_sweep(name, tmp_path):
    """Row A1: all rows of a sweep over durations had one run's number."""
    given = {"algorithm": ["cubic"], name: [0.5, 0.25]}
    given |= {"warmup_s": [0.1]} if name == "duration_s" else {}
    assert len({cell.folder for cell in sweeps.cells(given, tmp_path)}) == 2


# The demo

MEANS = {
    ("cubic", 0): 90.0, ("cubic", 1): 4.5, ("cubic", 5): 9.0,
    ("bbr", 0): 80.0, ("bbr", 1): 72.0, ("bbr", 5): 40.0,
}  # fmt: skip


@pytest.fixture
def out(tmp_path):
    """Results of the sweep."""
    rows = [
        {"algorithm": name, "loss_percent": float(loss), "mean": mean}
        for (name, loss), mean in MEANS.items()
    ]
    write_csv(tmp_path / "sweep.csv", ["algorithm", "loss_percent", "mean"], rows)
    for name in demo.LABELS:
        (tmp_path / "cells" / f"{name}_loss1_x" / "0").mkdir(parents=True)
    return tmp_path


def test_demo_is_a_sweep_of_both_algorithms_over_each_loss(tmp_path):
    cells = sweeps.cells(demo.sweep(), tmp_path)
    assert {(c.condition.algorithm, c.condition.loss_percent) for c in cells} == set(MEANS)
    assert {c.condition.rate_mbit for c in cells} == {100}


def test_demo_text_has_the_measured_goodput_or_no_number(out):
    lines = demo.text(out).splitlines()
    assert lines[1] == "CUBIC: 1 % loss costs 95 % of its goodput, 5 % loss costs 90 %."
    assert lines[2] == "BBR: 1 % loss costs 10 % of its goodput, 5 % loss costs 50 %."
    table = out / "sweep.csv"
    table.write_text(table.read_text().replace("bbr,5.0,40.0", "bbr,5.0,"))
    assert "BBR: no valid run" in demo.text(out)


def test_next_steps_name_existing_runs(out):
    named = {word for word in demo.next_steps(out).split() if word.startswith(str(out))}
    assert named == {str(out / f"cells/{name}_loss1_x/0") for name in demo.LABELS}
