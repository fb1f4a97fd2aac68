"""Every metric in Mbit/s is bounded by the links' rates."""

from dataclasses import replace

import pytest

from losslab.campaign.bounds import above_links
from losslab.study import metrics
from tests.unit.study.test_condition import CONDITION

LINK = replace(
    CONDITION, rate_mbit=5.0, rtt_ms=20, duration_s=2, warmup_s=0.2, loss_percent=0, shaper="link"
)
RATES = [name.replace(metrics.LABEL, "bbr") for name, metric in metrics.declared().items()
         if metric.unit == "Mbit/s"]  # fmt: skip


@pytest.mark.parametrize("name", RATES)
def test_w2_every_declared_rate_is_bounded(name):
    """W2: `received_mbit` was 9.49 on a link of 5; the check had a list of names."""
    assert above_links({name: 5.0}, LINK) == []
    (reason,) = above_links({name: 5.3}, LINK)
    assert reason.startswith(f"{name} must be at most 5.02")
    assert above_links({name: float("nan")}, LINK) != []


@pytest.mark.parametrize(
    ("changes", "rate_mbit"),
    [
        ({"second_rate_mbit": 4.0, "flows": "same"}, 9),
        ({"changes": "at_s=1,rate_mbit=8"}, 8),
        ({"shaper": "tbf"}, 5.07),
        # Acknowledgements that were lost before the warm-up's end may come in the window.
        ({"loss_percent": 1, "loss_direction": "both"}, 5 * (1 + 0.2 / 0.5)),
        ({"jitter_ms": 50.0}, 5 * (1 + 0.05 / 0.5)),
    ],
)
def test_what_passed_earlier_or_elsewhere_is_no_violation(changes, rate_mbit):
    assert above_links({"received_mbit": rate_mbit}, replace(LINK, **changes)) == []
    assert above_links({"received_mbit": 1.1 * rate_mbit}, replace(LINK, **changes)) != []


def test_other_metrics_and_traces_have_no_such_bound():
    assert above_links({"retransmits": 900, "goodput_mbit": None}, LINK) == []
    assert above_links({"goodput_mbit": 90.0}, replace(LINK, trace="cellular")) == []
