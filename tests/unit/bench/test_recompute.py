"""The recorded full campaign, recomputed without the project's analysis."""

import csv
import shutil
from pathlib import Path

import pytest

from bench import recompute

RECORDED = recompute.ROOT / "recorded" / "full"
RUNS = [9.8, 9.9, 10.0, 10.1, 10.2]


def test_nothing_differs_in_the_recorded_campaign():
    assert recompute.differences(RECORDED) == {
        "means": [], "scoreboard": [], "single runs": [],
        "intervals": [], "causes": [], "README": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("published", "within", "values", "verdict"),
    [
        (10.1, 2, RUNS, "inside"),
        (11, 2, RUNS, "near"),
        (11, 1, RUNS, "outside"),
        (10.1, 0.1, RUNS, "undecidable"),
        (10.1, 0.4, RUNS, "inconclusive"),
        (10.1, 2, RUNS[:4], "inconclusive"),
    ],
)
def test_a_single_published_run_is_judged_by_the_prediction_interval(
    published, within, values, verdict
):
    assert recompute.judge_run(published, within, values) == verdict


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [
        ({"at_most": 10.5}, "reproduced"),
        ({"at_least": 10.5}, "not reproduced"),
        ({"at_least": 9.8, "at_most": 10.01}, "inconclusive"),
        ({"published": 10, "within": 0.3}, "reproduced"),
    ],
)
def test_a_mean_is_judged_by_its_whole_interval(limit, verdict):
    assert recompute.judge_mean(*recompute.mean_interval(RUNS), limit) == verdict


def test_pairs_cancel_what_their_runs_share():
    halves = [value / 2 for value in RUNS]
    assert recompute.ratio_interval(RUNS, halves, True) == pytest.approx((2, 2))
    low, high = recompute.ratio_interval(RUNS, halves, False)
    assert low < 1.98
    assert high > 2.02


def test_each_forged_file_is_found(tmp_path: Path):
    for path in RECORDED.iterdir():
        shutil.copy(path, tmp_path)
    forge(tmp_path / "record.tsv", "\t", {"study": "loss"}, "mean", "1")
    forge(tmp_path / "scoreboard.csv", ",", {"source": "loss"}, "within_25", "0")
    forge(tmp_path / "claims.csv", ",", {"claim": "ewma"}, "verdict", "undecidable")
    order = {"study": "map", "claim": "loss"}
    forge(tmp_path / "claims.csv", ",", order, "verdict", "inconclusive")
    found = recompute.differences(tmp_path)
    assert len(found["means"]) == 1
    assert len(found["scoreboard"]) == 1
    assert len(found["single runs"]) == 1
    assert found["single runs"][0].startswith("cellular/ewma is ")
    assert [text.split(" is ")[0] for text in found["intervals"]] == ["map/loss"]
    # The README has the recorded scoreboard, not the forged one.
    assert len(found["README"]) == 1


def forge(path: Path, delimiter: str, where: dict[str, str], column: str, value: str) -> None:
    """Change a column of the first row that has some values."""
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter=delimiter))
    row = next(row for row in rows if where.items() <= row.items())
    assert row[column] != value
    row[column] = value
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
