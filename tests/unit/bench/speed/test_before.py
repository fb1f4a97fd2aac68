"""Speed before and after a change: medians of the parts that every round measured."""

import pytest

from bench.speed import before
from losslab.errors import LosslabError


def test_before_prints_medians_of_both():
    rounds = {
        "before": [{"a": 4.0, "b": 1.0}, {"a": 2.0, "b": 1.0}, {"a": 9.0, "b": 1.0}],
        "after": [{"a": 1.0, "b": 2.0}, {"a": 1.0}, {"a": 3.0, "b": 2.0}],
    }
    lines = before.table(rounds).splitlines()
    assert lines[2:] == ["| a | 4.000 | 1.000 | 0.25 |"]  # a round of "after" could not say b


def test_before_refuses_a_checkout_without_set_up(tmp_path):
    with pytest.raises(LosslabError, match="must be a checkout that is set up"):
        before.round_in(tmp_path)
