"""The ends of every axis' span in a guest: tc takes them and prints what losslab expects.

One guest creates and reads back the qdiscs of all conditions, without traffic. It also shows that
`tests/unit/emulation/faketc.py`, with which the property-based tests work, prints what tc does.
"""

import dataclasses
import json
import statistics

import pytest

from losslab.emulation.path import jitter
from losslab.emulation.plan import make_plan
from losslab.instrument import image
from losslab.study.condition import AXES, BUFFER_MAX_PACKETS, QUEUES
from tests.faults import kit
from tests.unit.emulation.faketc import shown
from tests.unit.emulation.test_qdiscs import BASE, ROWS, SHAPING, TEXTS

# Runs in the guest.
SCRIPT = """
import json
from pathlib import Path
from losslab.emulation import hosts, measure
from losslab.emulation.plan import make_plan
from losslab.emulation.qdiscs import differences
from losslab.study.condition import Condition

found = {{}}
conditions = {{n: Condition.from_json(each) for n, each in json.loads({conditions!r}).items()}}
first = next(iter(conditions.values()))
with measure.bare_hosts() as bare, measure.stage(bare, first) as ready:
    for name, condition in conditions.items():
        plans = make_plan(condition, 7).hosts
        hosts.shape(plans, ready.handles)
        state = hosts.read_back(plans, ready.handles)
        planned = [qdisc for plan in plans.values() for qdisc in plan.qdiscs]
        classes = {{n: its for h in plans for n, its in state[h]["classes"].items()}}
        wrong = differences(planned, {{h: state[h]["qdiscs"] for h in plans}}, classes)
        wrong += [each for q in planned for each in q.deviations(state[q.where.host])]
        found[name] = {{"wrong": wrong, "state": {{h: state[h]["qdiscs"] for h in plans}}}}
        for host, plan in plans.items():
            places = {{(q.where.name, "root" if q.parent else "clsact") for q in plan.qdiscs}}
            ready.handles[host].tc.do([f"qdisc del dev {{n}} {{what}}" for n, what in places])
Path("/mnt/out/found.json").write_text(json.dumps(found))
"""
# What an axis needs so that its ends are accepted.
NEEDS = {
    "loss_burst_packets": {"loss_percent": 2}, "jitter_order": {"jitter_ms": 4},
    "jitter_direction": {"jitter_ms": 4}, "jitter_distribution": {"jitter_ms": 4},
    "jitter_correlation_percent": {"jitter_ms": 4},
    "reorder_ms": {"reorder_percent": 2, "rtt_ms": 2000},
    "policer_burst_packets": {"policer_mbit": 10}, "sender_delay_ms": {"rtt_ms": 10_000},
    "mark_packets": {"queue": "red-step", "buffer_packets": 200_000},
    "reverse_buffer_packets": {"reverse_rate_mbit": 2}, "reverse_queue": {"reverse_rate_mbit": 2},
    "loss_direction": {"loss_percent": 2}, "reorder_percent": {"rtt_ms": 2000},
}  # fmt: skip


def ends():
    """Return the conditions at the ends of the spans that one network of five hosts can have."""
    found = {f"row {number}": axes for number, axes in enumerate(ROWS)}
    for name in SHAPING:
        axis = AXES[name]
        values = list(axis.choices)
        if axis.span:
            span = (axis.span.minimum, axis.smallest, axis.span.maximum)
            values = [value for value in span if value in axis.span]
            values += [99.99] if axis.span.text == "[0, 100)" else []
        for value in values:
            found[f"{name} {value}"] = NEEDS.get(name, {}) | {name: value}
    for queue in set(QUEUES) - {"dualpi2"}:
        for packets in (1, BUFFER_MAX_PACKETS.get(queue, 10_000_000)):
            found[f"{queue} {packets}"] = {
                "queue": queue, "buffer_packets": packets, "mark_packets": 1,
            } | ({} if queue == "red-step" else {"mark_packets": 20})  # fmt: skip
    conditions = {name: dataclasses.replace(BASE, **axes) for name, axes in found.items()}
    return {
        name: its for name, its in conditions.items()
        if not its.problems() and its.flows == "none" and its.queue != "dualpi2"
    }  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    conditions = json.dumps({name: its.to_json() for name, its in ends().items()})
    return kit.in_guest(SCRIPT.format(conditions=conditions), tmp_path_factory.mktemp("ends"))


def test_ends_of_all_spans_read_back_as_planned(found):
    """Rows of B that tc refuses or prints otherwise, and the ends of every axis."""
    assert {name: its["wrong"] for name, its in found.items() if its["wrong"]} == {}
    ended = {name.split()[0] for name in found}
    assert set(SHAPING) - ended <= {*TEXTS, "second_rate_mbit"}


def test_table_of_normal_jitter_is_that_of_the_distribution():
    """iproute2's netem/normal.c: quantiles in units of 1/8192, to within one of them."""
    [file] = (image.part().existing() / "root/usr/lib").glob("*/tc/normal.dist")
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    table = [int(word) for line in lines for word in line.split()]
    assert len(table) == jitter.TABLE_ENTRIES
    assert table[0] == -8192 * jitter.NORMAL_SIGMAS
    for place, entry in enumerate(table[1:], 1):
        quantile = statistics.NormalDist().inv_cdf((4 * place + 0.5) / 16384)
        assert abs(entry - 8192 * quantile) <= 1


def test_model_of_tc_prints_what_tc_prints(found):
    other = []
    for name, condition in ends().items():
        plans = make_plan(condition, 7).hosts
        modelled, _, _ = shown([qdisc for plan in plans.values() for qdisc in plan.qdiscs])
        for host, qdiscs in modelled.items():
            for its in qdiscs:
                [real] = [
                    q for q in found[name]["state"].get(host, [])
                    if (q["dev"], q.get("handle")) == (its["dev"], its["handle"])
                ]  # fmt: skip
                shared = {key: real.get("options", {}).get(key) for key in its["options"]}
                if shared != its["options"]:
                    other.append((name, its["dev"], its["options"], shared))
    assert other == []
