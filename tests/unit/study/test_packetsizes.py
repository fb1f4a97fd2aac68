"""Sizes of packets, and what follows from them in conditions, qdiscs, units and checks."""

import dataclasses

import pytest

from losslab.emulation import accounting, capture, checks, hosts
from losslab.emulation.plan import make_plan
from losslab.emulation.shaping import path_qdiscs
from losslab.study import packetsizes
from losslab.study.condition import replicate_seed
from tests.unit.study.test_condition import CONDITION

JUMBO = dataclasses.replace(CONDITION, mtu_bytes=9000, rate_mbit=20.0)


def both(value):
    return f"both:net.ipv4.tcp_timestamps={value}"


@pytest.mark.parametrize(
    ("axes", "frame", "segment", "datagram"),
    [
        ({}, 1514, 1448, 1472),
        ({"mtu_bytes": 9000}, 9014, 8948, 8972),
        ({"mtu_bytes": 576}, 590, 524, 548),
        ({"sysctl": both(0)}, 1514, 1460, 1472),
        ({"ip_version": 6}, 1514, 1428, 1452),
        ({"ip_version": 6, "mtu_bytes": 1280, "sysctl": both(0)}, 1294, 1220, 1232),
        ({"sysctl": both(2)}, 1514, 1448, 1472),
        # One host without time stamps suffices.
        ({"sysctl": "receiver:net.ipv4.tcp_timestamps=0"}, 1514, 1460, 1472),
    ],
)
def test_sizes_follow_from_mtu_and_options(axes, frame, segment, datagram):
    sizes = packetsizes.of(dataclasses.replace(CONDITION, **axes))
    assert (sizes.frame_bytes, sizes.segment_bytes, sizes.datagram_bytes) == (
        frame, segment, datagram,
    )  # fmt: skip
    assert sizes.payload_share == segment / frame


def test_qdiscs_have_the_size_of_the_paths_packets():
    condition = dataclasses.replace(
        JUMBO, queue="bfifo", buffer_packets=10, policer_mbit=10.0, policer_burst_packets=7
    )
    assert condition.problems() == []
    text = "\n".join(qdisc.command() for qdisc in path_qdiscs(condition, 7))
    for words in ("burst 18028 limit", "bfifo limit 90140", "burst 63098 mtu 9014 conform"):
        assert words in text
    plain = dataclasses.replace(condition, mtu_bytes=1500)
    assert " mtu " not in "\n".join(qdisc.command() for qdisc in path_qdiscs(plain, 7))


def test_plan_sets_the_mtu_of_both_ends_of_every_link():
    made = make_plan(JUMBO, 7)
    for host in made.hosts.values():
        assert host.mtu_bytes == 9000
        for name in host.interfaces:
            [line] = [each for each in host.ip_commands if f"{name} address" in each]
            assert line.endswith(" mtu 9000")
    plain = make_plan(CONDITION, 7).to_json()
    assert "mtu" not in str([plain["hosts"], plain["promise"]])
    assert made.to_json()["promise"]["sizes"]["mtu_bytes"] == 9000


def test_ipv6_adds_static_addresses_neighbours_and_routes():
    six = dataclasses.replace(CONDITION, ip_version=6, initcwnd_packets=20)
    made, old = make_plan(six, 7), make_plan(CONDITION, 7)
    sender = made.hosts["sender"]
    assert set(old.hosts["sender"].ip_commands) - set(sender.ip_commands) == {
        "route replace default via 10.0.1.2 dev sender-r1"
    }
    for line in (
        "addr add fd00:1::1/64 dev sender-r1 nodad",
        "neigh replace fd00:1::2 lladdr 02:00:00:00:01:02 dev sender-r1 nud permanent",
        "route replace default via fd00:1::2 dev sender-r1 initcwnd 20",
    ):
        assert line in sender.ip_commands
    assert sender.routes6 == {"default": "sender-r1"}
    assert made.hosts["r1"].routes6 == {"fd00:3::/64": "r1-r2", "fd00:4::/64": "r1-r3"}
    assert sender.sysctls["net.ipv6.conf.sender-r1.addr_gen_mode"] == "1"
    assert made.hosts["r1"].sysctls["net.ipv6.conf.all.forwarding"] == "1"
    assert "fd00:3::2" in made.flows[0].caller.command
    assert "routes6" not in old.to_json()["hosts"]["sender"]


def test_both_versions_of_ip_share_their_seeds_and_have_own_names():
    six = dataclasses.replace(CONDITION, ip_version=6)
    assert replicate_seed(six, 3) == replicate_seed(CONDITION, 3)
    assert six.slug() == f"{CONDITION.slug()}_ipv6"


def test_filters_are_of_the_flows_version_of_ip():
    its = {"queue": "two-fifos", "ack_thinning": 3, "rate_mbit": 20.0, "rtt_ms": 20.0}
    for version, words in ((4, "protocol ip "), (6, "protocol ipv6 ")):
        condition = dataclasses.replace(CONDITION, ip_version=version, **its)
        text = [q.command() for q in path_qdiscs(condition, 7)]
        assert sum(each.count(words) for each in text) == 3


def test_counters_of_both_versions_of_ip_are_one_count(tmp_path):
    for name, line in (("snmp", "Icmp: InEchos\nIcmp: 2\n"), ("netstat", "")):
        (tmp_path / name).write_text(line)
    (tmp_path / "snmp6").write_text("Icmp6InEchos   \t5\n")
    assert "Icmp6InEchos" not in hosts.read_counters(tmp_path)
    after = {"receiver": {"counters": hosts.read_counters(tmp_path, ip6=True)}}
    before = {"receiver": {"counters": {"IcmpInEchos": 0}}}
    assert accounting.CounterDeltas(before, after).counter("receiver", "IcmpInEchos") == 7


def test_checks_and_captures_follow_the_size_of_packets():
    spec = make_plan(JUMBO, 7).path_spec
    plain = make_plan(CONDITION, 7).path_spec
    assert spec.sizes.segment_bytes - plain.sizes.segment_bytes == 7500
    evidence = checks.Evidence(spec, 0.44, [], [], None, 20.0)
    assert evidence.bucket_bytes == 2 * 9014
    assert capture.ring_bytes(100, 10, 590) > 2 * capture.ring_bytes(100, 10)
