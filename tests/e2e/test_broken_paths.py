"""Paths that are broken on purpose, in one guest: their checks refuse each.

Like tests/e2e/test_broken_emulation.py, but one guest measures all cases in turn.
"""

import json

import pytest

from losslab.study.condition import Condition
from tests.faults import kit

CONDITION = {
    "algorithm": "cubic", "app": "iperf3", "rtt_ms": 20, "rate_mbit": 5, "buffer_packets": 25,
    "duration_s": 1.5, "warmup_s": 0.4,
}  # fmt: skip

# Runs in the guest: each case's tc commands on a host after its configuration, and replacements of
# commands of the path schedule, which the later read-back does not show.
SCRIPT = """
import json, subprocess
from pathlib import Path
from losslab.emulation import hosts, schedule_runner, measure, qdiscs
from losslab.study.condition import Condition

shape, change, look = measure.hosts.shape, qdiscs.Qdisc.change_command, schedule_runner.differences
found = {{}}
for name, (condition, host, lines, swap) in json.loads({cases!r}).items():
    qdiscs.Qdisc.change_command = lambda qdisc: change(qdisc).replace(*swap)
    schedule_runner.differences = (lambda *_: []) if swap[0] else look

    def shape_broken(plans, handles):
        shape(plans, handles)
        with hosts.inside(handles[host].pid):
            for line in lines:
                subprocess.run(line.split(), check=True)

    measure.hosts.shape = shape_broken
    folder = Path("/mnt/out", name.replace(" ", "-"), "raw")
    folder.mkdir(parents=True)
    with measure.bare_hosts() as bare, measure.stage(bare, Condition.from_json(condition)) as ready:
        result = measure.measure(ready, 7, folder)
    found[name] = {{"reasons": result["reasons"], "summary": result["summary"]}}
Path("/mnt/out/found.json").write_text(json.dumps(found))
"""

