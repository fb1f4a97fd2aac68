"""The check of jitter, also of packets that batches hold."""

import random
import statistics
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab.emulation.path.jitter import Jitter

PINGS = 20


def reasons(waits_ms, jitter_ms, batch_ms, **more):
    jitter = Jitter(jitter_ms=jitter_ms, **more)
    effect = SimpleNamespace(above_ms=jitter.range_ms + batch_ms, below_ms=0.0)
    path = SimpleNamespace(effect=effect)
    evidence = SimpleNamespace(
        idle_ms=[20 + wait for wait in waits_ms], path_spec=path, rtt_tolerance_ms=0.01
    )
    return list(jitter.violations(evidence))


def released(ready_ms, begin_ms, slot_ms):
    """Return the end of the slot in which a packet is ready; slots begin at `begin_ms`."""
    slots = -(-(ready_ms - begin_ms) // slot_ms)
    return begin_ms + slots * slot_ms


@given(
    st.lists(st.floats(0, 1), min_size=PINGS, max_size=PINGS),
    st.floats(0.1, 50),
    st.floats(0.1, 50),
)
def test_pings_that_batches_hold_are_valid(draws, jitter_ms, slot_ms):
    """netem's slot begins when a lone packet comes, so its RTT rises to whole slots."""
    draws[0], draws[1] = 0.0, 1.0  # the whole range
    waits = [released(10 + jitter_ms * draw, 0.0, slot_ms) - 10 for draw in draws]
    assert reasons(waits, jitter_ms, slot_ms) == []


@pytest.mark.parametrize("spread_ms", [0.0, 25.0])
def test_range_that_neither_jitter_nor_batches_explain_is_a_violation(spread_ms):
    waits = [spread_ms * n / (PINGS - 1) for n in range(PINGS)]
    assert len(reasons(waits, 10.0, 0.0)) == 1
    assert len(reasons([wait * 2 for wait in waits], 10.0, 15.0)) == (spread_ms > 0)


def draws_ms(rng, jitter_ms, distribution, percent):
    """Draw what netem would: `get_crandom` and `tabledist` of net/sched/sch_netem.c."""
    weight = round(percent / 100 * (2**32 - 1)) + 1
    last = rng.getrandbits(32)
    for _ in range(PINGS):
        number = rng.getrandbits(32)
        if percent:
            last = number = (number * (2**32 - weight) + last * weight) >> 32
        if distribution == "uniform":
            yield number % round(jitter_ms * 1e6) / 1e6
        else:
            quantile = statistics.NormalDist().inv_cdf((number % 4096 + 0.125) / 4096)
            yield max(0.0, jitter_ms * (0.5 + quantile / 8))


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
@pytest.mark.parametrize("direction", ["data", "both"])
@pytest.mark.parametrize("percent", [0, 25, 99.9])
@pytest.mark.parametrize("jitter_ms", [0.001, 20, 1000])
def test_draws_of_netem_are_valid(distribution, direction, percent, jitter_ms):
    rng = random.Random(7)
    axes = {
        "jitter_distribution": distribution, "jitter_direction": direction,
        "jitter_correlation_percent": percent,
    }  # fmt: skip
    for _ in range(500):
        waits = [*draws_ms(rng, jitter_ms, distribution, percent)]
        if direction == "both":
            more = draws_ms(rng, jitter_ms, distribution, percent)
            waits = [a + b for a, b in zip(waits, more, strict=True)]
        assert reasons(waits, jitter_ms, 0.0, **axes) == []


@pytest.mark.parametrize(
    ("axes", "low_ms", "high_ms"),
    [
        # 20 draws: 0.5129 of the range; the middle of the normal distribution that has this share,
        # without two entries of the table, is 0.6937 standard deviations to each side, of 1.25 ms.
        ({}, 5.13, 10.0),
        ({"jitter_distribution": "normal"}, 1.733, 10.0),
        ({"jitter_direction": "both"}, 5.13, 20.0),
        # Half of the width that has 0.6007 of the distribution.
        ({"jitter_correlation_percent": 50.0}, 2.99, 10.0),
        ({"jitter_correlation_percent": 50.0, "jitter_distribution": "normal"}, 1.05, 10.0),
    ],
)
def test_range_has_bounds_of_its_distribution(axes, low_ms, high_ms):
    for spread_ms, wrong in ((0.98 * low_ms, 1), (1.02 * low_ms, 0), (high_ms, 0), (21, 1)):
        waits = [spread_ms * n / (PINGS - 1) for n in range(PINGS)]
        assert len(reasons(waits, 10.0, 0.0, **axes)) == wrong
