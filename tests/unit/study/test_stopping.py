import math

import pytest

from losslab.study.intervals import StoppingRule, half_width_percent, mean_interval


def test_half_width_is_that_of_the_confidence_interval():
    values = [9, 10, 11, 12, 10]
    low, high = mean_interval(values)
    assert half_width_percent(values) == pytest.approx(100 * (high - low) / 2 / 10.4)


@pytest.mark.parametrize("values", [[], [5.0], [9.0, 10.0, 11.0, 12.0], [0.0] * 5])
def test_without_an_interval_more_replicates_are_added(values):
    assert half_width_percent(values) == math.inf


@pytest.mark.parametrize(
    ("count", "values", "enough"),
    [
        (4, [10.0] * 4, False),
        (5, [10.0, 10.1, 9.9, 10.0, 10.0], True),
        (5, [10.0, 20.0, 1.0, 5.0, 30.0], False),
        (5, [10.0], False),
        (8, [10.0, 20.0, 1.0, 5.0, 30.0, 2.0, 3.0, 4.0], True),
    ],
)
def test_replicates_are_added_for_wide_intervals(count, values, enough):
    assert StoppingRule(5, 8, 5.0).enough(count, values) is enough


def test_without_a_half_width_the_number_of_replicates_is_fixed():
    rule = StoppingRule(3, 3)
    assert [rule.enough(n, []) for n in (2, 3)] == [False, True]
    assert str(rule) == "3"


def test_looks_of_a_cell_share_the_error():
    rule = StoppingRule(5, 10, 0.5)
    shares = [rule.error_share(count) for count in range(5, 11)]
    assert sum(shares) == pytest.approx(1)
    assert shares[0] == shares[4] < shares[5]
    assert StoppingRule(10, 10).error_share(10) == 1
    # A lost guest can end a cell before its first look.
    assert rule.error_share(3) == shares[0]
