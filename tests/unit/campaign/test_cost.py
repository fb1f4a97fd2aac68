import dataclasses

import pytest

from losslab.campaign import cost
from losslab.study import condition
from losslab.study.condition import Condition

BULK = Condition(algorithm="cubic", rate_mbit=100, rtt_ms=20, duration_s=10)


def changed(**values):
    return cost.replicate_s(dataclasses.replace(BULK, **values), "virtual")


def test_estimated_goodput_follows_rate_loss_and_algorithm():
    assert cost.expected_mbit(BULK) == 100
    lossy = dataclasses.replace(BULK, loss_percent=1)
    # 1448 bytes times the square root of 150, per RTT of 20 ms.
    assert cost.expected_mbit(lossy) == pytest.approx(7.09, abs=0.01)
    assert cost.expected_mbit(dataclasses.replace(lossy, algorithm="bbr")) == pytest.approx(99)
    assert cost.expected_mbit(dataclasses.replace(BULK, app="web")) == 0
    every_hundredth = ",".join(str(number) for number in range(100, 5001, 100))
    listed = dataclasses.replace(BULK, drop_list=f"data {every_hundredth}")
    assert cost.expected_mbit(listed) == pytest.approx(7.09, abs=0.01)
    assert cost.expected_mbit(dataclasses.replace(BULK, drop_list="data 100")) == 100
    everything = f"data {','.join(map(str, range(1, 31)))}"
    none_left = dataclasses.replace(BULK, algorithm="bbr", loss_percent=50, drop_list=everything)
    assert cost.expected_mbit(none_left) == 0


@pytest.mark.parametrize("app", condition.AXES["app"].choices)
def test_every_app_has_a_cost(app):
    assert changed(app=app) > 0
