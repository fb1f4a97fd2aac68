"""The check of jitter, also of packets that batches hold."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab.emulation.path.jitter import Jitter

PINGS = 20


def reasons(waits_ms, jitter_ms, batch_ms):
    effect = SimpleNamespace(above_ms=jitter_ms + batch_ms, below_ms=0.0)
    path = SimpleNamespace(effect=effect)
    evidence = SimpleNamespace(
        idle_ms=[20 + wait for wait in waits_ms], path_spec=path, rtt_tolerance_ms=0.01
    )
    return list(Jitter(jitter_ms=jitter_ms).violations(evidence))


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
