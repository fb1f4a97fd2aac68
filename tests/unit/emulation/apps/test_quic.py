"""Constraints of the app `quic`."""

import dataclasses

from losslab.study.condition import Condition

CONDITION = Condition(algorithm="bbr", app="quic", rate_mbit=10.0, rtt_ms=20.0)


def test_asymmetric_path_is_refused():
    """Data bypassed the bottleneck: 364 Mbit/s over a link of 1.5 Mbit/s, always invalid."""
    assert CONDITION.problems() == []
    [problem] = dataclasses.replace(CONDITION, path="asymmetric").problems()
    assert problem.startswith("path must be symmetric with the app quic, found asymmetric")
