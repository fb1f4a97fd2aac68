"""Qdiscs of a path and their read-back; golden digests have their commands."""

import dataclasses

import pytest

from losslab.emulation.qdiscs import differences
from losslab.emulation.shaping import path_qdiscs
from losslab.emulation.topology import HOSTS, NetworkExtension, address_commands, routes
from losslab.study.condition import QUEUES
from tests.unit.emulation.faketc import shown
from tests.unit.study.test_condition import CONDITION


def readback(condition=CONDITION, seed=7):
    """Return tc's output after every qdisc was set."""
    return shown(path_qdiscs(condition, seed))[0]


def netem(found, host="r2"):
    return next(q for q in found[host] if q["kind"] == "netem")


def test_asymmetric_path_moves_the_reverse_path_to_r3():
    other = dataclasses.replace(CONDITION, path="asymmetric")
    assert {s.where.host for s in path_qdiscs(other, 7)} == {"sender", "r1", "r2", "r3"}
    assert routes("asymmetric", NetworkExtension())["receiver"][0][1].towards == "r3"
    assert routes("symmetric", NetworkExtension())["receiver"][0][1].towards == "r2"
    assert {
        h: address_commands(h, CONDITION, NetworkExtension(), {}) for h in HOSTS if h != "receiver"
    } == {h: address_commands(h, other, NetworkExtension(), {}) for h in HOSTS if h != "receiver"}


@pytest.mark.parametrize(
    ("option", "value"),
    [("limit", 1000), ("delay", {"delay": 220e-9}), ("seed", 8), ("loss-random", {"loss": 0.1})],
)
def test_each_wrong_netem_option_is_found(option, value):
    # The limit is too small, a unit is missing, the seed differs, the loss differs.
    found = readback()
    netem(found)["options"][option] = value
    assert len(differences(path_qdiscs(CONDITION, 7), found)) == 1


def test_missing_qdisc_is_found():
    # The read-back of an emulator that ignores errors of tc.
    found = readback()
    found["r2"] = []
    assert any("netem must be on" in r for r in differences(path_qdiscs(CONDITION, 7), found))


def test_unexpected_qdisc_is_found():
    found = readback()
    found["sender"].append(
        {"dev": "sender-r1", "handle": "2:", "kind": "netem", "options": {"limit": 1000}}
    )
    assert any("is not in the plan" in r for r in differences(path_qdiscs(CONDITION, 7), found))


@pytest.mark.parametrize("queue", [q for q in QUEUES if q not in ("two-fifos", "dualpi2", "own")])
def test_every_queue_is_below_the_token_bucket_with_its_buffer(queue):
    condition = dataclasses.replace(CONDITION, queue=queue, buffer_packets=100, rate_mbit=1.5)
    child = next(s for s in path_qdiscs(condition, 7) if s.handle == "10:")
    assert child.parent == "parent 1:1"
    in_bytes = {"red": 1514, "red-step": 1514, "bfifo": 1514, "cake": 2304}
    assert 100 * in_bytes.get(queue, 1) in child.expected.values()
    found = readback(condition)
    broken = next(q for q in found["r1"] if q["handle"] == "10:")
    broken["kind"] = "pfifo_fast"
    assert differences(path_qdiscs(condition, 7), found) == [
        f"qdisc {child.kind} must be on r1-r2 on r1, found pfifo_fast"
    ]


def test_own_queue_has_the_options_of_its_axis_and_none_to_compare():
    condition = dataclasses.replace(CONDITION, queue="own", qdisc="codel limit 9 target 1ms")
    assert condition.problems() == []
    child = next(s for s in path_qdiscs(condition, 7) if s.handle == "10:")
    assert child.command() == ("qdisc add dev r1-r2 parent 1:1 handle 10: codel limit 9 target 1ms")
    assert child.expected == {}
    marked = dataclasses.replace(condition, ecn="on")
    assert next(s for s in path_qdiscs(marked, 7) if s.handle == "10:") == child


LAB = dataclasses.replace(
    CONDITION, shaper="htb-netem", loss_percent=0, rtt_ms=20, rate_mbit=1.5, buffer_packets=100
)


def classes(condition):
    """Return the output of `tc class show`."""
    return {
        s.where.name: [{"handle": handle, **its} for handle, its in s.classes.items()]
        for s in path_qdiscs(condition, 7)
        if s.classes
    }


@pytest.mark.parametrize("queue", ["fifo", "two-fifos"])
def test_classes_are_read_back(queue):
    condition = dataclasses.replace(LAB, queue=queue)
    wanted, found = path_qdiscs(condition, 7), readback(condition)
    assert differences(wanted, found, classes(condition)) == []
    wrong = classes(condition)
    wrong["r2-r1"][-1]["ceil"] = 1
    [reason] = differences(wanted, found, wrong)
    assert "on r2-r1 on r2 must have {'rate'" in reason
    missing = differences(wanted, found, {"r2-r1": classes(condition)["r2-r1"]})
    assert len(missing) == len(classes(condition)["r1-r2"])
    assert all("class 1:1" in reason and "on r1-r2 on r1" in reason for reason in missing)


def test_read_back_of_netems_seed_depends_on_the_kernel():
    found = readback()
    for qdiscs in found.values():
        for qdisc in qdiscs:
            qdisc.get("options", {}).pop("seed", None)
    wanted = path_qdiscs(CONDITION, 7)
    assert differences(wanted, found, release="6.1.176") == []
    for release in ("6.6.0", "6.12.117", "7.2.0-rc1"):
        assert "must have seed" in differences(wanted, found, release=release)[0]
    found = readback()
    netem(found)["options"]["seed"] = 8
    assert differences(wanted, found, release="6.1.176") != []  # a reported seed must match
