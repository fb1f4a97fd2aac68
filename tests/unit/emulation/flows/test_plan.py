"""Background flows of a value of the axis `flows` and a seed."""

import dataclasses
import itertools
import json
import statistics

import pytest

from losslab.emulation.accounting import CounterDeltas
from losslab.emulation.flows import outcome
from losslab.emulation.flows import plan as planning
from losslab.emulation.flows.feature import RTTS_MAX
from losslab.emulation.plan import make_plan, sample_interval_s
from losslab.emulation.topology import INTERFACES
from tests.unit.emulation.test_checks import TRAFFIC
from tests.unit.study.test_condition import CONDITION


def streams(flows, seed=7, **more):
    condition = dataclasses.replace(CONDITION, **({"duration_s": 10.0} | more), flows=flows)
    return planning.plan_background_flows(condition, seed, 0).streams


def test_start_times_and_no_algorithms_are_drawn_from_the_seed():
    assert streams("same,count=3") == streams("same,count=3") != streams("same,count=3", seed=8)
    assert len({s.start_s for s in streams("same,count=50")}) == 50
    flows = "bbr,arrivals_per_s=0.001,size_kb=1+same"
    condition = dataclasses.replace(CONDITION, flows=flows, duration_s=5.0)
    assert make_plan(condition, 0).algorithms == {"cubic", "bbr"}


def test_any_flow_may_start_first():
    """Foreground flow among four that start together: each rank in 1/4 of the seeds."""
    condition = dataclasses.replace(CONDITION, rtt_ms=50.0, duration_s=10.0, flows="same,count=3")
    places = [0] * 4
    for seed in range(800):
        plan = make_plan(condition, seed)
        # The data connection opens four round trips after the program's start.
        own_s = plan.starts[0].at_s + 4 * 0.05
        others = [stream.start_s for stream in plan.background.streams]
        assert all(0.3 <= start_s <= 0.4 for start_s in [own_s, *others])
        places[sum(start_s < own_s for start_s in others)] += 1
    # Binomial count of 800 draws with probability 1/4: 200, within four standard deviations.
    assert all(abs(count - 200) < 49 for count in places)


def test_arrivals_are_a_poisson_process():
    found = [s for seed in range(20) for s in streams("same,arrivals_per_s=50,size_kb=10", seed)]
    # 9,900 are expected because none starts in the first 0.1 s; within four standard deviations.
    assert abs(len(found) - 9_900) < 398
    gaps = [b.start_s - a.start_s for a, b in itertools.pairwise(found)]
    gaps = [gap for gap in gaps if gap > 0]
    assert statistics.fmean(gaps) == pytest.approx(0.02, rel=0.05)
    assert statistics.pstdev(gaps) == pytest.approx(0.02, rel=0.1)
    assert {s.size_bytes for s in found} == {10_000}
    assert all(s.short for s in found)


@pytest.mark.parametrize(("sizes", "median_kb"), [("exponential", 6.93), ("pareto", 3.42)])
def test_sizes_of_short_flows_have_the_specified_mean(sizes, median_kb):
    quantiles = [(number + 0.5) / 200_000 for number in range(200_000)]
    if sizes == "pareto":
        found = [planning.pareto(u, 10.0) for u in quantiles]
        assert planning.pareto(1.0, 10.0) / planning.pareto(0.0, 10.0) == pytest.approx(1000)
        assert statistics.fmean(found) == pytest.approx(10.0, rel=0.01)
        assert statistics.median(found) == pytest.approx(median_kb, rel=0.01)
    drawn = [
        s.size_bytes
        for seed in range(20)
        for s in streams(f"same,arrivals_per_s=400,size_kb=10,sizes={sizes}", seed)
    ]
    assert statistics.median(drawn) == pytest.approx(1000 * median_kb, rel=0.03)


def test_senders_arguments_have_every_flow_within_the_limit():
    condition = dataclasses.replace(CONDITION, duration_s=10.0, flows="same,count=1000")
    made = planning.plan_background_flows(condition, 7, 0)
    command = made.callers(123, 0.0)[0].command
    assert command[:5] == ["python3", "-m", "losslab.emulation.flows.program", "send", "5300"]
    assert command[5] == "123"
    flows_sent = [values for chunk in command[6:] for values in json.loads(chunk)]
    assert len(flows_sent) == 1000
    assert max(map(len, command)) < 128 * 1024
    first = made.streams[0]
    assert flows_sent[0][1:4] == [first.source_port, first.destination, first.algorithm]


def test_many_flows_are_sampled_less_often():
    assert sample_interval_s(1000) == sample_interval_s(1000, 20) == 0.02
    assert sample_interval_s(1000, 50) == 0.05
    assert sample_interval_s(1000, 500) == 0.1


OWN = dataclasses.replace(
    CONDITION, duration_s=10.0, rtt_ms=20.0, flows="same,rtt_ms=80,count=3+bbr,rtt_ms=50+same"
)


def counters(made, packets, drops=0):
    """Return the counters of all hosts: each link has carried, and each qdisc dropped, as many."""
    ends = [*INTERFACES, *made.background.network.ends]
    sides = {side: {"packets": packets} for side in ("rx", "tx")}
    return {
        host: {
            "links": {end.name: sides for end in ends if end.host == host},
            "qdiscs": [
                {"dev": q.where.name, "handle": q.handle, "drops": drops} for q in its.qdiscs
            ],
        }
        for host, its in made.hosts.items()
    }


def test_access_links_have_unique_names_and_networks():
    many = dataclasses.replace(
        OWN, flows="+".join(f"same,rtt_ms={20 + n}" for n in range(1, RTTS_MAX + 1))
    )
    assert many.problems() == []
    links = list(planning.access_links(many).values())
    ends = [*INTERFACES, *(end for both in links for end in both)]
    for values in ([e.name for e in ends], [e.address for e in ends], [e.mac for e in ends]):
        assert len(set(values)) == len(ends)
    assert max(len(e.name) for e in ends) <= 15
    one_more = dataclasses.replace(many, flows=f"{many.flows}+same,rtt_ms=500")
    assert one_more.problems() == [
        "flows: the number of different rtt_ms must be at most 50, found 51"
    ]


LOT = dataclasses.replace(
    OWN,
    rate_mbit=20.0,
    second_rate_mbit=10.0,
    queue="codel",
    loss_percent=1.0,
    flows="same,over=first+same,over=second+same,rtt_ms=50",
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (OWN, {"received_back": 14}),
        (LOT, {"sent": 7, "received": 7, "received_back": 14, "bottleneck_drops": 2,
               "loss_drops": 2, "sender_drops": 2}),
    ],
)  # fmt: skip
def test_packets_of_every_route_are_accounted_for(condition, expected):
    made = make_plan(condition, 7)
    deltas = CounterDeltas(counters(made, 5), counters(made, 12, 2))
    found = dataclasses.asdict(outcome.of_all_links(TRAFFIC, made.background, deltas))
    before = dataclasses.asdict(TRAFFIC)
    del found["queued"], before["queued"]
    assert {n: v - before[n] for n, v in found.items() if v != before[n]} == expected
    links = outcome.link_metrics(made.background, TRAFFIC, deltas)
    assert links.get("second_bottleneck_drops") == (2 if condition is LOT else None)
    assert "bottleneck_loss_percent" in links
