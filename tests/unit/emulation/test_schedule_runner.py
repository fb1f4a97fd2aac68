"""Path schedules: changes of qdiscs; every check of a phase can fail."""

import dataclasses

import pytest

from losslab.emulation import schedule_runner
from losslab.emulation.plan import make_plan
from losslab.emulation.probes import QueueSample
from losslab.emulation.qdiscs import REVERSE_HANDLE
from losslab.emulation.schedule_runner import Boundary, ScheduleRunner
from tests.unit.study.test_condition import CONDITION

# A token bucket, whose rate tc changes; the list of an exact link's rates is the kernel's.
QUIET = dataclasses.replace(
    CONDITION, loss_percent=0, rtt_ms=20, rate_mbit=20, buffer_packets=50, duration_s=10,
    shaper="tbf",
)  # fmt: skip
SLOWER = "at_s=4,rate_mbit=2"
LINES = [("r2", "r2-receiver"), ("r2", "r2-r1")]


def plan(text, **more):
    return make_plan(dataclasses.replace(QUIET, changes=text, **more), 7)


def test_background_flows_keep_their_links_through_all_changes():
    """With a base RTT of their own, each change was found to have an unplanned qdisc."""
    found = plan("at_s=4,outage_s=1", flows="reno,rtt_ms=60")
    kept = [q for q in found.hosts["r1"].qdiscs if q.where.name == "r1-a1"]
    assert kept == [q for q in found.hosts_at_end["r1"].qdiscs if q.where.name == "r1-a1"] != []
    assert kept == found.background_qdiscs


def test_traffic_lasts_until_all_changes_are_made_or_one_failed():
    runner = ScheduleRunner(plan(SLOWER).parts["changes"], {})
    assert not runner.complete
    assert ScheduleRunner(runner.plan, {}, boundaries=[Boundary(4.0, 0.0, {})]).complete
    assert ScheduleRunner(runner.plan, {}, violations=["tc failed"]).complete


def test_goodput_is_bounded_by_the_mean_rate():
    # 4 s of 20 Mbit/s and 6 s of 2 Mbit/s; all but one round trip of the first second is left out.
    mean_mbit = plan(SLOWER).path_spec.effect.mean_rate_mbit
    assert mean_mbit == pytest.approx((3.02 * 20 + 6 * 2) / 9)
    assert not plan(SLOWER).path_spec.in_order


def state(packets=0, drops=0, qlen=0, back=(0, 0, 0), below=None):
    """Return the counters of both netem links, and of a bottleneck `below` the reverse one."""

    def line(name, packets, drops, qlen, handle="1:"):
        return {"dev": name, "handle": handle, "packets": packets, "drops": drops, "qlen": qlen}

    lines = [line("r2-receiver", packets, drops, qlen), line("r2-r1", *back)]
    lines += [line("r2-r1", *below, handle=REVERSE_HANDLE)] if below else []
    return {"r2": {"qdiscs": lines}}


def loss_violations(text, *states, **more):
    its = plan(text, **more).parts["changes"]
    read = [Boundary(0.0, 0.0, s) for s in states]
    return list(schedule_runner.loss_violations(its, read, 1514))


LOSSY = "at_s=4,loss_percent=1"


def test_phase_with_its_loss_rate_or_a_drop_list_is_valid():
    assert loss_violations(LOSSY, state(10), state(5_010), state(14_910, 100)) == []
    states = state(), state(5_000), state(14_800, 200)
    assert loss_violations(LOSSY, *states, drop_list="data 5") == []


def test_packets_that_the_reverse_bottleneck_drops_are_not_lost_at_random():
    before, after = state(below=(0, 0, 0)), state(5_000, back=(891, 9, 0), below=(891, 9, 0))
    later = state(14_900, 100, back=(1_791, 9, 0), below=(1_791, 9, 0))
    assert loss_violations(LOSSY, before, after, later) == []
    lost = state(14_900, 100, back=(1_790, 10, 0), below=(1_790, 9, 0))
    [reason] = loss_violations(LOSSY, before, after, lost)
    assert "on the reverse path from 4 s must be 0 %" in reason


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([state(), state(5_000, 1), state(14_900, 101)], "loss from 0 s must be 0 %"),
        ([state(), state(5_000), state(14_800, 200)], "loss from 4 s must be 1 %"),
        (
            [state(), state(5_000), state(14_900, 100, back=(900, 9, 0))],
            "on the reverse path from 4 s",
        ),
    ],
)
def test_phase_with_another_loss_rate_is_a_violation(states, words):
    [reason] = loss_violations(LOSSY, *states)
    assert words in reason


