"""Background flows of a value of the axis `flows` and a seed."""

import dataclasses
import itertools
import json
import statistics

import pytest

from losslab.emulation.background import plan as background
from losslab.emulation.plan import make_plan, sample_interval_s
from tests.unit.study.test_condition import CONDITION


def streams(flows, seed=7, **more):
    condition = dataclasses.replace(CONDITION, **({"duration_s": 10.0} | more), flows=flows)
    return background.plan_background_flows(condition, seed, 0).streams


def test_condition_without_background_flows_keeps_its_plan():
    made = make_plan(CONDITION, 7)
    assert made.background is None
    assert "crowd" not in made.to_json()
    assert made.programs == made.flows


def test_each_flow_has_its_algorithm_start_end_and_port():
    first, *others = streams("same,count=2,every_s=3+bbr,start_s=1,end_s=5,size_kb=30")
    assert [s.algorithm for s in [first, *others]] == [CONDITION.algorithm, "bbr", "cubic"]
    starts = [s.start_s for s in [first, *others]]
    assert [int(start * 10) / 10 for start in starts] == [0.1, 1.0, 3.0]
    assert [s.end_s for s in [first, *others]] == [10.0, 5.0, 10.0]
    assert [s.size_bytes for s in [first, *others]] == [None, 30_000, None]
    assert [s.bulk for s in [first, *others]] == [True, False, True]
    assert [s.source_port for s in [first, *others]] == [10_001, 10_002, 10_003]


def test_start_times_are_drawn_from_the_seed():
    assert streams("same,count=3") == streams("same,count=3")
    assert streams("same,count=3") != streams("same,count=3", seed=8)
    assert len({s.start_s for s in streams("same,count=50")}) == 50


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


def test_flow_without_background_flows_starts_at_once():
    assert make_plan(CONDITION, 7).starts[0].at_s == 0.0


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
        found = [background.pareto(u, 10.0) for u in quantiles]
        assert background.pareto(1.0, 10.0) / background.pareto(0.0, 10.0) == pytest.approx(1000)
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
    made = background.plan_background_flows(condition, 7, 0)
    command = made.caller(123).command
    assert command[:5] == ["python3", "-m", "losslab.emulation.background.program", "send", "5300"]
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


def test_algorithms_of_flows_do_not_depend_on_the_seed():
    condition = dataclasses.replace(
        CONDITION, flows="bbr,arrivals_per_s=0.001,size_kb=1+same", duration_s=5.0
    )
    assert make_plan(condition, 0).algorithms == {"cubic", "bbr"}


def test_flows_with_a_trace_are_refused():
    """Background flows bypassed the trace-driven link: 722 Mbit/s beside 5, in a valid run."""
    condition = dataclasses.replace(CONDITION, flows="same", trace="cellular", rtt_ms=40)
    [problem] = condition.problems()
    assert "flows need a path without a trace" in problem
    assert dataclasses.replace(condition, flows="none", competitor="bbr").problems() == []
