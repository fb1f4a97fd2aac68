"""Waiting for descriptors and for time."""

import os
import signal
import time

import pytest

from losslab.emulation import waits


@pytest.fixture
def pipe():
    out, into = os.pipe()
    yield out, into
    os.close(out)
    os.close(into)


def test_what_can_be_read_is_named(pipe):
    out, into = pipe
    quiet, held = os.pipe()
    waiter = waits.Waiter(quiet, out)
    assert waiter.wait(0) == []
    os.write(into, b"x")
    assert waiter.wait(None) == [out]
    os.close(held)  # an end can be read, too
    assert waiter.wait(None) == [quiet, out]
    os.close(quiet)


def test_time_passes_and_no_less(pipe):
    waiter = waits.Waiter(pipe[0])
    begin_ns = time.monotonic_ns()
    assert waiter.wait(1_000_000) == []
    assert waits.sleep_until(begin_ns + 3_000_000) is None
    assert time.monotonic_ns() >= begin_ns + 3_000_000
    waits.sleep_until(begin_ns)  # is over


def test_more_than_a_second_is_waited_for(pipe, monkeypatch):
    """The timeout that the system call is given, which has two parts."""
    found = []

    def ppoll(polled, count, timeout, mask):
        found.append((timeout._obj.seconds, timeout._obj.nanoseconds))
        return 0

    monkeypatch.setattr(waits._libc, "ppoll", ppoll)
    assert waits.Waiter(pipe[0]).wait(2_000_000_001) == []
    assert found == [(2, 1)]


def test_a_signal_ends_a_wait(pipe):
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert waits.Waiter(pipe[0]).wait(60_000_000_000) == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_does_not_end_a_sleep_until_an_instant():
    came = []
    before = signal.signal(signal.SIGALRM, lambda *_: came.append(time.monotonic_ns()))
    instant_ns = time.monotonic_ns() + 300_000_000
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        waits.sleep_until(instant_ns)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic_ns() >= instant_ns
    assert len(came) == 1


def test_what_the_system_refuses_is_an_error(pipe):
    with pytest.raises(OSError, match="Invalid argument"):
        waits.Waiter(pipe[0]).wait(-1)
    with pytest.raises(OSError, match="Invalid argument"):
        waits.sleep_until(-1)
