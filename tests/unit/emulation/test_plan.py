"""Plans: functions of a condition and a seed that contain every action of a replicate."""

import dataclasses
import json

import pytest

from losslab.emulation import hosts
from losslab.emulation.app import apps
from losslab.emulation.link import tracelink
from losslab.emulation.plan import make_plan
from losslab.emulation.topology import HOSTS
from losslab.study.axes import derived_seed
from tests.unit.study.test_condition import CONDITION


def plan(seed=7, **changes):
    return make_plan(dataclasses.replace(CONDITION, **changes), seed)


def kinds(made):
    return {host: [q.kind for q in made.hosts[host].qdiscs] for host in made.hosts}


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


@pytest.mark.parametrize(
    "changes",
    [
        {"loss_percent": 1.0},
        {"path": "asymmetric", "competitor": "bbr", "queue": "fq_codel"},
        {"trace": "cellular"},
        {"app": "web"},
    ],
)
def test_set_up_before_the_snapshot_does_not_depend_on_the_seed(changes):
    def before(seed):
        made = plan(seed, **changes)
        hosts_without = {
            name: dataclasses.replace(host, qdiscs=[]) for name, host in made.hosts.items()
        }
        return hosts_without, [flow.algorithm for flow in made.flows]

    assert before(0) == before(7)


def test_path_specification_has_the_place_of_loss():
    data, both = plan(loss_percent=2.0), plan(loss_percent=2.0, loss_direction="both")
    assert (data.path_spec.loss_percent, data.path_spec.loss_back_percent) == (2.0, 0.0)
    assert (both.path_spec.loss_percent, both.path_spec.loss_back_percent) == (2.0, 2.0)
    sender = plan(loss_percent=2.0, sender_delay_ms=CONDITION.rtt_ms).path_spec
    assert (sender.loss_percent, sender.loss_at_sender_percent) == (0.0, 2.0)
    assert data.path_spec.loss_at_sender_percent is None


def test_trace_makes_a_link_with_the_conditions_queue():
    made = plan(trace="cellular", queue="codel", loss_percent=0.0)
    [link] = made.parts["links"]
    assert (link.way, link.queue, link.file) == ("data", "codel", "trace")
    assert link.buffer_packets == CONDITION.buffer_packets
    assert (link.drawn_seed, link.drawn_mbit) == (derived_seed(7, "trace"), tracelink.MEAN_MBIT)
    assert made.path_spec.by_trace
    assert plan().to_json()["links"] == []


def test_reverse_path_may_have_its_own_trace():
    made = plan(trace="cellular", trace_back="cellular", queue="codel", loss_percent=0.0)
    data, back = made.parts["links"]
    assert (back.way, back.queue, back.file) == ("back", "fifo", "trace-back")
    assert back.drawn_seed not in (None, data.drawn_seed)
    assert back.drawn_mbit == tracelink.MEAN_BACK_MBIT
    [file] = plan(trace="cellular", trace_back="up").parts["links"][1:]
    assert file.drawn_seed is None
    [problem] = dataclasses.replace(CONDITION, trace_back="cellular").problems()
    assert "trace_back cellular needs a trace" in problem


def test_bare_path_has_neither_netem_nor_fq():
    made = plan(rtt_ms=0.0, rate_mbit=10.0, loss_percent=0.0)
    assert made.path_spec.bare
    assert {kind for host in kinds(made).values() for kind in host} == {"tbf", "pfifo"}


def test_competitor_and_fetch_start_in_their_windows():
    first, second = plan(competitor="bbr").starts
    assert first.at_s == 0.0
    assert second.at_s is None
    assert 0 < second.after_s < 0.1
    assert second.flow.algorithm == "bbr"
    bulk, fetch = plan(app="web", competitor="reno", duration_s=60.0, warmup_s=5.0).starts
    assert bulk.at_s == 0.0
    low, high = fetch.flow.start_window_s
    assert low <= fetch.at_s <= high


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
