"""Checks of a run: each fails for one deliberately broken run."""

import dataclasses
import math

import pytest

from losslab.emulation import accounting, checks
from losslab.emulation.goodput import Goodput
from losslab.emulation.plan import make_plan
from losslab.emulation.topology import interface
from tests.unit.study.test_condition import CONDITION

TRAFFIC = accounting.Traffic(
    sent=100_000, received=98_990, bottleneck_drops=10, loss_drops=1_000,
    sender_drops=0, largest_mean_packet_bytes=1_500.0, retransmits=1_010, memory_pressures=0,
    sent_back=50_000, received_back=50_000, loss_back_drops=0, link_back_drops=0,
)  # fmt: skip
EVIDENCE = checks.Evidence(
    path_spec=make_plan(CONDITION, 7).path_spec,
    rtt_ms=0.44,
    goodputs=[Goodput(235.0, 4.0)],
    flows=[checks.FlowEvidence("iperf3", "cubic", ["cubic"], 0.0, 0.0)],
    traffic=TRAFFIC,
    max_rate_mbit=1000.0,
)


def violations(condition=None, **changes):
    if condition is not None:
        changes["path_spec"] = make_plan(condition, 7).path_spec
    traffic = {f.name for f in dataclasses.fields(accounting.Traffic)} & set(changes)
    flow = {f.name for f in dataclasses.fields(checks.FlowEvidence)} & set(changes)
    flows = [
        EVIDENCE.flows[0],
        dataclasses.replace(EVIDENCE.flows[0], **{k: changes[k] for k in flow}),
    ]
    evidence = dataclasses.replace(
        EVIDENCE,
        flows=flows,
        traffic=dataclasses.replace(TRAFFIC, **{k: changes[k] for k in traffic}),
        **{k: v for k, v in changes.items() if k not in traffic | flow},
    )
    return checks.violations(evidence)


def test_valid_run_has_no_violation_nor_has_one_whose_packets_still_wait_in_a_queue():
    assert violations() == []
    assert violations(received=98_000, queued=990) == []


def test_queued_packets_are_those_of_the_second_reading_on_the_forward_path():
    def state(count):
        queue = {"handle": "1:", "qlen": count}
        hosts = {"r1": "r1-r2", "r2": "r2-receiver", "receiver": "receiver-r2"}
        return {host: {"qdiscs": [queue | {"dev": name}]} for host, name in hosts.items()}

    deltas = accounting.CounterDeltas(state(7), state(5))
    assert deltas.queued(interface("r1", "r2")) == 5
    assert deltas.queued(interface("r2", "r1")) == 0  # no queue


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"rtt_ms": 0.45}, "RTT"),
        ({"rtt_ms": None}, "no reply"),
        ({"found": ["bbr"]}, "must use cubic"),
        ({"found": []}, "no connection"),
        ({"largest_mean_packet_bytes": 17_000.0}, "aggregates"),
        ({"bypassed": 1}, "pass the bottleneck"),
        ({"received": 98_989}, "1 unexplained"),
        ({"sender_drops": 1}, "own qdisc"),
        ({"loss_drops": 2_000, "received": 97_990}, "loss must be"),
        ({"received_back": 49_999}, "sent on the reverse path must equal"),
        ({"received_back": 49_999, "loss_back_drops": 1}, "loss on the reverse path must be 0 %"),
        ({"goodputs": [Goodput(235.0, 4.0), Goodput(1_001.0, 0.1)]}, "at most the link's 1000"),
        ({"goodputs": [Goodput(1_001.0, 0.1, in_window=False)]}, "at most the link's 1000"),
        # 98,990 packets of 1500 bytes are 148,485,000 bytes.
        ({"goodputs": [Goodput(300.0, 3.97)]}, "found 300 Mbit/s for 3.97 s, 148875000 bytes"),
        ({"memory_pressures": 1}, "memory pressure"),
        ({"delivered_bytes": {"iperf3": 1_447}}, "at least one full segment (1448 bytes)"),
        ({"buffer_limited_share": 0.5}, "buffers must not limit"),
    ],
)
def test_each_broken_run_has_one_violation(changes, word):
    found = violations(**changes)
    assert len(found) == 1
    assert word in found[0]


TBF = {"shaper": "tbf"}
HTB = {"shaper": "htb-netem", "loss_percent": 0, "mtu_bytes": 576}


def test_goodput_must_be_a_number_that_aggregates_of_their_size_can_reach():
    assert len(violations(goodputs=[Goodput(math.nan, 4.0)])) == 2
    offloaded = dataclasses.replace(CONDITION, offloads="on")
    few = {"condition": offloaded, "received": 1_000, "loss_drops": 10}
    assert violations(goodputs=[Goodput(500.0, 1.0)], **few) == []
    assert len(violations(goodputs=[Goodput(600.0, 1.0)], **few)) == 1


