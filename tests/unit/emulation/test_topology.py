"""Hosts and links, with a replacement of Mininet's module."""

import resource
import sys
import types

import pytest

from losslab.emulation import topology
from losslab.emulation.topology import HOSTS, LINKS


@pytest.fixture
def mininet(monkeypatch):
    """A replacement of Mininet's module that records its calls."""
    calls = []

    class Mininet:
        inited = False

        def __init__(self, host, controller, build):
            assert Mininet.inited, "Mininet's constructor would call fixLimits"

        def addHost(self, name, ip):  # noqa: N802
            calls.append(name)
            return name

        def addLink(self, a, b, intfName1, intfName2, up):  # noqa: N802, N803
            calls.append((intfName1, intfName2))

        def stop(self):
            calls.append("stop")

    for name, content in (("net", {"Mininet": Mininet}), ("node", {"Host": object})):
        module = types.ModuleType(f"mininet.{name}")
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, f"mininet.{name}", module)
    monkeypatch.setitem(sys.modules, "mininet", types.ModuleType("mininet"))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    return calls


def test_path_has_its_hosts_and_links_without_mininets_changes_of_limits(mininet):
    with topology.emulated_hosts() as network:
        assert list(network.nodes) == list(HOSTS)
        assert mininet == [*HOSTS, *((a.name, b.name) for a, b in LINKS)]
    assert mininet[-1] == "stop"
