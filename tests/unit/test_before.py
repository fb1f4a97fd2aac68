"""The table of what a change did to the speed: medians, and only of what every round has."""

import pytest

from bench.speed import before
from losslab.errors import LosslabError


def test_medians_side_by_side():
    rounds = {
        "before": [{"a": 4.0, "b": 1.0}, {"a": 2.0, "b": 1.0}, {"a": 9.0, "b": 1.0}],
        "after": [{"a": 1.0, "b": 2.0}, {"a": 1.0}, {"a": 3.0, "b": 2.0}],
    }
    lines = before.table(rounds).splitlines()
    assert lines[2:] == ["| a | 4.000 | 1.000 | 0.25 |"]  # a round of "after" could not say b


def test_a_checkout_that_is_not_set_up(tmp_path):
    with pytest.raises(LosslabError, match="must be a checkout that is set up"):
        before.asked(tmp_path)