NETEM = "tc qdisc change dev r2-receiver root handle 1: netem seed 1 limit 200000000 delay"
EARLY_NETEM = "tc qdisc change dev r2-receiver parent 1:1 handle 10: netem seed 1 limit 200000000"
# name: (axes, host, breaking commands or replacement, words of the violations)
CASES = {
    "nothing broken": (
        {
            "loss_percent": 2, "loss_burst_packets": 4, "loss_direction": "back", "jitter_ms": 4,
            "reorder_percent": 2, "reorder_ms": 5, "duplicate_percent": 2, "ecn": "on",
            "queue": "codel",
        },
        "r2", [], [],
    ),
    "bursts of one packet": (
        {"loss_percent": 2, "loss_burst_packets": 5},
        "r2", [f"{NETEM} 10ms loss 2%"], ["must have loss-gemodel.p"],
    ),
    "missing jitter": (
        {"jitter_ms": 10}, "r2", [f"{NETEM} 15ms rate 1000gbit"],
        ["must have delay.jitter 0.005, found 0", "must spread over"],
    ),
    "jitter of acknowledgements": (
        {"jitter_ms": 80, "jitter_distribution": "normal", "jitter_direction": "both",
         "jitter_correlation_percent": 25, "jitter_order": "mixed"},
        "r2", [], [],
    ),
    "other correlation": (
        {"jitter_ms": 80, "jitter_distribution": "normal", "jitter_correlation_percent": 25},
        "r2", [f"{NETEM} 50ms 10ms 20% distribution normal rate 1000gbit"],
        ["must have delay.correlation 0.25, found 0.2"],
    ),
    "more reordering": (
        {"reorder_percent": 2}, "r2", [f"{EARLY_NETEM} delay 5ms reorder 20%"],
        ["must have reorder.reorder 0.02, found 0.2", "early packets must be 2 %"],
    ),
    "unplanned reordering": (
        {}, "r2", [f"{NETEM} 10ms reorder 2%"],
        ["must have none of these packets, found reordered"],
    ),
    "more duplicates": (
        {"duplicate_percent": 2}, "r2", [f"{NETEM} 10ms duplicate 20%"],
        ["must have duplicate.duplicate 0.02, found 0.2", "duplicated packets must be 2 %"],
    ),
    "unplanned duplicates": (
        {}, "r2", [f"{NETEM} 10ms duplicate 2%"], ["unexplained"],
    ),
    "a receiver without ECN": (
        {"ecn": "on"}, "receiver", ["sysctl -qw net.ipv4.tcp_ecn=0"],
        ["sysctl net.ipv4.tcp_ecn on receiver must be 1, found 0", "at least 50 % of"],
    ),
    "nothing broken in a path schedule": (
        {
            "changes": "at_s=0.5,rate_mbit=3,rtt_ms=60+at_s=0.8,loss_percent=5+at_s=1,outage_s=0.2",
            "ack_thinning": 4, "policer_mbit": 6,
        },
        "r2", [], [],
    ),
    "a change to another rate": (
        {"changes": "at_s=0.7,rate_mbit=2", "shaper": "tbf"}, "r1",
        {"rate 2000000bit": "rate 5000000bit"},
        ["after the traffic: qdisc tbf on r1-r2 on r1 must have rate 250000, found 625000",
         "from 0.7 s the bottleneck must send at most 2 Mbit/s"],
    ),
    "a change to another delay": (
        {"changes": "at_s=0.7,rtt_ms=200"}, "r2", {"delay 100000000ns": "delay 12000000ns"},
        ["must have delay.delay 0.1, found 0.012", "RTTs from 0.7 s must be at least 200 ms"],
    ),
    "a change to another loss rate": (
        {"changes": "at_s=0.7,loss_percent=2"}, "r2", {"loss random 2%": "loss random 30%"},
        ["must have loss-random.loss 0.02, found 0.3", "loss from 0.7 s must be 2 %"],
    ),
    "an outage that passes some packets": (
        {"changes": "at_s=0.7,outage_s=0.5", "shaper": "tbf"}, "r2",
        {"loss random 100%": "loss random 50%"},
        ["loss from 0.7 s must be 100 %"],
    ),
    "batches that are missing": (
        {"data_batch_ms": 15}, "r2", [f"{NETEM} 10ms slot 1ns"],
        ["must have slot.min-delay 0.015", "an idle ping must wait up to 15 ms"],
    ),
    "another reverse rate": (
        {"reverse_rate_mbit": 0.5, "reverse_buffer_packets": 9, "shaper": "tbf"}, "r2",
        ["tc qdisc change dev r2-r1 parent 1:1 handle 20: tbf rate 2mbit burst 3028 limit 3028",
         "tc qdisc change dev r2-r1 parent 20:1 handle 30: pfifo limit 9"],
        ["qdisc tbf on r2-r1 on r2 must have rate 62500, found 250000"],
    ),
    "another queue of the reverse bottleneck": (
        {"reverse_rate_mbit": 2, "reverse_queue": "codel", "reverse_buffer_packets": 50}, "r2",
        ["tc qdisc change dev r2-r1 parent 20:1 handle 30: codel limit 60"],
        ["qdisc codel on r2-r1 on r2 must have limit 50, found 60"],
    ),
    "a policer without effect": (
        {"policer_mbit": 2}, "r1", ["tc filter del dev r1-r2 egress"],
        ["filter on r1-r2 on r1 must be", "a policer of 2 Mbit/s must pass at most"],
    ),
    "another ratio of ACK thinning": (
        {"ack_thinning": 4}, "r2",
        ["tc filter del dev r2-r1 egress",
         "tc filter add dev r2-r1 egress protocol ip flower ip_proto tcp tcp_flags 0x10/0x1f "
         "action drop random determ ok 2"],
        ["filter on r2-r1 on r2 must be", "one in 4 gets through"],
    ),
    "marks of another qdisc": (
        {"ecn": "on", "queue": "codel"}, "r2", [f"{NETEM} 10ms loss 2% ecn"],
        ["packets marked by the bottleneck must equal"],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    cases = {}
    for name, (axes, host, broken, _) in CASES.items():
        lines = [] if isinstance(broken, dict) else broken
        [swap] = broken.items() if isinstance(broken, dict) else [("", "")]
        cases[name] = (CONDITION | axes, host, lines, swap)
    folder = tmp_path_factory.mktemp("broken")
    return kit.in_guest(SCRIPT.format(cases=json.dumps(cases)), folder)


@pytest.mark.parametrize("name", CASES)
def test_broken_path_violates_exactly_its_own_check(found, name):
    axes, _, lines, expected = CASES[name]
    assert Condition.from_json(CONDITION | axes).problems() == []
    reasons = found[name]["reasons"]
    missing = [words for words in expected if not any(words in reason for reason in reasons)]
    assert not missing, reasons
    assert bool(reasons) == bool(lines), reasons


def test_path_mechanisms_count_their_packets(found):
    summary = found["nothing broken"]["summary"]
    for name in ("reordered_packets", "duplicate_packets", "ecn_marks"):
        assert summary[name] > 0
    assert summary["ecn_marks"] == summary["ce_received_packets"]
