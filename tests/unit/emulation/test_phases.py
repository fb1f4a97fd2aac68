"""A path that changes: what becomes of its qdiscs, and every check of a phase can fail."""

import dataclasses
import json

import pytest

from losslab.emulation import changing
from losslab.emulation.changing import Boundary, Changing
from losslab.emulation.plan import make_plan
from losslab.emulation.probes.queue import QueueSample
from tests.unit.study.test_condition import CONDITION

QUIET = dataclasses.replace(
    CONDITION, loss_percent=0, rtt_ms=20, rate_mbit=20, buffer_packets=50, duration_s=10
)
SLOWER = "at_s=4,rate_mbit=2"
LINES = [("r2", "r2-receiver"), ("r2", "r2-r1")]


def plan(text, **more):
    return make_plan(dataclasses.replace(QUIET, changes=text, **more), 7)


def told(step):
    return [(q.where.name, q.kind) for q in step.becoming]


def test_only_what_changes_is_told_and_a_fifo_behind_the_rate_its_limit_again():
    [step] = plan(SLOWER).parts["changes"].steps
    assert told(step) == [("r1-r2", "tbf"), ("r1-r2", "pfifo")]
    assert (
        step.becoming[0]
        .changing()
        .startswith("qdisc change dev r1-r2 root handle 1: tbf rate 2000000bit")
    )
    assert "pfifo limit 50" in step.becoming[1].changing()
    [step] = plan(SLOWER, queue="red").parts["changes"].steps
    assert told(step) == [("r1-r2", "tbf")]


def test_delay_and_loss_change_both_lines_or_one_and_draw_anew():
    [step] = plan("at_s=4,rtt_ms=60").parts["changes"].steps
    assert told(step) == [("r2-receiver", "netem"), ("r2-r1", "netem")]
    assert all("delay 30000000ns" in q.arguments for q in step.becoming)
    one, two = plan("at_s=4,loss_percent=1+at_s=6,loss_percent=2").parts["changes"].steps
    assert told(one) == told(two) == [("r2-receiver", "netem")]
    assert one.becoming[0].expected["seed"] != two.becoming[0].expected["seed"]


def test_an_outage_loses_everything_both_ways_and_then_all_is_as_before():
    out, again = (
        plan("at_s=4,outage_s=2", loss_percent=1.0, loss_burst_packets=3.0).parts["changes"].steps
    )
    assert told(out) == told(again) == [("r2-receiver", "netem"), ("r2-r1", "netem")]
    assert all("loss random 100%" in q.arguments for q in out.becoming)
    assert "loss gemodel" in again.becoming[0].arguments
    assert "loss" not in again.becoming[1].arguments


def test_what_reads_back_in_the_end_is_the_last_phase():
    made = plan("at_s=4,rate_mbit=2+at_s=6,rate_mbit=20")
    at_first = made.hosts["r1"].qdiscs
    assert made.hosts_at_end["r1"].qdiscs == at_first
    made = plan(SLOWER)
    assert made.hosts_at_end["r1"].qdiscs[0].expected["rate"] == 250_000
    assert made.hosts_at_end["sender"].qdiscs == made.hosts["sender"].qdiscs
    assert made.hosts_at_end["r2"].qdiscs == made.hosts["r2"].qdiscs


def test_the_plan_of_a_path_that_does_not_change_says_nothing_of_it():
    assert "changes" not in make_plan(QUIET, 7).to_json()
    said = json.dumps(plan(SLOWER).to_json(), allow_nan=False)
    assert json.loads(said)["changes"]["phases"][-1]["end_s"] == 10.0


def test_goodput_is_bounded_by_the_mean_rate():
    # 4 s of 20 Mbit/s and 6 of 2, of which the first second, but for a round trip, does not count.
    promised = plan(SLOWER).promise.mean_rate_mbit
    assert promised == pytest.approx((3.02 * 20 + 6 * 2) / 9)
    assert not plan(SLOWER).promise.in_order


def state(packets=0, drops=0, qlen=0, back=(0, 0, 0)):
    def line(name, packets, drops, qlen):
        return {"dev": name, "handle": "1:", "packets": packets, "drops": drops, "qlen": qlen}

    return {"r2": {"qdiscs": [line("r2-receiver", packets, drops, qlen), line("r2-r1", *back)]}}


