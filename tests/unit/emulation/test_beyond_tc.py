"""Filters that drop, and DualPI2: tc commands and netlink read-back."""

import contextlib
import dataclasses
import struct

import pytest

from losslab.emulation import batch, beyond_tc, hosts, mechanism
from losslab.emulation.plan import make_plan
from losslab.emulation.probes.netlink import attribute
from losslab.emulation.shaping import path_qdiscs
from losslab.errors import LosslabError
from tests.unit.emulation.test_plan import read_back
from tests.unit.study.test_condition import CONDITION

QUIET = dataclasses.replace(CONDITION, loss_percent=0, rtt_ms=20)


def mechanism_qdiscs(**changes):
    condition = dataclasses.replace(QUIET, **changes)
    return [qdisc for its in mechanism.of(condition) for qdisc in its.qdiscs(condition)]


def deviations(asked, found):
    return asked.deviations({"filters": {asked.where.name: found}})


def action(kind, options):
    stats = attribute(1, struct.pack("=QI", 3_000, 2)) + attribute(3, struct.pack("=5I", *range(5)))
    return (
        attribute(beyond_tc.TCA_ACT_KIND, kind + b"\0")
        + attribute(beyond_tc.TCA_ACT_OPTIONS, options)
        + attribute(beyond_tc.TCA_ACT_STATS, stats)
    )


def of_kernel(kind, number, content):
    """Return a netlink dump of one filter."""
    options = attribute(number, attribute(1, content))
    return dict(
        [(beyond_tc.TCA_KIND, kind + b"\0"), (beyond_tc.TCA_OPTIONS, options)]
    )  # fmt: skip


def test_policer_bucket_is_read_back_in_whole_packets():
    rate, burst = 1_250_000, 100 * 1514
    ticks = round(burst * 1e9 / rate / 64)
    police = struct.pack("=IiIIIBBHhHI", 1, 2, 0, ticks, 2_000, 0, 0, 0, 0, 0, rate)
    parts = of_kernel(b"matchall", 2, action(b"police", attribute(1, police)))
    [found] = beyond_tc._actions(parts)
    assert found == {
        "kind": "police", "action": 2, "rate": rate, "burst": burst, "bytes": 3_000, "packets": 2,
        "drops": 2,
    }  # fmt: skip
    [asked] = mechanism_qdiscs(policer_mbit=10)
    assert deviations(asked, [found]) == []
    assert "police rate 10000000bit burst 151400 conform-exceed drop/ok" in asked.command()
    for wrong in ([], [found, found], [found | {"rate": 1}], [found | {"burst": 1514}]):
        [reason] = deviations(asked, wrong)
        assert reason.startswith("filter on r1-r2 on r1 must be")


def test_ack_thinning_is_read_back_with_its_number():
    gact = attribute(2, struct.pack("=IIi", 1, 0, 2)) + attribute(3, struct.pack("=HHi", 2, 4, 0))
    [found] = beyond_tc._actions(of_kernel(b"flower", 3, action(b"gact", gact)))
    [asked] = mechanism_qdiscs(ack_thinning=4, path="asymmetric")
    assert asked.where.name == "r3-r1"
    assert deviations(asked, [found]) == []
    assert deviations(asked, [found | {"one_of": 2}]) != []
    without = attribute(2, struct.pack("=IIi", 1, 0, 2))
    [found] = beyond_tc._actions(of_kernel(b"flower", 3, action(b"gact", without)))
    assert deviations(asked, [found]) != []


