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


@pytest.mark.parametrize("column", verdict_errors.ERRORS)
def test_verdicts_on_a_threshold_have_their_nominal_error(rows, column):
    errors = rates(rows, "verdicts", column, kind="threshold")
    # 2.5 % on each side.
    assert max(errors) < 2.5 + CHANCE
    assert sum(errors) / len(errors) == pytest.approx(2.5, abs=1.2)


def test_comparisons_with_published_runs_are_rarely_wrong(rows):
    for column in verdict_errors.ERRORS:
        errors = rates(rows, "verdicts", column, kind="two samples, five published runs")
        assert max(errors) < 5 + CHANCE


def test_a_single_run_of_the_same_kind_is_rarely_called_not_compatible(rows):
    """Its prediction interval misses 5 %, and less if it is within the limit."""
    kind = "prediction of one run"
    assert max(rates(rows, "verdicts", "wrongly_not_reproduced", kind=kind)) < 5 + CHANCE


def test_holms_method_controls_the_error_of_a_family(rows):
    assert max(rates(rows, "family", "holm")) < 5 + 2 * CHANCE
    assert min(rates(rows, "family", "alone")) > 20


def test_intervals_of_cells_that_end_early_are_valid(rows):
    assert max(rates(rows, "stopping", "shared")) < 5 + CHANCE / 1.4
    assert max(rates(rows, "stopping", "ordinary")) > 5


def test_results_without_cells_are_refused(tmp_path, capfd):
    (tmp_path / "summary").mkdir()
    assert verdict_errors.main([str(tmp_path), "--draws", "1"]) == 1
    assert "must have a cell with 5 runs that vary" in capfd.readouterr().err
