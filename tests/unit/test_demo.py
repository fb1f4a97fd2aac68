"""The demo's sweep and its text."""

import pytest

from losslab import demo, sweeps
from losslab.campaign.tables import write_csv

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


def test_demo_text_has_the_measured_goodput(out):
    lines = demo.text(out).splitlines()
    assert lines[1] == "CUBIC: 1 % loss costs 95 % of its goodput, 5 % loss costs 90 %."
    assert lines[2] == "BBR: 1 % loss costs 10 % of its goodput, 5 % loss costs 50 %."


def test_demo_without_a_valid_run_prints_no_number(out):
    table = out / "sweep.csv"
    table.write_text(table.read_text().replace("bbr,5.0,40.0", "bbr,5.0,"))
    assert "BBR: no valid run" in demo.text(out)


def test_next_steps_name_existing_runs(out):
    named = {word for word in demo.next_steps(out).split() if word.startswith(str(out))}
    assert named == {str(out / f"cells/{name}_loss1_x/0") for name in demo.LABELS}
