"""The commands of the workflow's rules, where what they measure with cannot be had."""

import json

import pytest

from losslab import cli
from losslab.campaign import collect
from losslab.instrument import records
from tests.unit.study.test_condition import CONDITION

WHY = "Containernet's commit must be had from somewhere, found: no route"


@pytest.fixture
def absent(tmp_path):
    path = tmp_path / "image.json"
    records.write({"absent": WHY, "number": 1}, path)
    return path


def test_what_lacks_a_part_is_not_tried(absent, tmp_path):
    out = tmp_path / "tried.json"
    words = ["try", "--backend", "containernet", "--needs", str(absent), "--record", str(out)]
    assert cli.main(words) == 0
    assert records.absent(out) == WHY


def test_a_cell_without_an_instrument_says_why_it_has_no_replicate(absent, tmp_path):
    out = tmp_path / "cells" / "cell" / "cell.json"
    words = [
        "cell", "--study", "s", "--block", "b", "--replicates", "3", "--condition",
        json.dumps(CONDITION.to_json()), "--backend", "containernet", "--tried", str(absent),
        "--out", str(out),
    ]  # fmt: skip
    assert cli.main(words) == 0
    (row,) = collect.gather([out]).cells
    assert (row["n_replicates"], row["n_valid"], row["reasons"]) == (0, 0, WHY)
    # The workflow's reason to try again.
    note = json.loads((out.parent / "lost.json").read_text())
    assert note["absent"] == WHY
    assert note["when_utc"]


def test_collect_takes_counts_of_cells_left_out(tmp_path, absent):
    out = tmp_path / "cell" / "cell.json"
    test_a_cell_without_an_instrument_says_why_it_has_no_replicate(absent, tmp_path)
    cell = tmp_path / "cells" / "cell" / "cell.json"
    files = {
        t: out.parent / f"{t}.csv"
        for t in ("overview", "replicates", "intervals", "flows", "queue")
    }
    options = [word for table, path in files.items() for word in (f"--{table}", str(path))]
    assert cli.main(["collect", str(cell), *options, "--left-out", "main=3", "other=88"]) == 0
    rows = collect.read_csv(files["overview"])
    assert [(r["block"], r["n_left_out"]) for r in rows] == [
        ("b", ""),
        ("main", "3"),
        ("other", "88"),
    ]
