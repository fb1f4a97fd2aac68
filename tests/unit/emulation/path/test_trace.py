"""Trace-driven links of both directions."""

import contextlib
import time
from types import SimpleNamespace

from losslab.emulation.path import trace


def test_traces_of_both_directions_begin_at_one_instant(monkeypatch, tmp_path):
    begun, slept = [], []

    @contextlib.contextmanager
    def attached(link, plan, handle, folder, begin_ns):
        begun.append((link.way, begin_ns))
        yield

    monkeypatch.setattr(trace.exact, "attached", attached)
    monkeypatch.setattr(trace.exact, "link_of", lambda plan, way: where)
    monkeypatch.setattr(trace, "sleep_until", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 12.25)
    links = [SimpleNamespace(way=way, drawn_seed=None, file="trace") for way in ("data", "back")]
    plan = SimpleNamespace(parts={"links": links})
    where = SimpleNamespace(where=SimpleNamespace(host="r1"))
    hosts = {"r1": None}
    with trace.FEATURE.attached(plan, hosts, hosts, tmp_path) as noted:
        # A whole second, at least a second from now, when both lists are ready.
        assert begun == [("back", 14 * 10**9), ("data", 14 * 10**9)]
        assert noted == {"link_begin_ns": 14 * 10**9}
        # The traffic starts after both have begun.
        assert slept == [14 * 10**9]