def test_filters_are_among_the_required_qdiscs():
    made = make_plan(dataclasses.replace(QUIET, policer_mbit=5), 7)
    state = read_back(made)
    good = dict(made.hosts["r1"].qdiscs[-1].action)
    state["r1"]["filters"] = {"r1-r2": [good]}
    assert hosts.deviations(made.hosts, state) == []
    state["r1"]["filters"] = {"r1-r2": [good | {"rate": 1}]}
    [reason] = hosts.deviations(made.hosts, state)
    assert "filter on r1-r2" in reason
    state["r1"]["filters"] = {"r1-r2": [good]}
    state["r1"]["qdiscs"] = [q for q in state["r1"]["qdiscs"] if q["kind"] != "clsact"]
    assert "qdisc clsact must be on r1-r2" in hosts.deviations(made.hosts, state)[0]
    plain = make_plan(QUIET, 7)
    state = read_back(plain)
    state["r2"]["qdiscs"].append({"dev": "r2-r1", "handle": "ffff:", "kind": "clsact"})
    [reason] = hosts.deviations(plain.hosts, state)
    assert "clsact on r2-r1 of r2 is not in the plan" in reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policer_mbit": 5, "trace": "cellular"}, "policer_mbit must be 0 with a trace"),
        ({"policer_burst_packets": 5}, "policer_burst_packets 5 needs a policer_mbit above 0"),
        ({"ack_thinning": 2, "offloads": "on"}, "offloads must be off with ack_thinning"),
    ],
)
def test_conflicting_axes_are_refused(changes, words):
    [problem] = dataclasses.replace(QUIET, **changes).problems()
    assert words in problem


DUAL = dataclasses.replace(QUIET, queue="dualpi2", ecn="on", buffer_packets=300)


def test_dualpi2_has_the_configured_limit():
    its = next(q for q in path_qdiscs(DUAL, 7) if q.kind == "dualpi2")
    assert its.command() == "qdisc add dev r1-r2 parent 1:1 handle 10: dualpi2"
    stats = struct.pack("=12I", *range(12))
    parts = {
        beyond_tc.TCA_OPTIONS: attribute(1, struct.pack("=I", 300)),
        beyond_tc.TCA_STATS2: attribute(4, stats),
    }
    found = beyond_tc.dualpi2_state(parts)
    assert (found["limit"], found["packets_in_l"], found["ecn_mark"]) == (300, 4, 6)
    assert its.deviations({"dualpi2": found}) == []
    [reason] = its.deviations({"dualpi2": {}})
    assert "must have limit 300, found None" in reason
    made = make_plan(DUAL, 7)
    state = read_back(made) | {}
    state["r1"]["dualpi2"] = found | {"limit": 10_000}
    assert any("limit 300, found 10000" in r for r in hosts.deviations(made.hosts, state))


def test_qdisc_unknown_to_tc_is_listed():
    text = '[{"kind":"dualpi2","options":{[Unknown qdisc, optlen=92] },"bytes":7}]'
    assert batch._documents(text) == [[{"kind": "dualpi2", "options": {}, "bytes": 7}]]


def test_accurate_ecn_is_refused_without_kernel_support(monkeypatch):
    monkeypatch.setattr(hosts, "ACCURATE_ECN_SYSCTL", "net.ipv4.no_such_thing")
    hosts.require_ecn(make_plan(DUAL, 7).hosts)
    with pytest.raises(LosslabError, match="ecn accurate needs a kernel with Accurate ECN"):
        hosts.require_ecn(make_plan(dataclasses.replace(DUAL, ecn="accurate"), 7).hosts)


def test_dualpi2_is_refused_without_kernel_support(monkeypatch):
    class Tc:
        said = "Error: Specified qdisc kind is unknown."

        def do(self, lines):
            raise LosslabError(self.said)

    @contextlib.contextmanager
    def here(pid):
        yield

    monkeypatch.setattr(hosts.netns, "inside", here)
    made = make_plan(DUAL, 7)
    handles = {name: batch.Handle(1, None, Tc()) for name in made.hosts}
    only_r1 = {"r1": made.hosts["r1"]}
    with pytest.raises(LosslabError, match="queue dualpi2 needs a kernel with DualPI2"):
        hosts.shape(only_r1, handles)
    monkeypatch.setattr(Tc, "said", "another word")
    with pytest.raises(LosslabError, match="another word"):
        hosts.shape(only_r1, handles)
