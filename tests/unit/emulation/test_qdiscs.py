"""Netem links: tc commands and read-back."""

import dataclasses

import pytest

from losslab.emulation.mechanism import burst_chances, loss_percent, netem_link
from losslab.emulation.qdiscs import differences
from losslab.emulation.shaping import path_qdiscs
from losslab.emulation.topology import interface
from tests.unit.emulation.test_shaping import readback
from tests.unit.study.test_condition import CONDITION

WHERE = interface("r2", "receiver")
QUIET = dataclasses.replace(CONDITION, loss_percent=0, rtt_ms=20)


def made(**more):
    return netem_link(dataclasses.replace(QUIET, **more), "data").qdiscs(WHERE, 7, "netem-data")


def test_plain_netem_link_keeps_its_command():
    [its] = made(loss_percent=1.0)
    assert its.arguments.startswith("limit 200000000 delay 10000000ns loss random 1% seed ")


def test_burst_loss_has_the_same_loss_rate():
    enter, leave = burst_chances(0.02, 5.0)
    assert enter / (enter + leave) == pytest.approx(0.02)
    assert 1 / leave == 5.0
    [its] = made(loss_percent=2.0, loss_burst_packets=5.0)
    assert "loss gemodel 0.4081632653% 20% seed" in its.arguments
    assert its.expected["loss-gemodel.r"] == 0.2
    assert "loss-random.loss" not in its.expected


def test_jitter_adds_to_the_delay_and_keeps_order_by_default():
    [kept], [mixed] = made(jitter_ms=4.0), made(jitter_ms=4.0, jitter_order="mixed")
    assert "delay 12000000ns 2000000ns rate 1000gbit seed" in kept.arguments
    assert "delay 12000000ns 2000000ns seed" in mixed.arguments
    assert kept.expected["delay.jitter"] == 0.002


def test_early_packets_skip_a_second_netem():
    first, early = made(reorder_percent=2.0, reorder_ms=3.0)
    assert "delay 7000000ns" in first.arguments
    assert (early.parent, early.handle) == ("parent 1:1", "10:")
    assert "delay 3000000ns reorder 2% gap 1" in early.arguments
    assert first.expected["seed"] != early.expected["seed"]


def test_loss_may_affect_acknowledgements_alone():
    back = dataclasses.replace(QUIET, loss_percent=3.0, loss_direction="back")
    assert (loss_percent(back, "data"), loss_percent(back, "back")) == (0.0, 3.0)
    netems = [s for s in path_qdiscs(back, 7) if s.kind == "netem"]
    assert [s.where.name for s in netems if "loss" in s.arguments] == ["r2-r1"]


EVERYTHING = {
    "loss_burst_packets": (5.0, {"loss_percent": 1.0}, "loss-gemodel", {"p": 0.5}),
    "jitter_ms": (4.0, {}, "delay", {"delay": 0.012, "jitter": 0.001}),
    "reorder_percent": (2.0, {}, "reorder", {"reorder": 0.5}),
    "duplicate_percent": (2.0, {}, "duplicate", {"duplicate": 0.5}),
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_wrong_read_back_of_each_option_is_found(name):
    value, more, option, wrong = EVERYTHING[name]
    condition = dataclasses.replace(QUIET, **more, **{name: value})
    assert condition.problems() == []
    found = readback(condition)
    assert differences(path_qdiscs(condition, 7), found) == []
    its = next(
        q for q in found["r2"] if q["dev"] == "r2-receiver" and option in q.get("options", {})
    )
    its["options"][option] |= wrong
    assert differences(path_qdiscs(condition, 7), found) != []
    # A kernel that reports none of the option is detected, too.
    del its["options"][option]
    assert any(option in reason for reason in differences(path_qdiscs(condition, 7), found))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"jitter_ms": 1, "rtt_ms": 0}, "jitter_ms must be at their defaults with rtt_ms 0"),
        ({"jitter_ms": 1, "shaper": "htb-netem"}, "jitter_ms must be at their defaults"),
        ({"duplicate_percent": 1, "offloads": "on"}, "offloads must be off with duplicate_percent"),
        ({"loss_burst_packets": 5}, "needs a loss_percent"),
        ({"jitter_order": "mixed"}, "needs a jitter_ms"),
        ({"reorder_percent": 1, "reorder_ms": 11}, "at most half of rtt_ms (10), found 11"),
        ({"duplicate_percent": 1, "loss_percent": 1}, "a forward path without loss"),
        ({"ecn": "on", "trace": "cellular"}, "ecn must be off with a trace"),
        ({"mark_packets": 30}, "mark_packets needs the queue red-step"),
        ({"queue": "red-step", "buffer_packets": 20}, "below buffer_packets, 20 here, found 20"),
        (
            {"loss_direction": "back", "loss_percent": 1, "sender_delay_ms": 1},
            "must not be back with sender_delay_ms",
        ),
    ],
)
def test_conflicting_axes_are_refused(changes, words):
    [problem] = dataclasses.replace(QUIET, **({"rate_mbit": 20} | changes)).problems()
    assert words in problem
