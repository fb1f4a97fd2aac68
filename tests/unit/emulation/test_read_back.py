"""The whole declared span: an accepted condition passes its own read-back as tc prints it."""

import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from losslab.emulation import hosts, tcvalues
from losslab.emulation.plan import make_plan
from losslab.emulation.qdiscs import differences
from losslab.emulation.shaping import path_qdiscs
from losslab.study.axes import NONE
from losslab.study.condition import AXES, Condition
from losslab.study.conflicts import BUFFER_MAX_PACKETS
from tests.unit.emulation.faketc import Refused, shown
from tests.unit.study.test_condition import CONDITION

# Text of axes that are mini-languages or names.
FLOWS = "same,rtt_ms={rtt:.9f}+cubic,over=first"
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
        st.sampled_from(ends), magnitude, digits, st.floats(low, high).filter(axis.span.__contains__)
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
    """Return what losslab would find wrong with a condition's plan, if tc did as it is told."""
    wrong = []
    for planned in planned_qdiscs(condition):
        qdiscs, classes, filters = shown(planned)
        wrong += differences(planned, qdiscs, classes, "6.12.0")
        for each in planned:
            if each.kind == "clsact":
                found = {"filters": {each.where.name: filters[each.where.name]}}
                wrong += each.deviations(found)
    return wrong


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


@settings(max_examples=1500, deadline=None)
@given(conditions())
def test_accepted_condition_passes_its_own_read_back(condition):
    """Rows of B: bursts, loss, RTT, zeros that tc omits, HTB's quantum, limits of queues."""
    if condition.problems():
        return
    try:
        assert wrong_read_back(condition) == []
    except Refused as refused:
        raise AssertionError(f"accepted, but tc refuses: {refused}") from refused