def test_outage_with_delivered_packets_is_a_violation():
    out = "at_s=4,outage_s=2"
    # Packets inside the netem link at the outage's start still arrive.
    begin = state(4_980, qlen=20, back=(980, 0, 20))
    end = state(5_000, 300, back=(1_000, 200, 0))
    assert loss_violations(out, state(), begin, end, end) == []
    leaky = state(5_010, 300, back=(1_000, 200, 0))
    [reason] = loss_violations(out, state(), begin, leaky, leaky)
    assert "loss from 4 s must be 100 %" in reason


def samples(*sent):
    return [QueueSample(t_s, 1, 1514, 0, octets) for t_s, octets in sent]


def test_phase_faster_than_its_rate_is_a_violation():
    its = plan(SLOWER).parts["changes"].phases
    made_s, bucket_bytes = [0.0, 4.01], 2 * 1514
    full = samples((4.1, 0), (5.1, 250_000 + bucket_bytes))
    assert list(schedule_runner.rate_violations(its, made_s, full, bucket_bytes)) == []
    more = samples((4.1, 0), (5.1, 260_000))
    [reason] = schedule_runner.rate_violations(its, made_s, more, bucket_bytes)
    assert "from 4 s the bottleneck must send at most 2 Mbit/s, found 2.080" in reason


def test_ping_faster_than_its_phase_is_a_violation():
    its = plan("at_s=4,rtt_ms=60+at_s=6,outage_s=1").parts["changes"].phases
    sound = [(3.0, 20.0), (3.99, 40.0), (4.5, 60.0), (5.98, 60.0), (8.0, 60.0)]
    made_s = [0.0, 4.01, 6.0, 7.0]
    assert list(schedule_runner.rtt_violations(its, made_s, sound, 0.01)) == []
    # A packet in flight during the change may belong to either phase.
    assert list(schedule_runner.rtt_violations(its, made_s, [(4.005, 40.0)], 0.01)) == []
    [reason] = schedule_runner.rtt_violations(its, made_s, [(4.5, 59.0)], 0.01)
    assert "RTTs from 4 s must be at least 60 ms, found 59 ms" in reason
    [reason] = schedule_runner.rtt_violations(its, made_s, [(6.5, 60.0)], 0.01)
    assert "no ping may be answered in the outage from 6 s" in reason


def test_missing_change_is_a_violation():
    made = ScheduleRunner(plan(SLOWER).parts["changes"], {})
    made.violations.append("the change at 4 s must precede the end")
    assert made.check({}, {}, [], [], 0.0, 3028) == made.violations


def test_flow_settles_at_most_of_the_new_rate():
    instants = [n / 10 for n in range(101)]
    # 20 Mbit/s until 4 s, nothing for 1 s, and then 2 Mbit/s.
    octets = [int(1e6 / 8 * (20 * min(t, 4) + 2 * max(0.0, t - 5))) for t in instants]
    delivered = schedule_runner.Deliveries(instants, octets)
    slow = plan(SLOWER).parts["changes"].phases[1]
    assert schedule_runner._settle_s(delivered, slow, 4.0, 2.0) == pytest.approx(0.8)
    assert schedule_runner._settle_s(delivered, slow, 4.0, 4.0) is None
    assert delivered.sampled_mbit(4.0, 4.01) is None


def test_first_acknowledgements_belong_to_the_phase_before():
    made = ScheduleRunner(plan("at_s=4,rtt_ms=60+at_s=6,rtt_ms=20").parts["changes"], {})
    assert [made._since_s(n) for n in range(3)] == pytest.approx([0.0, 4.06, 6.06])
