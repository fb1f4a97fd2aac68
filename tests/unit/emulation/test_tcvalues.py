"""The whole declared span: an accepted condition passes its own read-back as tc prints it."""

import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from losslab.emulation.plan import make_plan
from losslab.emulation.qdiscs import differences
from losslab.study.condition import AXES, BUFFER_MAX_PACKETS
from tests.unit.emulation.faketc import RefusedError, shown
from tests.unit.study.test_condition import CONDITION

# Text of axes that are mini-languages or names.
TEXTS = {
    "changes": st.builds(
        "at_s={:.9f},rate_mbit={:.9f}+at_s=3,rtt_ms={:.9f},loss_percent={:.9f}+at_s=4,outage_s=1".format,
        st.floats(1e-6, 2), st.floats(0.01, 1e4), st.floats(0.1, 1e4), st.floats(0.001, 99),
    ),
    "pauses": st.builds(
        "per_s={:.3f},min_ms={:.6f},max_ms=50".format, st.floats(0.01, 20), st.floats(0.01, 49)
    ),
    "drop_list": st.just("data 12,57 ack 3"),
    "flows": st.builds("same,rtt_ms={:.9f}+cubic".format, st.floats(1, 1e4)),
    "trace": st.just("cellular"),
    "competitor": st.just("bbr"),
}  # fmt: skip
# Axes that shape no path: programs, names and what campaigns set.
ELSEWHERE = {
    "algorithm", "app", "kernel", "image", "duration_s", "warmup_s", "trace_back", "scheme",
    "command", "bring", "video", "write_kib", "competitor",
}  # fmt: skip
BASE = dataclasses.replace(CONDITION, loss_percent=0, rtt_ms=20, rate_mbit=20, duration_s=5)


def numbers(axis):
    """Draw numbers of an axis: ends of its span, and others of every magnitude."""
    low, high = axis.span.minimum, axis.span.maximum
    if axis.kind == "int":
        return st.one_of(
            st.sampled_from([int(low), int(high)]), st.integers(int(low), int(high)),
            st.integers(int(low), min(int(high), 2_000)),
        )  # fmt: skip
    ends = [value for value in (low, axis.smallest, high) if value in axis.span]
    magnitude = st.floats(-9, 4).map(lambda power: 10**power).filter(lambda v: v in axis.span)
    digits = st.floats(low, high).map(lambda v: round(v, 4)).filter(lambda v: v in axis.span)
    return st.one_of(
        st.sampled_from(ends), magnitude, digits,
        st.floats(low, high).filter(axis.span.__contains__),
    )  # fmt: skip


def values(name):
    axis = AXES[name]
    if name in TEXTS:
        return TEXTS[name]
    return numbers(axis) if axis.span else st.sampled_from(list(axis.choices))


SHAPING = [
    name for name, axis in AXES.items()
    if name not in ELSEWHERE and (axis.span or axis.choices or name in TEXTS)
]  # fmt: skip
PAIRS = [*itertools.combinations(SHAPING, 2)]


def planned_qdiscs(condition):
    """Return the lists of qdiscs that a plan creates, one after the other."""
    plan = make_plan(condition, 7)
    found = [[q for host in plan.hosts.values() for q in host.qdiscs]]
    if "changes" in plan.parts:
        found += [step.then for step in plan.parts["changes"].steps]
    return found


def wrong_read_back(condition):
    """Return what losslab would find wrong with a condition's plan, if tc obeyed."""
    wrong = []
    for planned in planned_qdiscs(condition):
        qdiscs, classes, filters = shown(planned)
        wrong += differences(planned, qdiscs, classes, "6.12.0")
        for each in planned:
            if each.kind == "clsact":
                found = {"filters": {each.where.name: filters[each.where.name]}}
                wrong += each.deviations(found)
    return wrong


# Conditions of section B that were measured and then always invalid.
ROWS = [
    *(
        {"loss_percent": loss, "loss_burst_packets": burst}
        for loss in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 6, 8, 10)
        for burst in (1.5, 2, 3, 4, 5, 6, 8, 10, 50)
    ),
    {"loss_percent": 1.15478198},
    {"loss_percent": 99.9999},
    {"rtt_ms": 200.00123},
    {"rtt_ms": 40, "sender_delay_ms": 40},
    {"reorder_percent": 2, "reorder_ms": 10},
    {"shaper": "htb-netem", "rate_mbit": 20},
    {"shaper": "htb-netem", "rate_mbit": 10_000, "queue": "two-fifos"},
    {"shaper": "htb-netem", "rate_mbit": 0.05, "queue": "two-fifos"},
]  # fmt: skip


