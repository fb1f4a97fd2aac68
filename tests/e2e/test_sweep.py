"""Sweeps and the demo: measurement, figure, and continuation after an interrupt."""

import csv

from losslab import cli, demo
from tests.faults.kit import losslab

WORDS = [
    "sweep", "--algorithm", "cubic,bbr", "--loss-percent", "1", "--rate-mbit", 10, "--rtt-ms", 20,
    "--buffer-packets", 30, "--duration-s", 2, "--warmup-s", 0.5,
]  # fmt: skip


def test_sweep_writes_table_and_figure_and_adds_to_existing_cells(tmp_path):
    done = losslab(*WORDS, "--replicates", 1, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "sweep.svg").read_text()
    assert "CUBIC" in drawn
    assert "BBR" in drawn
    first = list(tmp_path.glob("cells/*/0/tcp.csv"))
    times = {path: path.stat().st_mtime_ns for path in first}
    assert len(first) == 2
    done = losslab(*WORDS, "--replicates", 2, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in first} == times
    with (tmp_path / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["algorithm"], row["n_valid"]) for row in rows] == [("cubic", "2"), ("bbr", "2")]
    assert float(rows[1]["mean"]) > float(rows[0]["mean"])


def test_demo_measures_its_path(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "PATH", demo.PATH | {"rate-mbit": 10, "duration-s": 3})
    monkeypatch.setattr(demo, "REPLICATES", 1)
    assert cli.main(["demo", "--out", str(tmp_path / "demo")]) == 0
    said = capsys.readouterr().out
    assert "CUBIC: 1 % loss costs" in said
    assert str(next((tmp_path / "demo/cells").glob("bbr_loss1_*"))) in said
    assert (tmp_path / "demo/sweep.svg").is_file()
