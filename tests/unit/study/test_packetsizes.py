"""Sizes of packets, and what follows from them in conditions, qdiscs, units and checks."""

import dataclasses

import pytest

from losslab.emulation import accounting, capture, hosts
from losslab.emulation.plan import make_plan
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


def test_both_versions_of_ip_share_their_seeds_and_have_own_names():
    six = dataclasses.replace(CONDITION, ip_version=6)
    assert replicate_seed(six, 3) == replicate_seed(CONDITION, 3)
    assert six.slug() == f"{CONDITION.slug()}_ipv6"


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
    bucket = make_plan(dataclasses.replace(JUMBO, shaper="tbf"), 7).path_spec.bucket_bytes
    assert (bucket, spec.bucket_bytes) == (2 * 9014, 0)
    assert capture.ring_bytes(100, 10, 590) > 2 * capture.ring_bytes(100, 10)
