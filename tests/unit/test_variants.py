"""Variants of a point: multiples, sums, copies of other axes and other values."""

import pytest

from losslab import variants
from losslab.errors import LosslabError

POINT = {"rtt_ms": 20.0, "rate_mbit": 50, "buffer_packets": 3, "parameters": "cubic.beta=600"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rtt_ms": "x1.1"}, {"rtt_ms": 22}),
        ({"rtt_ms": "+2"}, {"rtt_ms": 22}),
        ({"rtt_ms": "-0.5"}, {"rtt_ms": 19.5}),
        ({"rtt_ms": "0.1s"}, {"rtt_ms": 100}),
        ({"buffer_packets": "x0.1"}, {"buffer_packets": 1}),
        ({"buffer_packets": "2bdp"}, {"buffer_packets": 165}),
        ({"sender_delay_ms": "=rtt_ms"}, {"sender_delay_ms": 20}),
        ({"policer_mbit": "=rate_mbit x0.8"}, {"policer_mbit": 40}),
        ({"loss_percent": "x2"}, {"loss_percent": 0}),  # the default
        ({"rtt_ms": "x2", "sender_delay_ms": "=rtt_ms"}, {"rtt_ms": 40, "sender_delay_ms": 20}),
        ({"offloads": "on"}, {"offloads": "on"}),
        ({"sysctl": "both:net.ipv4.tcp_sack=0"}, {"sysctl": "both:net.ipv4.tcp_sack=0"}),
        ({"parameters": "cubic.hystart=0"}, {"parameters": "cubic.beta=600+cubic.hystart=0"}),
    ],
)
def test_change_is_relative_to_the_point_or_a_new_value(changes, expected):
    assert variants.changed(POINT, changes) == POINT | expected


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rtt": "x2"}, "must be of an axis, found rtt"),
        ({"rtt_ms": "x2Mbit"}, "rtt_ms must be changed to a value, x2"),
        ({"rtt_ms": "=queue"}, "rtt_ms must be changed to a value, x2"),
        ({"rtt_ms": "=rtt"}, "rtt_ms must be changed to a value, x2"),
        ({"rtt_ms": "20Mbit"}, "rtt_ms must be in ms"),
        ({"offloads": 1}, "offloads must be text, found 1"),
    ],
)
def test_wrong_change_is_refused_by_name(changes, said):
    with pytest.raises(LosslabError, match=said):
        variants.changed(POINT, changes)
