import math

import pytest

from losslab.study.stopping import StoppingRule, half_width_percent


def test_half_width_is_students():
    # R: x <- c(9, 10, 11, 12); 100 * qt(0.975, 3) * sd(x) / sqrt(4) / mean(x)
    assert half_width_percent([9, 10, 11, 12]) == pytest.approx(19.564, abs=0.01)


@pytest.mark.parametrize("values", [[], [5.0], [0.0, 0.0]])
def test_without_an_interval_nothing_is_narrow(values):
    assert half_width_percent(values) == math.inf


@pytest.mark.parametrize(
    ("count", "values", "enough"),
    [
        (2, [10.0, 10.0], False),
        (3, [10.0, 10.1, 9.9], True),
        (3, [10.0, 20.0, 1.0], False),
        (3, [10.0], False),
        (6, [10.0, 20.0, 1.0, 5.0, 30.0, 2.0], True),
    ],
)
def test_replicates_are_added_where_the_interval_is_wide(count, values, enough):
    assert StoppingRule(3, 6, 5.0).enough(count, values) is enough


def test_without_a_width_the_number_is_fixed():
    rule = StoppingRule(3, 3)
    assert [rule.enough(n, []) for n in (2, 3)] == [False, True]
    assert str(rule) == "3"
