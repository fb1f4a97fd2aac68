"""Checks of path mechanisms besides delay and loss: each can fail."""

import dataclasses

import pytest

from losslab.emulation import accounting
from losslab.emulation.mechanism import outside_acceptance_interval
from losslab.emulation.probes import QueueSample
from tests.unit.emulation import test_checks
from tests.unit.study.test_condition import CONDITION

QUIET = dataclasses.replace(CONDITION, loss_percent=0, rtt_ms=20)
# Twenty pings, spread evenly over 20 ms and a jitter of 10 ms.
IDLE = [20.1 + n / 2 for n in range(20)]


def violations(changes, idle=IDLE, accurate=False, queue=(), **counts):
    condition = dataclasses.replace(QUIET, **changes)
    assert condition.problems() == []
    counts = {"received": 99_990, "loss_drops": 0} | counts
    seen = {"rtt_ms": min(idle), "idle_ms": idle, "accurate_ecn": accurate, "queue": queue}
    return test_checks.violations(condition, **seen, **counts)


STILL = [20.0] * 20
TWICE = {"received": 102_000, "duplicates": 2_010}
MARKED = {"ecn_capable": 99_000, "marks": 50, "ce_received": 50}


@pytest.mark.parametrize(
    ("changes", "idle", "counts"),
    [
        ({"jitter_ms": 10}, IDLE, {}),
        ({"reorder_percent": 2, "reorder_ms": 3}, STILL, {"reordered": 2_000}),
        ({"reorder_percent": 2, "reorder_ms": 3}, [17.0, 20.0], {"reordered": 2_000}),
        ({"duplicate_percent": 2}, STILL, TWICE),
        # Half the RTT is 10 ms: a slot of 10 ms ends with it, so no ping waits.
        ({"ack_batch_ms": 10}, STILL, {}),
        ({"ack_batch_ms": 15, "data_batch_ms": 4}, [29.0] * 20, {}),
        ({"ack_batch_ms": 15, "jitter_ms": 3}, [25.0 + n / 10 for n in range(20)], {}),
        ({"ecn": "on", "queue": "codel"}, STILL, MARKED),
        ({"ecn": "on", "queue": "codel"}, STILL, MARKED | {"ce_received": 45}),  # 10 dropped
        # Neither pings nor retransmissions carry ECT.
        ({"ecn": "on"}, STILL, {"ecn_capable": 9_000, "pings": 41_990, "retransmits": 40_000}),
        # Nor do packets that open and close connections.
        ({"ecn": "on"}, STILL, {"ecn_capable": 9_000, "opened": 21_000}),
    ],
)
def test_valid_run_has_no_violation(changes, idle, counts):
    assert violations(changes, idle, **counts) == []


@pytest.mark.parametrize(
    ("changes", "idle", "counts", "words"),
    [
        ({"jitter_ms": 10}, STILL, {}, "must spread over"),
        ({"data_batch_ms": 14}, STILL, {}, "must wait up to 14 ms"),
        ({"ack_batch_ms": 15}, [20.0, 36.0], {}, "must wait up to 15 ms"),
        ({"jitter_ms": 10}, [20.0, 31.0], {}, "must spread over"),
        ({"jitter_ms": 10}, [n + 12 for n in IDLE], {}, "RTT of the idle path must be 20"),
        ({"reorder_percent": 2, "reorder_ms": 3}, STILL, {}, "early packets must be 2 %"),
        ({"reorder_percent": 2, "reorder_ms": 3}, [16.0], {"reordered": 2_000}, "RTT of the"),
        ({}, STILL, {"reordered": 1}, "must have none of these packets, found reordered 1"),
        ({"duplicate_percent": 1}, STILL, TWICE, "duplicated packets must be 1 %"),
        ({"duplicate_percent": 2}, STILL, TWICE | {"received": 102_001}, "-1 unexplained"),
        ({}, STILL, {"received": 100_990}, "-1000 unexplained"),
        ({}, STILL, {"ecn_capable": 1}, "needs ecn on"),
        ({"ecn": "on", "queue": "codel"}, STILL, {}, "at least 50 %"),
        ({"ecn": "on", "queue": "codel"}, STILL, MARKED | {"ce_received": 51}, "equal marked"),
        ({"ecn": "on", "queue": "codel"}, STILL, MARKED | {"ce_received": 39}, "equal marked"),
        ({"ecn": "on"}, STILL, MARKED, "must not mark"),
    ],
)
def test_each_broken_run_has_one_violation(changes, idle, counts, words):
    [reason] = violations(changes, idle, **counts)
    assert words in reason


def test_accurate_ecn_must_be_negotiated():
    changes = {"ecn": "accurate", "queue": "codel"}
    assert violations(changes, STILL, accurate=True, **MARKED) == []
    [reason] = violations(changes, STILL, **MARKED)
    assert "both ends must negotiate Accurate ECN" in reason


def test_acknowledgements_are_thinned_to_the_configured_count():
    thin = {"ack_thinning": 4}
    sound = {"acks_seen": 4_003, "acks_thinned": 3_003, "received_back": 46_997}
    assert violations(thin, STILL, **sound) == []
    [reason] = violations(thin, STILL, **(sound | {"acks_thinned": 3_002, "received_back": 46_998}))
    assert "3003 of 4003 acknowledgements must be dropped" in reason
    [reason] = violations({}, STILL, acks_thinned=1, received_back=49_999)
    assert "found acks_thinned 1" in reason


def test_policer_passes_its_rate_and_bucket():
    policer, begin = {"policer_mbit": 8}, QueueSample(1.0, 0, 0, 0, 0)
    # 1 MB in a second, and a bucket of 100 packets.
    assert violations(policer, STILL, queue=[begin, QueueSample(2.0, 0, 0, 0, 1_150_000)]) == []
    more = [begin, QueueSample(2.0, 10, 15_140, 0, 1_140_000)]
    [reason] = violations(policer, STILL, queue=more)
    assert "policer of 8 Mbit/s must pass at most 1152914 bytes in 1.000 s, found 1155140" in reason
    assert violations({}, STILL, queue=more) == []


def test_bursts_widen_the_acceptance_interval_of_loss():
    """Acceptance interval of 100 in 10,000 packets; runs of ten have 19 times the variance."""
    assert outside_acceptance_interval("loss", 1, 10_000, 145) is not None
    assert outside_acceptance_interval("loss", 1, 10_000, 145, run_packets=10) is None
    assert outside_acceptance_interval("loss", 1, 10_000, 300, run_packets=10) is not None


@pytest.mark.parametrize(
    "qdisc", [{"ecn_mark": 7}, {"marked": 7}, {"tins": [{"ecn_mark": 3}, {"ecn_mark": 4}]}]
)
def test_marks_are_counted_under_any_name_of_a_qdisc(qdisc):
    assert accounting.marks(qdisc) == 7
