"""Links of flows with a round-trip time of their own."""

import dataclasses

from losslab.emulation.crowd import books, network
from losslab.emulation.hosts import deviations
from losslab.emulation.plan import make_plan
from losslab.emulation.topology import INTERFACES, SENDER_ADDRESS
from losslab.study import crowd
from tests.unit.emulation.test_checks import TRAFFIC
from tests.unit.emulation.test_plan import read_back
from tests.unit.study.test_condition import CONDITION

OWN = dataclasses.replace(
    CONDITION, duration_s=10.0, rtt_ms=20.0, flows="same,rtt_ms=80,count=3+bbr,rtt_ms=50+same"
)


def test_each_round_trip_time_has_a_link_and_each_flow_its_address():
    made = make_plan(OWN, 7)
    assert crowd.own_rtts_ms(OWN) == [50.0, 80.0]
    assert [(a.name, b.name) for a, b in made.crowd.links] == [
        ("sender-a1", "r1-a1"), ("sender-a2", "r1-a2"),
    ]  # fmt: skip
    sources = {s.rtt_ms: s.source for s in made.crowd.streams}
    assert sources == {20.0: SENDER_ADDRESS, 50.0: "10.0.21.1", 80.0: "10.0.22.1"}


def test_the_router_delays_what_is_longer_than_the_path():
    made = make_plan(OWN, 7)
    lines = {q.where.name: q for q in made.hosts["r1"].qdiscs if q.kind == "netem"}
    assert {name: q.expected["delay.delay"] for name, q in lines.items()} == {
        "r1-a1": 0.030, "r1-a2": 0.060,
    }  # fmt: skip
    assert not any(q.kind == "netem" for q in made.hosts["sender"].qdiscs)


def test_all_of_it_is_set_and_read_back():
    made = make_plan(OWN, 7)
    state = read_back(made)
    assert deviations(made.hosts, state) == []
    for router in ("r2", "r3"):
        assert made.hosts[router].routes["10.0.22.0/24"] == f"{router}-r1"
    assert made.hosts["r1"].sysctls["net.ipv4.conf.r1-a2.rp_filter"] == "0"
    assert "r1-a2" in made.hosts["r1"].interfaces
    state["r1"]["qdiscs"] = [q for q in state["r1"]["qdiscs"] if q["dev"] != "r1-a2"]
    assert deviations(made.hosts, state) == ["qdisc netem must be on r1-a2 on r1, found none"]


def test_acknowledgements_count_that_come_over_these_links():
    made = make_plan(OWN, 7)

    def state(packets):
        names = [*INTERFACES, *(end for both in made.crowd.links for end in both)]
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

    found = books.of_all_links(TRAFFIC, made.crowd, state(5), state(12))
    assert found.received_back == TRAFFIC.received_back + 2 * 7
    assert dataclasses.replace(found, received_back=TRAFFIC.received_back) == TRAFFIC


def test_names_and_networks_are_apart():
    many = dataclasses.replace(
        OWN, flows="+".join(f"same,rtt_ms={20 + n}" for n in range(1, crowd.RTTS_MAX + 1))
    )
    assert many.problems() == []
    links = list(network.access_links(many).values())
    ends = [*INTERFACES, *(end for both in links for end in both)]
    for values in ([e.name for e in ends], [e.address for e in ends], [e.mac for e in ends]):
        assert len(set(values)) == len(ends)
    assert max(len(e.name) for e in ends) <= 15
    one_more = dataclasses.replace(many, flows=f"{many.flows}+same,rtt_ms=500")
    assert one_more.problems() == ["RTTs of flows must be at most 50, found 51"]
