"""Simulated error rates of the verdicts, and their page."""

import pytest

from bench import verdict_errors
from losslab.campaign import tables
from losslab.reading import read_rows

pytestmark = pytest.mark.nightly

DRAWS = 200
# Four standard errors of a rate of 5 % in so many draws.
CHANCE = 6.2


@pytest.fixture(scope="module")
def rows(root, tmp_path_factory):
    """Return the rates for cells whose runs scatter by 1 to 10 %."""
    folder = tmp_path_factory.mktemp("results")
    recorded = root / "tests/expected/analysis/input/cloud_replicates.csv"
    one = next(row for row in read_rows(recorded) if row["app"] == "iperf3")
    made_up = [
        one | {"cell": f"made-up-{cell}", "replicate": number,
               "goodput_mbit": 100 * (1 + cell / 100 * (number - 2))}
        for cell in range(1, 7)
        for number in range(5)
    ]  # fmt: skip
    (folder / "summary").mkdir()
    tables.write_csv(folder / "summary" / "cloud_replicates.csv", list(one), made_up)
    verdict_errors.simulate(folder, folder / "rates.csv", DRAWS)
    return read_rows(folder / "rates.csv")


def rates(rows, part, column, **chosen):
    found = [
        float(row[column])
        for row in rows
        if row["part"] == part and all(row[key] == value for key, value in chosen.items())
    ]
    assert found
    return found


# Part, column, comparison, and the nominal rate of errors in %.
CONTROLLED = [
    *(("verdicts", each, "threshold", 2.5) for each in verdict_errors.ERRORS),
    *(("verdicts", each, "two samples, five published runs", 5) for each in verdict_errors.ERRORS),
    ("verdicts", "wrongly_not_reproduced", "prediction of one run", 5),
    ("family", "holm", None, 5 + CHANCE),
    ("stopping", "shared", None, 5),
]


@pytest.mark.parametrize(("part", "column", "kind", "percent"), CONTROLLED)
def test_errors_of_verdicts_have_their_nominal_rate(rows, part, column, kind, percent):
    chosen = {"kind": kind} if kind else {}
    assert max(rates(rows, part, column, **chosen)) < percent + CHANCE


def test_errors_without_a_correction_are_larger(rows):
    assert min(rates(rows, "family", "alone")) > 20
    assert max(rates(rows, "stopping", "ordinary")) > 5


def test_results_without_cells_are_refused(tmp_path, capfd):
    (tmp_path / "summary").mkdir()
    assert verdict_errors.main([str(tmp_path), "--draws", "1"]) == 1
    assert "must have a cell with 5 runs that vary" in capfd.readouterr().err
