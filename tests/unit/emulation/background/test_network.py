"""Access links of flows with their own base RTT."""

import dataclasses

from losslab.emulation.accounting import CounterDeltas
from losslab.emulation.background import outcome, plan
from losslab.emulation.hosts import deviations
from losslab.emulation.plan import make_plan
from losslab.emulation.topology import INTERFACES, SENDER_ADDRESS
from losslab.study import background
from tests.unit.emulation.test_checks import TRAFFIC
from tests.unit.emulation.test_plan import read_back
from tests.unit.study.test_condition import CONDITION

OWN = dataclasses.replace(
    CONDITION, duration_s=10.0, rtt_ms=20.0, flows="same,rtt_ms=80,count=3+bbr,rtt_ms=50+same"
)


def test_each_base_rtt_has_an_access_link_and_each_flow_an_address():
    made = make_plan(OWN, 7)
    assert background.extra_rtts_ms(OWN) == [50.0, 80.0]
    assert [(a.name, b.name) for a, b in made.background.network.links] == [
        ("sender-a1", "r1-a1"), ("sender-a2", "r1-a2"),
    ]  # fmt: skip
    sources = {s.rtt_ms: s.source for s in made.background.streams}
    assert sources == {20.0: SENDER_ADDRESS, 50.0: "10.0.21.1", 80.0: "10.0.22.1"}


def test_router_delays_the_difference_to_the_paths_rtt():
    made = make_plan(OWN, 7)
    lines = {q.where.name: q for q in made.hosts["r1"].qdiscs if q.kind == "netem"}
    assert {name: q.expected["delay.delay"] for name, q in lines.items()} == {
        "r1-a1": 0.030, "r1-a2": 0.060,
    }  # fmt: skip
    assert not any(q.kind == "netem" for q in made.hosts["sender"].qdiscs)


def test_access_links_are_set_and_read_back():
    made = make_plan(OWN, 7)
    state = read_back(made)
    assert deviations(made.hosts, state) == []
    for router in ("r2", "r3"):
        assert made.hosts[router].routes["10.0.22.0/24"] == f"{router}-r1"
    assert made.hosts["r1"].sysctls["net.ipv4.conf.r1-a2.rp_filter"] == "0"
    assert "r1-a2" in made.hosts["r1"].interfaces
    state["r1"]["qdiscs"] = [q for q in state["r1"]["qdiscs"] if q["dev"] != "r1-a2"]
    assert deviations(made.hosts, state) == ["qdisc netem must be on r1-a2 on r1, found none"]


def test_acknowledgements_over_access_links_are_counted():
    made = make_plan(OWN, 7)

    def state(packets):
        names = [*INTERFACES, *made.background.network.ends]
        return {
            host: {
                "links": {
                    end.name: {side: {"packets": packets} for side in ("rx", "tx")}
                    for end in names
                    if end.host == host
                }
            }
            for host in made.hosts
        }

    found = outcome.of_all_links(TRAFFIC, made.background, CounterDeltas(state(5), state(12)))
    assert found.received_back == TRAFFIC.received_back + 2 * 7
    assert dataclasses.replace(found, received_back=TRAFFIC.received_back) == TRAFFIC


def test_access_links_have_unique_names_and_networks():
    many = dataclasses.replace(
        OWN, flows="+".join(f"same,rtt_ms={20 + n}" for n in range(1, background.RTTS_MAX + 1))
    )
    assert many.problems() == []
    links = list(plan.access_links(many).values())
    ends = [*INTERFACES, *(end for both in links for end in both)]
    for values in ([e.name for e in ends], [e.address for e in ends], [e.mac for e in ends]):
        assert len(set(values)) == len(ends)
    assert max(len(e.name) for e in ends) <= 15
    one_more = dataclasses.replace(many, flows=f"{many.flows}+same,rtt_ms=500")
    assert one_more.problems() == [
        "flows: the number of different rtt_ms must be at most 50, found 51"
    ]