def loss_reasons(text, *states):
    its = plan(text).parts["changes"]
    read = [Boundary(0.0, 0.0, s) for s in states]
    return list(changing.loss_reasons(its, read))


LOSSY = "at_s=4,loss_percent=1"


def test_a_phase_that_loses_its_share_is_sound():
    assert loss_reasons(LOSSY, state(10), state(5_010), state(14_910, 100)) == []


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([state(), state(5_000, 1), state(14_900, 101)], "loss from 0 s must be 0 %"),
        ([state(), state(5_000), state(14_800, 200)], "loss from 4 s must be 1 %"),
        ([state(), state(5_000), state(14_900, 100, back=(900, 9, 0))], "on the way back from 4 s"),
    ],
)
def test_a_phase_that_loses_another_share_is_refused(states, words):
    [reason] = loss_reasons(LOSSY, *states)
    assert words in reason


def test_an_outage_must_lose_all_that_comes():
    out = "at_s=4,outage_s=2"
    # What was in the line when it began still arrives.
    begin = state(4_980, qlen=20, back=(980, 0, 20))
    end = state(5_000, 300, back=(1_000, 200, 0))
    assert loss_reasons(out, state(), begin, end, end) == []
    leaky = state(5_010, 300, back=(1_000, 200, 0))
    [reason] = loss_reasons(out, state(), begin, leaky, leaky)
    assert "loss from 4 s must be 100 %" in reason


def samples(*sent):
    return [QueueSample(t_s, 1, 1514, 0, octets) for t_s, octets in sent]


def test_no_phase_may_send_faster_than_its_rate():
    its = plan(SLOWER).parts["changes"].phases
    assert list(changing.rate_reasons(its, [0.0, 4.01], samples((4.1, 0), (5.1, 250_000)))) == []
    [reason] = changing.rate_reasons(its, [0.0, 4.01], samples((4.1, 0), (5.1, 260_000)))
    assert "from 4 s the bottleneck must send at most 2 Mbit/s, found 2.080" in reason


def test_no_ping_may_be_faster_than_its_phase():
    its = plan("at_s=4,rtt_ms=60+at_s=6,outage_s=1").parts["changes"].phases
    sound = [(3.0, 20.0), (3.99, 40.0), (4.5, 60.0), (5.98, 60.0), (8.0, 60.0)]
    made_s = [0.0, 4.01, 6.0, 7.0]
    assert list(changing.rtt_reasons(its, made_s, sound, 0.01)) == []
    # One that was on its way while the change was made may be of either kind.
    assert list(changing.rtt_reasons(its, made_s, [(4.005, 40.0)], 0.01)) == []
    [reason] = changing.rtt_reasons(its, made_s, [(4.5, 59.0)], 0.01)
    assert "RTTs from 4 s must be at least 60 ms, found 59 ms" in reason
    [reason] = changing.rtt_reasons(its, made_s, [(6.5, 60.0)], 0.01)
    assert "no ping may come back in the outage from 6 s" in reason


def test_a_change_that_was_not_made_is_a_reason():
    made = Changing(plan(SLOWER).parts["changes"], {})
    made.reasons.append("the change at 4 s must be made, found that the traffic had ended")
    assert made.judge({}, {}, [], [], 0.0) == made.reasons


def test_a_flow_settles_when_it_has_most_of_the_new_rate():
    instants = [n / 10 for n in range(101)]
    # 20 Mbit/s until 4 s, nothing for 1 s, and then 2.
    octets = [int(1e6 / 8 * (20 * min(t, 4) + 2 * max(0.0, t - 5))) for t in instants]
    delivered = changing.Deliveries(instants, octets)
    slow = plan(SLOWER).parts["changes"].phases[1]
    assert changing._settle_s(delivered, slow, 4.0, 2.0) == pytest.approx(0.8)
    assert changing._settle_s(delivered, slow, 4.0, 4.0) is None
    assert delivered.sampled_mbit(4.0, 4.01) is None


def test_what_is_acknowledged_first_passed_the_bottleneck_before_the_change():
    made = Changing(plan("at_s=4,rtt_ms=60+at_s=6,rtt_ms=20").parts["changes"], {})
    assert [made._since_s(n) for n in range(3)] == pytest.approx([0.0, 4.06, 6.06])