@pytest.mark.parametrize("axes", ROWS, ids=str)
def test_condition_that_was_always_invalid_passes_its_read_back(axes):
    """Rows of B: all 153 pairs of loss and burst, loss, RTT, sender's netem, reordering, HTB."""
    condition = dataclasses.replace(BASE, **axes)
    assert condition.problems() == []
    assert wrong_read_back(condition) == []


@pytest.mark.parametrize("queue", BUFFER_MAX_PACKETS)
def test_largest_buffer_of_a_queue_is_the_largest_that_tc_takes(queue):
    """B: `red-step`, `bfifo` and `red` with 10,000,000 packets; also `cake` and `fq_codel`."""
    largest = BUFFER_MAX_PACKETS[queue]
    good = dataclasses.replace(BASE, queue=queue, buffer_packets=largest)
    assert good.problems() == []
    assert wrong_read_back(good) == []
    larger = dataclasses.replace(good, buffer_packets=largest + 1)
    assert larger.problems() == [
        f"buffer_packets must be at most {largest} with the queue {queue}, found {largest + 1}"
    ]
    try:
        assert wrong_read_back(larger) != []
    except RefusedError:
        return


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"loss_percent": 1e-9}, "loss_percent must be 0 or at least 1e-06, found 1e-09"),
        ({"reorder_percent": 1e-9}, "reorder_percent must be 0 or at least 1e-06"),
        ({"duplicate_percent": 1e-9}, "duplicate_percent must be 0 or at least 1e-06"),
        ({"rtt_ms": 1e-6}, "rtt_ms must be 0 or at least 0.001"),
        ({"jitter_ms": 1e-6}, "jitter_ms must be 0 or at least 0.001"),
        ({"sender_delay_ms": 1e-6}, "sender_delay_ms must be 0 or at least 0.001"),
        ({"policer_mbit": 1e-6}, "policer_mbit must be 0 or at least 0.01"),
        (
            {"second_rate_mbit": 1e-6, "flows": "cubic"},
            "second_rate_mbit must be 0 or at least 0.01",
        ),
        (
            {"loss_percent": 90, "loss_burst_packets": 2},
            "loss_percent must be 2e-06 to 66.6667 with loss_burst_packets 2, found 90",
        ),
        ({"loss_percent": 1e-5, "loss_burst_packets": 1000}, "must be 0.001 to 99.9001"),
        (
            {"policer_mbit": 0.01, "policer_burst_packets": 10_000},
            "policer_burst_packets must be at most 226 at policer_mbit 0.01, found 10000",
        ),
        ({"flows": "same,rtt_ms=20000"}, "at least the path's 20 and at most 10000, found 20000"),
    ],
)
def test_value_that_cannot_be_set_is_refused(axes, words):
    assert any(words in problem for problem in dataclasses.replace(BASE, **axes).problems())


def test_policer_polices_the_first_of_two_bottlenecks():
    condition = dataclasses.replace(BASE, policer_mbit=5, second_rate_mbit=10, flows="cubic")
    assert condition.problems() == []
    [planned] = planned_qdiscs(condition)
    assert [q.where.name for q in planned if q.kind == "clsact"] == ["r1-r2"]


@pytest.mark.parametrize("changed", [1e-5, -1e-5])
def test_value_that_differs_in_a_printed_digit_is_found(changed):
    condition = dataclasses.replace(BASE, loss_percent=1.15478198)
    [planned] = planned_qdiscs(condition)
    qdiscs, classes, _ = shown(planned)
    its = next(q for q in qdiscs["r2"] if "loss-random" in q["options"])
    assert its["options"]["loss-random"]["loss"] == 0.0115478
    its["options"]["loss-random"]["loss"] *= 1 + changed
    [reason] = differences(planned, qdiscs, classes, "6.12.0")
    assert "must have loss-random.loss 0.0115478, found 0.01154" in reason


@st.composite
def conditions(draw):
    """Draw a condition in which a pair of axes, and sometimes what they need, is at random."""
    pair = draw(st.sampled_from(PAIRS))
    axes = {name: draw(values(name)) for name in pair}
    if draw(st.booleans()):
        axes.setdefault("loss_percent", draw(values("loss_percent")))
        axes.setdefault("policer_mbit", draw(values("policer_mbit")))
        axes.setdefault("rtt_ms", draw(values("rtt_ms")))
    if "second_rate_mbit" in axes:
        axes.setdefault("flows", "cubic")
    if "mark_packets" in axes:
        axes.setdefault("queue", "red-step")
    return dataclasses.replace(BASE, **axes)


@settings(max_examples=600, deadline=None)
@given(conditions())
def test_accepted_condition_passes_its_own_read_back(condition):
    """Rows of B: bursts, loss, RTT, zeros that tc omits, HTB's quantum, limits of queues."""
    if condition.problems():
        return
    try:
        assert wrong_read_back(condition) == []
    except RefusedError as refused:
        raise AssertionError(f"accepted, but tc refuses: {refused}") from refused
