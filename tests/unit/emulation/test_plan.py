"""Plans: functions of a condition and a seed that contain every action of a replicate."""

import dataclasses
import json

import pytest

from losslab.emulation import hosts
from losslab.emulation.app import apps
from losslab.emulation.plan import make_plan
from losslab.emulation.qdiscs import Link
from losslab.emulation.topology import HOSTS
from tests.unit.study.test_condition import CONDITION


def plan(seed=7, **changes):
    return make_plan(dataclasses.replace(CONDITION, **changes), seed)


def read_back(made):
    """Return the read-back of a kernel that follows the plan."""
    return {
        name: {
            "qdiscs": [
                {"dev": q.where.name, "handle": q.handle, "kind": q.kind, "options": nested(q)}
                for q in host.qdiscs
            ],
            "classes": {
                q.where.name: [{"handle": handle, **its} for handle, its in q.classes.items()]
                for q in host.qdiscs
                if q.classes
            },
            "rates": {
                f"{q.where.name} {q.handle}": [[s.at_ns, s.rate, s.flags, 0, 0, 0] for s in q.steps]
                for q in host.qdiscs
                if isinstance(q, Link)
            },
            "routes": [
                {"dst": d, "dev": dev, "gateway": "x", "metrics": [host.route_attributes]}
                for d, dev in host.routes.items()
            ],
            "links": {end: {"mtu": host.mtu_bytes} for end in host.interfaces},
            "sysctls": dict(host.sysctls),
            "offloads": {end: {"tx": host.offloads} for end in host.interfaces},
        }
        for name, host in made.hosts.items()
    }


def nested(qdisc):
    options = {}
    for dotted, value in qdisc.expected.items():
        *outer, last = dotted.split(".")
        place = options
        for key in outer:
            place = place.setdefault(key, {})
        place[last] = value
    return options


def test_plan_depends_on_the_condition_and_the_seed_only():
    assert plan() == plan()
    assert plan(loss_percent=1.0) != plan(seed=8, loss_percent=1.0)
    assert json.loads(json.dumps(plan().to_json()))["promise"]["rtt_ms"] == CONDITION.rtt_ms


def test_spread_starts_either_flow_first_and_keeps_the_flow_under_test_first_in_results():
    two = {"competitor": "bbr", "start_spread_s": 5.0, "warmup_s": 5.0, "duration_s": 20.0}
    plans = [plan(seed, **two) for seed in range(40)]
    first = [made.starts[0].flow.name for made in plans]
    assert 10 < first.count("competitor-iperf3") < 30
    assert all(made.flows[0].name == "iperf3" for made in plans)
    offsets = [made.starts[1].after_s for made in plans]
    assert 0 <= min(offsets) < 1
    assert 4 < max(offsets) <= 5


@pytest.mark.parametrize("app", apps())
def test_every_apps_plan_can_be_read_back(app):
    more = {"datagram": {"scheme": "fixed,window=10"}, "web": {"duration_s": 60.0}}
    made = plan(app=app, **more.get(app, {}))
    assert list(made.hosts) == list(HOSTS)
    assert hosts.deviations(made.hosts, read_back(made)) == []


@pytest.mark.parametrize(
    ("host", "part", "change", "words"),
    [
        ("sender", "sysctls", {"net.ipv4.tcp_ecn": "2"}, "sysctl net.ipv4.tcp_ecn on sender"),
        ("r1", "offloads", {"r1-r2": {"tx": "on"}}, "tx of r1-r2 on r1 must be off"),
        ("receiver", "routes", [], "routes of receiver must be"),
        ("r2", "links", {"r2-r1": {}, "r2-receiver": {"mtu": 1400}}, "the MTU of r2-receiver on"),
        ("r2", "qdiscs", [], "qdisc netem must be on r2-receiver on r2"),
        ("r1", "rates", {"r1-r2 1:": [[0, 9, 0, 0, 0, 0]]}, "qdisc link on r1-r2 of r1 must have"),
    ],
)
def test_wrong_read_back_is_named(host, part, change, words):
    made = plan()
    state = read_back(made)
    if isinstance(change, dict):
        state[host][part] |= change
    else:
        state[host][part] = change
    assert any(reason.startswith(words) for reason in hosts.deviations(made.hosts, state))
