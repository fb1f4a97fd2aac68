"""Every metric in Mbit/s is bounded by the links' rates."""

from bisect import bisect_left, bisect_right
from dataclasses import replace

import pytest

from losslab.campaign import bounds
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
        ({"jitter_ms": 50.0, "jitter_direction": "both"}, 5 * (1 + 0.1 / 0.5)),
    ],
)
def test_what_passed_earlier_or_elsewhere_is_no_violation(changes, rate_mbit):
    assert above_links({"received_mbit": rate_mbit}, replace(LINK, **changes)) == []
    assert above_links({"received_mbit": 1.1 * rate_mbit}, replace(LINK, **changes)) != []


def test_bucket_is_named():
    (reason,) = above_links({"goodput_mbit": 9.0}, replace(LINK, shaper="tbf"))
    assert "on links of 5 Mbit/s and 3028 bytes of full buckets, found 9" in reason
    (reason,) = above_links({"goodput_mbit": 9.0}, replace(LINK, offloads="on"))
    assert "at most 5.02422 Mbit/s on links of 5 Mbit/s, found 9" in reason


def test_other_metrics_have_no_such_bound():
    assert above_links({"retransmits": 900, "goodput_mbit": None}, LINK) == []


def test_rate_on_a_trace_is_at_most_its_opportunities(monkeypatch):
    """The bound of a trace was none: any number passed."""
    # A packet every 10 ms for 1 s, and then 100 packets in one millisecond: 1.2 Mbit/s, and
    # 2.4 Mbit/s in windows of 1 s.
    times = [*range(10, 1001, 10), *[1500] * 100, 2000]
    monkeypatch.setattr(bounds.inputs, "opportunities_ms", {"bursts": times, "gone": []}.get)
    path = replace(LINK, trace="bursts", duration_s=6)
    highest_mbit = max(
        (bisect_right(times, ms + length_ms) - bisect_left(times, ms)) * 12 / length_ms
        for ms in times
        for length_ms in (500, 750, 999)
    )
    assert above_links({"goodput_mbit": highest_mbit}, path) == []
    (reason,) = above_links({"goodput_mbit": 1.2 * highest_mbit}, path)
    assert "a trace of at most" in reason
    assert above_links({"goodput_mbit": 1.2 * highest_mbit}, replace(path, jitter_ms=500.0)) == []
    assert above_links({"goodput_mbit": 9e9}, replace(path, trace="gone")) == []
    # A drawn trace of 140 s has 58,655 opportunities.
    drawn = replace(path, trace="cellular", warmup_s=0)
    assert above_links({"goodput_mbit": 1400.0}, drawn) == []
    assert above_links({"goodput_mbit": 1500.0}, drawn) != []
