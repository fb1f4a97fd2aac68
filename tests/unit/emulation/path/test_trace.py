"""Trace-driven links of both directions."""

import contextlib
import time
from types import SimpleNamespace

import pytest

from losslab.emulation.path import trace


def test_traces_of_both_directions_begin_at_one_instant(monkeypatch, tmp_path):
    begun, slept = [], []

    @contextlib.contextmanager
    def attached(router, handle, link, plan, folder, begin_ns):
        begun.append((link.way, begin_ns))
        yield

    monkeypatch.setattr(trace.forward, "attached", attached)
    monkeypatch.setattr(trace, "sleep_until", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 12.25)
    links = [SimpleNamespace(way=way, drawn_seed=None) for way in ("data", "back")]
    plan = SimpleNamespace(parts={"links": links}, path_spec=SimpleNamespace(exact=False))
    hosts = {trace.forward.ROUTER: None}
    with trace.FEATURE.attached(plan, hosts, hosts, tmp_path) as noted:
        # A whole second, at least a second from now, when both programs are ready.
        assert begun == [("back", 14 * 10**9), ("data", 14 * 10**9)]
        assert noted == {"link_begin_ns": 14 * 10**9}
        # The traffic starts after both have begun.
        assert slept == [14 * 10**9]


@pytest.mark.parametrize(("backlog_bytes", "words"), [(1_200, []), (1_300, ["a wait of 10 ms"])])
def test_packets_that_wait_behind_the_link_are_found(backlog_bytes, words):
    """A trace replaces the bottleneck's rate, so `rate_mbit` must not limit the flow behind it."""
    sample = SimpleNamespace(backlog_bytes=backlog_bytes)
    path_spec = SimpleNamespace(rate_mbit=1.0, exact=False)
    evidence = SimpleNamespace(path_spec=path_spec, queue=[sample])
    found = list(trace.FEATURE.violations(evidence))
    assert len(found) == len(words)
    assert all(word in reason for word, reason in zip(words, found, strict=True))
