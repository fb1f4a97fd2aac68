"""Sizes of packets, and what follows from them in conditions, qdiscs, units and checks."""

import dataclasses

import pytest

from losslab.emulation import capture, checks
from losslab.emulation.plan import make_plan
from losslab.emulation.shaping import path_qdiscs
from losslab.study import packetsizes
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


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"mtu_bytes": 575}, "mtu_bytes must be in [576, 65535], found 575"),
        ({"mtu_bytes": -14}, "mtu_bytes must be in"),
        ({"mtu_bytes": 65_536}, "mtu_bytes must be in"),
        ({"mtu_bytes": 9000, "rate_mbit": 0.05}, "rate_mbit must be at least 0.0577 with mtu"),
        ({"mtu_bytes": 9000, "policer_mbit": 0.01}, "policer_mbit must be at least 0.0577"),
        ({"mtu_bytes": 9000, "reverse_rate_mbit": 0.01}, "reverse_rate_mbit must be at least"),
        ({"mtu_bytes": 9000, "changes": "at_s=2,rate_mbit=0.05"}, "changes, from 2 s: rate_mbit"),
        ({"mtu_bytes": 9000, "queue": "bfifo", "buffer_packets": 500_000}, "at most 476477 with"),
        ({"mtu_bytes": 1227, "app": "quic"}, "mtu_bytes must be at least 1228 with the app quic"),
    ],
)
def test_impossible_packets_are_refused_before_a_run(axes, words):
    found = dataclasses.replace(CONDITION, **axes).problems()
    assert any(words in each for each in found), found


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


def test_checks_and_captures_follow_the_size_of_packets():
    spec = make_plan(JUMBO, 7).path_spec
    plain = make_plan(CONDITION, 7).path_spec
    assert spec.sizes.segment_bytes - plain.sizes.segment_bytes == 7500
    evidence = checks.Evidence(spec, 0.44, [], [], None, 20.0)
    assert evidence.bucket_bytes == 2 * 9014
    assert capture.ring_bytes(100, 10, 590) > 2 * capture.ring_bytes(100, 10)
