"""What a path promises besides delay and loss: every check can fail."""

import dataclasses

import pytest

from losslab.emulation import accounts, checks
from losslab.emulation.mechanism import outside_interval
from losslab.emulation.plan import make_plan
from losslab.emulation.probes.queue import QueueSample
from tests.unit.emulation.test_checks import EVIDENCE, TRAFFIC
from tests.unit.study.test_condition import CONDITION

QUIET = dataclasses.replace(CONDITION, loss_percent=0, rtt_ms=20)
CLEAN = dataclasses.replace(TRAFFIC, received=99_990, loss_drops=0)
# Twenty pings, evenly over what a jitter of 10 ms makes of 20.
IDLE = [20.1 + n / 2 for n in range(20)]


def reasons(changes, idle=IDLE, accurate=False, queue=(), **counts):
    condition = dataclasses.replace(QUIET, **changes)
    assert condition.problems() == []
    evidence = dataclasses.replace(
        EVIDENCE,
        promise=make_plan(condition, 7).promise,
        rtt_ms=min(idle),
        idle_ms=idle,
        accurate_ecn=accurate,
        queue=queue,
        traffic=dataclasses.replace(CLEAN, **counts),
    )
    return checks.reasons(evidence)


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
        ({"ecn": "on", "queue": "codel"}, STILL, MARKED),
        ({"ecn": "on", "queue": "codel"}, STILL, MARKED | {"ce_received": 45}),  # 10 dropped
    ],
)
def test_a_sound_run_passes(changes, idle, counts):
    assert reasons(changes, idle, **counts) == []


@pytest.mark.parametrize(
    ("changes", "idle", "counts", "words"),
    [
        ({"jitter_ms": 10}, STILL, {}, "must differ by"),
        ({"jitter_ms": 10}, [20.0, 31.0], {}, "must differ by"),
        ({"jitter_ms": 10}, [n + 12 for n in IDLE], {}, "RTT of the idle path must be 20"),
        ({"reorder_percent": 2, "reorder_ms": 3}, STILL, {}, "early packets must be 2 %"),
        ({"reorder_percent": 2, "reorder_ms": 3}, [16.0], {"reordered": 2_000}, "RTT of the"),
        ({}, STILL, {"reordered": 1}, "must have none of these packets, found reordered 1"),
        ({"duplicate_percent": 1}, STILL, TWICE, "packets made twice must be 1 %"),
        ({"duplicate_percent": 2}, STILL, TWICE | {"received": 102_001}, "-1 unexplained"),
        ({}, STILL, {"received": 100_990}, "-1000 unexplained"),
        ({}, STILL, {"ecn_capable": 1}, "needs ecn on"),
        ({"ecn": "on", "queue": "codel"}, STILL, {}, "at least 50 %"),
        ({"ecn": "on", "queue": "codel"}, STILL, MARKED | {"ce_received": 51}, "equal marked"),
        ({"ecn": "on", "queue": "codel"}, STILL, MARKED | {"ce_received": 39}, "equal marked"),
        ({"ecn": "on"}, STILL, MARKED, "must not mark"),
    ],
)
def test_each_broken_run_is_refused_once(changes, idle, counts, words):
    [reason] = reasons(changes, idle, **counts)
    assert words in reason


def test_accurate_ecn_must_have_been_agreed_on():
    changes = {"ecn": "accurate", "queue": "codel"}
    assert reasons(changes, STILL, accurate=True, **MARKED) == []
    [reason] = reasons(changes, STILL, **MARKED)
    assert "both ends must agree on Accurate ECN" in reason


def test_acknowledgements_are_thinned_to_the_count():
    thin = {"ack_thinning": 4}
    sound = {"acks_seen": 4_003, "acks_thinned": 3_003, "received_back": 46_997}
    assert reasons(thin, STILL, **sound) == []
    [reason] = reasons(thin, STILL, **(sound | {"acks_thinned": 3_002, "received_back": 46_998}))
    assert "one of 4 of 4003 acknowledgements must get through and 3003 be dropped" in reason
    [reason] = reasons({}, STILL, acks_thinned=1, received_back=49_999)
    assert "found acks_thinned 1" in reason


def test_a_policer_lets_its_rate_and_its_bucket_through():
    policer, begin = {"policer_mbit": 8}, QueueSample(1.0, 0, 0, 0, 0)
    # 1 MB in a second, and 100 packets.
    assert reasons(policer, STILL, queue=[begin, QueueSample(2.0, 0, 0, 0, 1_150_000)]) == []
    more = [begin, QueueSample(2.0, 10, 15_140, 0, 1_140_000)]
    [reason] = reasons(policer, STILL, queue=more)
    assert "must pass a policer of 8 Mbit/s in 1.000 s, found 1155140" in reason
    assert reasons({}, STILL, queue=more) == []


def test_bursts_widen_the_interval_of_a_loss():
    """Of 10,000 packets 100; runs of ten vary ten times as much, in variance some nineteen."""
    assert outside_interval("loss", 1, 10_000, 145) is not None
    assert outside_interval("loss", 1, 10_000, 145, run_packets=10) is None
    assert outside_interval("loss", 1, 10_000, 300, run_packets=10) is not None


def test_what_a_plain_path_has_not_is_in_no_plan_and_no_count():
    assert make_plan(CONDITION, 7).promise.more() == {}
    assert "more" not in make_plan(CONDITION, 7).to_json()["promise"]
    ecn = dataclasses.replace(CONDITION, ecn="on", queue="codel")
    assert make_plan(ecn, 7).to_json()["promise"]["more"]["marking"]
    assert not set(accounts.OF_SOME_PATHS) & set(TRAFFIC.to_json())
    assert dataclasses.replace(TRAFFIC, marks=3).to_json()["marks"] == 3


@pytest.mark.parametrize(
    "qdisc", [{"ecn_mark": 7}, {"marked": 7}, {"tins": [{"ecn_mark": 3}, {"ecn_mark": 4}]}]
)
def test_marks_are_counted_whatever_a_qdisc_calls_them(qdisc):
    assert accounts.marks(qdisc) == 7


@pytest.mark.parametrize("queue", ["codel", "fq_codel", "pie", "red", "red-step"])
def test_queues_mark_where_the_hosts_speak_ecn(queue):
    condition = dataclasses.replace(QUIET, queue=queue, ecn="on")
    child = next(q for q in make_plan(condition, 7).hosts["r1"].qdiscs if q.handle == "10:")
    assert child.arguments.endswith(" ecn")
    assert child.expected["ecn"] is True
    sysctls = make_plan(condition, 7).hosts["sender"].sysctls
    assert sysctls["net.ipv4.tcp_ecn"] == "1"
    if queue == "red-step":
        assert "min 30280 max 30281 avpkt 1514 burst 20 probability 1" in child.arguments
