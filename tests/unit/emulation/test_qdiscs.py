"""Qdiscs: an accepted condition passes its read-back as tc prints it, a wrong one does not."""

import contextlib
import dataclasses
import itertools
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from losslab.emulation import hosts, mechanism, qdiscs
from losslab.emulation.mechanism import netem_link
from losslab.emulation.plan import make_plan
from losslab.emulation.probes import attribute
from losslab.emulation.qdiscs import differences
from losslab.emulation.shaping import path_qdiscs
from losslab.emulation.topology import bottleneck, interface
from losslab.errors import LosslabError
from losslab.study.condition import AXES, BUFFER_MAX_PACKETS
from tests.unit.emulation.faketc import RefusedError, shown
from tests.unit.emulation.test_plan import read_back
from tests.unit.study.test_condition import CONDITION

WHERE = interface("r2", "receiver")
QUIET = dataclasses.replace(CONDITION, loss_percent=0, rtt_ms=20)


def made(**more):
    return netem_link(dataclasses.replace(QUIET, **more), "data").qdiscs(WHERE, 7, "netem-data")


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
    "command", "bring", "video", "write_kib", "competitor", "response_kb", "request_bytes",
    "think_ms", "requests",
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
    back = {"reverse_queue": queue, "reverse_buffer_packets": largest + 1, "reverse_rate_mbit": 1}
    if queue != "red-step":
        assert dataclasses.replace(BASE, **back).problems() == [f"reverse_{larger.problems()[0]}"]
    try:
        assert wrong_read_back(larger) != []
    except RefusedError:
        return


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


@settings(max_examples=600)
@given(conditions())
def test_accepted_condition_passes_its_own_read_back(condition):
    """Rows of B: bursts, loss, RTT, zeros that tc omits, HTB's quantum, limits of queues."""
    if condition.problems():
        return
    try:
        assert wrong_read_back(condition) == []
    except RefusedError as refused:
        raise AssertionError(f"accepted, but tc refuses: {refused}") from refused


def mechanism_qdiscs(**changes):
    condition = dataclasses.replace(QUIET, **changes)
    return [qdisc for its in mechanism.of(condition) for qdisc in its.qdiscs(condition)]


def deviations(asked, found):
    return asked.deviations({"filters": {asked.where.name: found}})


def action(kind, options):
    stats = attribute(1, struct.pack("=QI", 3_000, 2)) + attribute(3, struct.pack("=5I", *range(5)))
    return (
        attribute(qdiscs.TCA_ACT_KIND, kind + b"\0")
        + attribute(qdiscs.TCA_ACT_OPTIONS, options)
        + attribute(qdiscs.TCA_ACT_STATS, stats)
    )


def of_kernel(kind, number, content):
    """Return a netlink dump of one filter."""
    options = attribute(number, attribute(1, content))
    return {qdiscs.TCA_KIND: kind + b"\0", qdiscs.TCA_OPTIONS: options}


def test_ack_thinning_is_read_back_with_its_number():
    gact = attribute(2, struct.pack("=IIi", 1, 0, 2)) + attribute(3, struct.pack("=HHi", 2, 4, 0))
    [found] = qdiscs._actions(of_kernel(b"flower", 3, action(b"gact", gact)), 0)
    [asked] = mechanism_qdiscs(ack_thinning=4, path="asymmetric")
    assert asked.where.name == "r3-r1"
    assert deviations(asked, [found]) == []
    assert deviations(asked, [found | {"one_of": 2}]) != []
    without = attribute(2, struct.pack("=IIi", 1, 0, 2))
    [found] = qdiscs._actions(of_kernel(b"flower", 3, action(b"gact", without)), 0)
    assert deviations(asked, [found]) != []


DUAL = dataclasses.replace(QUIET, queue="dualpi2", ecn="on", buffer_packets=300)