@pytest.mark.parametrize(
    ("axes", "more", "goodput_mbit", "word"),
    [
        # The bucket of two aggregates, and one more, are 0.175 Mbit/s over 9 s.
        (TBF | {"offloads": "on"}, {}, 0.47, None),
        (TBF | {"offloads": "on"}, {}, 0.48, "or 0.174788 more with one packet and full buckets"),
        (TBF, {}, 0.304, None),
        (TBF, {}, 0.305, "or 0.00402489 more with one packet and full buckets, 4528 bytes"),
        # Each change of the rate fills the bucket.
        (TBF, {"buckets": 5}, 0.3147, None),
        (TBF, {"buckets": 5}, 0.315, "or 0.0147911 more with one packet and full buckets, 16640"),
        # HTB's burst is 1600 bytes whatever the packets' size, and its last packet may exceed it.
        (HTB, {}, 0.3024, None),
        (HTB, {}, 0.3025, "or 0.00245867 more with one packet and full buckets, 2766 bytes"),
        # An exact link has no bucket.
        ({}, {"buckets": 5}, 0.3013, None),
        ({}, {"buckets": 5}, 0.3014, "0.3 Mbit/s, or 0.00133333 more with one packet, 1500 bytes"),
        ({"offloads": "on"}, {}, 0.3014, "or 0.00133333 more with one packet, 1500 bytes"),
        # 19.03 packets of 47,329 bytes pass in 0.272 s, so 20 may end in it.
        ({"mtu_bytes": 47_315, "rate_mbit": 26.5}, {"seconds": 0.272}, 27.8, None),
        ({"mtu_bytes": 47_315, "rate_mbit": 26.5}, {"seconds": 0.272}, 27.9, "one packet, 47315"),
    ],
)
def test_goodput_exceeds_a_link_at_most_by_a_packet_and_its_bucket(axes, more, goodput_mbit, word):
    """B: `--offloads on --rate-mbit 0.3`, "goodput must be at most 0.3, found 0.3"."""
    condition = dataclasses.replace(CONDITION, **{"rate_mbit": 0.3} | axes)
    more, seconds = dict(more), more.get("seconds", 9.0)
    more.pop("seconds", None)
    more |= {"rtt_ms": condition.rtt_ms + make_plan(condition, 7).path_spec.ping_ms}
    if not condition.loss_percent:
        more |= {"loss_drops": 0, "received": 99_990}
    if condition.mtu_bytes < 1500:
        more |= {"largest_mean_packet_bytes": 590.0}
    found = violations(condition=condition, goodputs=[Goodput(goodput_mbit, seconds)], **more)
    assert len(found) == bool(word)
    assert all(word in reason for reason in found)


@pytest.mark.parametrize(("receive_buffer", "refused"), [("linux", 0), ("large", 1)])
def test_limiting_receive_window_is_allowed_only_with_linux_defaults(receive_buffer, refused):
    condition = dataclasses.replace(CONDITION, receive_buffer=receive_buffer)
    found = violations(condition=condition, window_limited_share=0.5)
    assert len(found) == refused
    assert all("50.0 % of the busy time of iperf3" in reason for reason in found)


def test_condition_without_loss_tolerates_none():
    clean = dataclasses.replace(CONDITION, loss_percent=0)
    assert any("loss must be 0" in r for r in violations(condition=clean))


BOTH_WAYS = dataclasses.replace(CONDITION, loss_direction="both")


def test_loss_is_checked_in_both_directions():
    # 1 % of 50,000 is 500, within 90.
    assert violations(condition=BOTH_WAYS, received_back=49_500, loss_back_drops=500) == []
    for lost in (0, 400, 600):
        found = violations(condition=BOTH_WAYS, received_back=50_000 - lost, loss_back_drops=lost)
        assert len(found) == 1
        assert (
            f"loss on the reverse path must be 1 % of 50000 packets (within 90), found {lost}"
            in (found[0])
        )


AT_SENDER = dataclasses.replace(CONDITION, sender_delay_ms=0.4)


def test_sender_with_netem_may_drop_but_not_too_little():
    assert violations(condition=AT_SENDER, sender_drops=400, loss_drops=0, received=99_990) == []
    # 1 % of at least 2,222 aggregates is 22, within 19.
    found = violations(condition=AT_SENDER, sender_drops=2, loss_drops=0, received=99_990)
    assert len(found) == 1
    assert "the sender's netem must lose 1 %" in found[0]


def test_packets_past_the_bottleneck_are_a_violation():
    before, after = ({"r1": {"links": {"r1-r3": {"tx": {"packets": n}}}}} for n in (3, 130))
    assert accounting.CounterDeltas(before, after).bypassed == 127
