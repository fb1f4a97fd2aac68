"""Waiting for descriptors, for time, and for the next whole second."""

import os
import signal
import time

import pytest

from losslab.emulation import timers
from losslab.emulation.timers import wait_for_whole_second


@pytest.fixture
def pipe():
    out, into = os.pipe()
    yield out, into
    os.close(out)
    os.close(into)


def test_waiter_returns_readable_descriptors(pipe):
    out, into = pipe
    quiet, held = os.pipe()
    waiter = timers.Waiter(quiet, out)
    assert waiter.wait(0) == []
    os.write(into, b"x")
    assert waiter.wait(None) == [out]
    os.close(held)  # the end of a pipe is readable, too
    assert waiter.wait(None) == [quiet, out]
    os.close(quiet)


def test_sleep_takes_at_least_its_time(pipe):
    waiter = timers.Waiter(pipe[0])
    begin_ns = time.monotonic_ns()
    assert waiter.wait(1_000_000) == []
    assert timers.sleep_until(begin_ns + 3_000_000) is None
    assert time.monotonic_ns() >= begin_ns + 3_000_000
    timers.sleep_until(begin_ns)  # has passed


def test_waits_longer_than_a_second_are_complete(pipe, monkeypatch):
    """The system call gets the timeout in two parts."""
    found = []

    def ppoll(polled, count, timeout, mask):
        found.append((timeout._obj.seconds, timeout._obj.nanoseconds))
        return 0

    monkeypatch.setattr(timers._libc, "ppoll", ppoll)
    assert timers.Waiter(pipe[0]).wait(2_000_000_001) == []
    assert found == [(2, 1)]


def test_signal_ends_a_wait(pipe):
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert timers.Waiter(pipe[0]).wait(60_000_000_000) == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_signal_does_not_end_a_sleep_until_an_instant():
    came = []
    before = signal.signal(signal.SIGALRM, lambda *_: came.append(time.monotonic_ns()))
    instant_ns = time.monotonic_ns() + 300_000_000
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        timers.sleep_until(instant_ns)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic_ns() >= instant_ns
    assert len(came) == 1


def test_failed_system_call_is_an_error(pipe):
    with pytest.raises(OSError, match="Invalid argument"):
        timers.Waiter(pipe[0]).wait(-1)
    with pytest.raises(OSError, match="Invalid argument"):
        timers.sleep_until(-1)


def test_wait_ends_at_the_clocks_next_whole_second():
    before = time.monotonic_ns()
    wait_for_whole_second()
    after = time.monotonic_ns()
    whole = (before // 10**9 + 1) * 10**9
    assert before < whole <= after
    assert after - whole < 10**9