def test_dualpi2_has_the_configured_limit():
    its = next(q for q in path_qdiscs(DUAL, 7) if q.kind == "dualpi2")
    assert its.command() == "qdisc add dev r1-r2 parent 1:1 handle 10: dualpi2"
    stats = struct.pack("=12I", *range(12))
    parts = {
        qdiscs.TCA_OPTIONS: attribute(1, struct.pack("=I", 300)),
        qdiscs.TCA_STATS2: attribute(4, stats),
    }
    found = qdiscs.dualpi2_state(parts)
    assert (found["limit"], found["packets_in_l"], found["ecn_mark"]) == (300, 4, 6)
    assert its.deviations({"dualpi2": found}) == []
    [reason] = its.deviations({"dualpi2": {}})
    assert "must have limit 300, found None" in reason
    made = make_plan(DUAL, 7)
    state = read_back(made) | {}
    state["r1"]["dualpi2"] = found | {"limit": 10_000}
    assert any("limit 300, found 10000" in r for r in hosts.deviations(made.hosts, state))


def test_qdisc_unknown_to_tc_is_listed():
    text = '[{"kind":"dualpi2","options":{[Unknown qdisc, optlen=92] },"bytes":7}]'
    assert hosts._documents(text) == [[{"kind": "dualpi2", "options": {}, "bytes": 7}]]


def test_accurate_ecn_and_dualpi2_are_refused_without_kernel_support(monkeypatch):
    monkeypatch.setattr(hosts, "ACCURATE_ECN_SYSCTL", "net.ipv4.no_such_thing")
    hosts.require_ecn(make_plan(DUAL, 7).hosts)
    with pytest.raises(LosslabError, match="ecn accurate needs a kernel with Accurate ECN"):
        hosts.require_ecn(make_plan(dataclasses.replace(DUAL, ecn="accurate"), 7).hosts)

    class Tc:
        said = "Error: Specified qdisc kind is unknown."

        def do(self, lines):
            raise LosslabError(self.said)

    @contextlib.contextmanager
    def here(pid):
        yield

    monkeypatch.setattr(hosts, "inside", here)
    made = make_plan(DUAL, 7)
    handles = {name: hosts.Handle(1, None, Tc()) for name in made.hosts}
    only_r1 = {"r1": made.hosts["r1"]}
    with pytest.raises(LosslabError, match="queue dualpi2 needs a kernel with DualPI2"):
        hosts.shape(only_r1, handles)
    monkeypatch.setattr(Tc, "said", "another word")
    with pytest.raises(LosslabError, match="another word"):
        hosts.shape(only_r1, handles)


@pytest.mark.parametrize(
    ("text", "shown", "same"),
    [
        ("90", 90, True), ("90", 91, False), ("5000", 4999, True), ("100", 256, False),
        ("5ms", 4999, True), ("5ms", 0.005, True), ("5ms", 6000, False), ("15ms", 16_000, True),
        ("20ms", 24_000, False), ("100ms", 99_999, True), ("10s", 10_000_000, True),
        ("4mb", 4 << 20, True), ("60kb", 61_440, True), ("60kb", 60_000, False),
        ("8mbit", 1_000_000, True), ("8mbit", 1_000_001_000, False), ("5%", 0.05, True),
        ("5%", 0.5, False), ("unlimited", 7, True), ("1k", "1Kb", True), ("x7y", 3, True),
    ],
)  # fmt: skip
def test_own_queues_option_is_the_one_that_tc_shows(text, shown, same):
    assert qdiscs.same_option(text, shown) is same


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("limit 90 target 5ms ecn", []),
        ("limit 91", ["must have limit 91, found 90"]),
        ("limit 90 noecn", ["must have noecn, found on"]),
        ("nat", ["must have nat, found off"]),
        ("delay 5ms", []), ("delay 6ms", ["must have delay 6ms, found 0.005"]),
        ("unknown 7", []),
    ],
)  # fmt: skip
def test_own_queue_must_have_the_options_that_its_arguments_name(arguments, found):
    queue = qdiscs.OwnQueue(bottleneck(), "parent 1:1", "10:", "codel", arguments, {})
    options = {"limit": 90, "target": 4999, "ecn": True, "nat": False, "delay": {"delay": 0.005}}
    shown_by_tc = {"1:": {"limit": 7}, "10:": options}
    state = {"qdiscs": [{"dev": bottleneck().name, "handle": handle, "options": shown}
                        for handle, shown in shown_by_tc.items()]}  # fmt: skip
    where = f"qdisc codel on {bottleneck().name} of {bottleneck().host} "
    assert queue.deviations(state) == [where + words for words in found]
