"""Whole seconds."""

import time

from losslab.emulation.waits import wait_for_whole_second


def test_it_ends_with_the_clocks_next_whole_second():
    before = time.monotonic_ns()
    wait_for_whole_second()
    after = time.monotonic_ns()
    whole = (before // 10**9 + 1) * 10**9
    assert before < whole <= after
    assert after - whole < 10**9
