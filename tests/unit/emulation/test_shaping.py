"""Qdiscs of a path and their read-back; golden digests have their commands."""

import dataclasses

import pytest

from losslab.emulation.qdiscs import differences
from losslab.emulation.shaping import path_qdiscs
from tests.unit.emulation.faketc import shown
from tests.unit.study.test_condition import CONDITION


def readback(condition=CONDITION, seed=7):
    """Return tc's output after every qdisc was set."""
    return shown(path_qdiscs(condition, seed))[0]


def netem(found, host="r2"):
    return next(q for q in found[host] if q["kind"] == "netem")


def test_unexpected_qdisc_is_found():
    found = readback()
    found["sender"].append(
        {"dev": "sender-r1", "handle": "2:", "kind": "netem", "options": {"limit": 1000}}
    )
    assert any("is not in the plan" in r for r in differences(path_qdiscs(CONDITION, 7), found))


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
