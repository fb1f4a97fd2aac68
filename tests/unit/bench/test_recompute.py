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
        "means": [], "scoreboard": [], "single runs": [], "README": []
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


def test_each_forged_file_is_found(tmp_path: Path):
    for path in RECORDED.iterdir():
        shutil.copy(path, tmp_path)
    forge(tmp_path / "record.tsv", "\t", {"study": "loss"}, "mean", "1")
    forge(tmp_path / "scoreboard.csv", ",", {"source": "loss"}, "within_25", "0")
    forge(tmp_path / "claims.csv", ",", {"claim": "ewma"}, "verdict", "undecidable")
    found = recompute.differences(tmp_path)
    assert len(found["means"]) == 1
    assert len(found["scoreboard"]) == 1
    assert len(found["single runs"]) == 1
    assert found["single runs"][0].startswith("cellular/ewma is ")
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
