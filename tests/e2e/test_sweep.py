"""Sweeps: measurement, figure, and continuation after an interrupt."""

import csv

from tests.e2e.test_measure import losslab

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