LOT = dataclasses.replace(
    OWN,
    rate_mbit=20.0,
    second_rate_mbit=10.0,
    queue="codel",
    loss_percent=1.0,
    flows="same,over=first+same,over=second+same,rtt_ms=50",
)


def test_second_bottleneck_equals_the_first_except_for_its_rate():
    made = make_plan(LOT, 7)
    first = [q for q in made.hosts["r1"].qdiscs if q.where.name == "r1-r2"]
    second = [q for q in made.hosts["r2"].qdiscs if q.where.name == "r2-r4"]
    assert [q.kind for q in first] == [q.kind for q in second] == ["tbf", "codel"]
    assert [q.expected.get("rate") for q in (first[0], second[0])] == [2_500_000, 1_250_000]
    assert first[1].expected == second[1].expected
    [near], [far] = (
        [q for q in made.hosts[host].qdiscs if q.where.towards == "receiver"]
        for host in ("r2", "r4")
    )
    assert near.expected["delay.delay"] == far.expected["delay.delay"] == 0.010
    assert near.expected["loss-random.loss"] == far.expected["loss-random.loss"] == 0.01
    assert near.expected["seed"] != far.expected["seed"]
    assert [q.kind for q in made.hosts["sender"].qdiscs] == ["fq", "fq"]


def test_each_route_over_bottlenecks_has_its_address():
    made = make_plan(LOT, 7)
    assert {s.over: s.destination for s in made.background.streams} == {
        "both": "10.0.3.2", "first": "10.0.3.3", "second": "10.0.12.2",
    }  # fmt: skip
    assert made.hosts["sender"].routes["10.0.12.0/24"] == "sender-r2"
    assert made.hosts["r2"].routes["10.0.3.2"] == "r2-r4"
    assert made.hosts["r4"].routes == {"10.0.3.2": "r4-receiver"}
    assert made.hosts["r4"].sysctls["net.ipv4.ip_forward"] == "1"
    assert "addr add 10.0.3.3/24 dev receiver-r2" in made.hosts["receiver"].ip_commands
    assert deviations(made.hosts, read_back(made)) == []


def test_packets_of_every_route_are_accounted_for():
    made = make_plan(LOT, 7)

    def state(packets, drops):
        names = [*INTERFACES, *made.background.network.ends]
        return {
            host: {
                "links": {
                    end.name: {side: {"packets": packets} for side in ("rx", "tx")}
                    for end in names
                    if end.host == host
                },
                "qdiscs": [
                    {"dev": q.where.name, "handle": q.handle, "drops": drops}
                    for q in made.hosts[host].qdiscs
                ],
            }
            for host in made.hosts
        }

    before, after = state(5, 0), state(12, 2)
    found = outcome.of_all_links(TRAFFIC, made.background, CounterDeltas(before, after))
    more = {
        name: getattr(found, name) - getattr(TRAFFIC, name)
        for name in ("sent", "received", "received_back", "bottleneck_drops", "loss_drops",
                     "sender_drops")
    }  # fmt: skip
    assert more == {
        "sent": 7, "received": 7, "received_back": 14, "bottleneck_drops": 2, "loss_drops": 2,
        "sender_drops": 2,
    }  # fmt: skip
    between = CounterDeltas(before, after)
    both = outcome.link_metrics(made.background, TRAFFIC, between)
    assert both["second_bottleneck_drops"] == 2
    one = outcome.link_metrics(make_plan(OWN, 7).background, TRAFFIC, between)
    assert one == {"bottleneck_loss_percent": both["bottleneck_loss_percent"]}


def test_second_bottleneck_needs_flows_and_a_plain_path():
    assert LOT.problems() == []
    for more in ({"flows": "none"}, {"jitter_ms": 1.0}, {"ecn": "on"}):
        assert len(dataclasses.replace(LOT, **more).problems()) >= 1
    [problem, _] = dataclasses.replace(LOT, second_rate_mbit=0.0).problems()
    assert "over of flows needs second_rate_mbit" in problem
