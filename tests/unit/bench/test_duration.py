"""`python -m bench.duration`: the fit of the costs of replicates."""

import pytest

from bench import duration
from losslab import cellspec
from losslab.campaign import cost


def test_fit_finds_the_costs_of_a_replicate_of_a_second_and_of_a_gigabyte():
    points = [(rate_mbit, duration_s) for rate_mbit in (1, 5, 20, 1000) for duration_s in (2, 10)]
    bulk = []
    for rate_mbit, duration_s in points:
        busy_s = duration_s * min(1, rate_mbit / cost.AWAKE_MBIT)
        cpu_s = 0.3 + 0.02 * busy_s + 2.5 * rate_mbit * duration_s / 8000
        point = {"algorithm": "cubic", "rate_mbit": rate_mbit, "duration_s": duration_s}
        condition = cellspec.condition(point)
        bulk.append((condition, float(rate_mbit), cpu_s))
    assert duration.fit(bulk) == pytest.approx((0.3, 0.02, 2.5))
