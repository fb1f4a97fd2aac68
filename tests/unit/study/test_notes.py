"""Notes on values that are possible, but may not be what a user means."""

import pytest

from losslab import cellspec
from losslab.study import names, units
from losslab.study.condition import Condition


def notes(**axes):
    condition = cellspec.condition({"algorithm": "cubic"} | axes)
    point = condition.to_json()
    return [*units.notes({}, [point]), *names.unusual_parameters(condition)]


@pytest.mark.parametrize(
    ("percent", "note"),
    [
        (0.01, "loss_percent 0.01 is 1 packet in 10,000; for 1 % of the packets, write 1"),
        (0.05, "loss_percent 0.05 is 1 packet in 2,000; for 5 % of the packets, write 5"),
    ],
)
def test_loss_that_may_be_a_fraction_is_explained(percent, note):
    assert notes(loss_percent=percent, rtt_ms=20) == [note]
    assert notes(loss_percent=100 * percent, rtt_ms=20) == []


@pytest.mark.parametrize("beta", [0, 1024, 2000])
def test_parameter_that_reverses_an_algorithm_is_explained(beta):
    assert notes(parameters=f"cubic.beta={beta}") == [
        f"beta of cubic should be in [1, 1023], found {beta}: a loss leaves beta/1024 of the "
        "window: all of it or more, or nothing"
    ]
    assert notes(parameters="cubic.beta=512") == []
    assert Condition("cubic,beta=512").parameters == "cubic.beta=512"
