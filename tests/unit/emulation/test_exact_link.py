"""The exact link: its lists, its checks, and its record as a trace's log."""

import dataclasses

import pytest

from losslab.emulation import accounting, checks, schedule_runner
from losslab.emulation.goodput import Goodput
from losslab.emulation.link.exact import link_of, log_lines
from losslab.emulation.plan import make_plan
from losslab.emulation.probes import QueueSample
from losslab.emulation.qdiscs import LOSES, UNLIMITED, Link, LinkCount, LinkStep, link
from losslab.emulation.topology import bottleneck
from losslab.errors import LosslabError
from losslab.study.schedule import Phase
from losslab.tools.paths import to_tc
from tests.unit.emulation.test_checks import EVIDENCE
from tests.unit.study.test_condition import CONDITION

QUIET = dataclasses.replace(
    CONDITION, loss_percent=0, rtt_ms=20, rate_mbit=2, buffer_packets=50, duration_s=10,
    shaper="link",
)  # fmt: skip
S = 10**9


def plan(**more):
    condition = dataclasses.replace(QUIET, **more)
    assert condition.problems() == []
    return make_plan(condition, 7)


def links(its):
    return [q for host in its.hosts.values() for q in host.qdiscs if isinstance(q, Link)]


def bottleneck_steps(**more):
    [found] = [its for its in links(plan(**more)) if its.where == bottleneck() and its.steps]
    return [(step.at_ns, step.rate, step.flags) for step in found.steps]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([(1, 10)], "from 0, found 1e-09 s"),
        ([(0, 10), (2 * S, 5), (S, 7)], "in ascending order of time, from 0, found 0 s, 2 s, 1 s"),
        ([(0, 10), (S, 5), (S, 7)], "in ascending order"),
        ([(0, 10), (S, 0)], "a pause without an end from 1 s"),
    ],
)
def test_list_that_the_kernel_would_refuse_is_refused(steps, words):
    with pytest.raises(LosslabError, match=words):
        link(bottleneck(), [LinkStep(*step) for step in steps])


def test_each_rate_of_a_path_is_that_of_an_exact_link():
    its = plan(reverse_rate_mbit=0.5)
    assert [(q.where.name, q.parent, q.steps[0].rate) for q in links(its)] == [
        ("r1-r2", "root", 2_000_000), ("r2-r1", "parent 1:1", 500_000),
    ]  # fmt: skip
    second = links(plan(second_rate_mbit=1.5, flows="cubic"))
    assert [(q.where.name, q.steps[0].rate) for q in second] == [
        ("r1-r2", 2_000_000), ("r2-r4", 1_500_000),
    ]  # fmt: skip
    kinds = {q.kind for host in its.hosts.values() for q in host.qdiscs}
    assert "tbf" not in kinds


def test_schedule_is_one_list_and_changes_qdiscs_only_for_delay_and_loss():
    text = "at_s=2,rate_mbit=1+at_s=4,outage_s=1.5+at_s=7,rtt_ms=40+at_s=8,rate_mbit=3"
    assert bottleneck_steps(changes=text) == [
        (0, 2_000_000, 0), (2 * S, 1_000_000, 0), (4 * S, 1_000_000, LOSES),
        (5_500_000_000, 1_000_000, 0), (7 * S, 1_000_000, 0), (8 * S, 3_000_000, 0),
        (10 * S, 3_000_000, 0),
    ]  # fmt: skip
    its = plan(changes=text)
    [step] = its.parts["changes"].steps
    assert step.phase.begin_s == 7
    assert {q.kind for q in step.becoming} == {"netem"}
    assert [(s.begin_s, s.end_s) for s in its.parts["changes"].spans] == [(0, 7), (7, 10)]
    # Acknowledgements are lost where they leave the receiver.
    first, back = its.timed_links
    assert first.where == bottleneck()
    assert back.where.host == "receiver"
    flags = [(step.rate, step.flags) for step in back.steps]
    assert flags == [(UNLIMITED, LOSES if n == 2 else 0) for n in range(7)]


def test_pauses_have_a_rate_of_0_and_no_limit_of_their_number():
    steps = bottleneck_steps(pauses="per_s=100,min_ms=1,max_ms=5")
    assert [rate for _, rate, _ in steps] == [2_000_000, 0] * (len(steps) // 2 - 1) + [
        2_000_000
    ] * 2
    assert len(steps) > 1000
    with_tbf = dataclasses.replace(QUIET, pauses="per_s=100,min_ms=1,max_ms=5", shaper="tbf")
    assert "pauses need the shaper link, found tbf" in " ".join(with_tbf.problems())


def test_changes_less_than_1_ns_apart_are_refused():
    condition = dataclasses.replace(
        QUIET, changes="at_s=2,rate_mbit=1+at_s=2.0000000001,rate_mbit=3"
    )
    assert "at least 1 ns apart" in " ".join(condition.problems())


@pytest.mark.parametrize(
    ("rtt_ms", "changes"),
    [(0.0, "at_s=1,rtt_ms=5"), (0.0, "at_s=1,rate_mbit=5"), (5.0, "at_s=1,rtt_ms=0")],
)
@pytest.mark.parametrize("shaper", ["link", "tbf"])
def test_changes_of_a_path_that_has_no_delay_for_a_time_are_refused(rtt_ms, changes, shaper):
    condition = dataclasses.replace(
        CONDITION, loss_percent=0, rtt_ms=rtt_ms, changes=changes, shaper=shaper
    )
    assert "changes need an rtt_ms above 0 all the time" in " ".join(condition.problems())


def test_settings_that_differ_are_found():
    made = link(bottleneck(), [LinkStep(0, 2_000_000), LinkStep(S, 1_000_000)])
    state = {"rates": {"r1-r2 1:": [[0, 2_000_000, 0, 9, 9, 0], [S, 1_000_000, 0, 1, 1, 0]]}}
    assert made.deviations(state) == []
    assert made.counts(state)[1] == LinkCount(1, 1, 0)
    state["rates"]["r1-r2 1:"][1][1] = 1_000_001
    assert "must have steps" in made.deviations(state)[0]


def found(its, **more):
    evidence = dataclasses.replace(EVIDENCE, path_spec=its.path_spec, **more)
    return " ".join(checks.violations(evidence))


def test_goodput_has_no_allowance_for_a_bucket():
    """In 10 ms, one packet is 1.2 Mbit/s, and the bucket of two frames 2.4."""
    short = [Goodput(3.21, 0.01)]
    assert "with one packet, 1500 bytes" in found(plan(), goodputs=short, rtt_ms=20.4)
    assert "goodput" not in found(plan(shaper="tbf"), goodputs=short, rtt_ms=20)


def test_no_window_carries_more_than_the_rates_of_its_list_and_one_packet():
    """8 Mbit/s for a second, a pause of one, and 4 Mbit/s: a window's bound is that of its part."""
    rates = [LinkStep(0, 8_000_000), LinkStep(S, 0), LinkStep(2 * S, 4_000_000)]

    def ahead(*points):
        queue = [QueueSample(t_s, 0, 0, 0, sent_bytes=octets) for t_s, octets in points]
        return checks.excess_bytes(rates, queue)

    assert ahead((-0.1, 0), (0.9, 1_000_000)) == 0
    assert ahead((0.5, 0), (1.5, 501_514)) == 1514
    assert ahead((0.5, 0), (2.5, 750_000)) == 0
    # What was not sent before a window cannot be made up for in it.
    assert ahead((0.5, 0), (2.0, 0), (2.5, 250_000), (2.6, 303_000)) == 3000
    # 1514 bytes take 605,600 ns at 20 Mbit/s; in floats, the sums of such times are a little off.
    rates = [LinkStep(0, 20_000_000)]
    full = [(number * 605_600 / 1e9, (number + 1) * 1514) for number in range(1, 1000)]
    assert ahead((0.0, 0), *full) == 1514
    its = plan()
    queue = [QueueSample(1, 0, 0, 0, 0), QueueSample(2, 0, 0, 0, 251_515)]
    words = "one packet of 1514 bytes, found 1515 bytes more"
    assert words in found(its, rates=its.rates, queue=queue, rtt_ms=20.392)
    queue[1] = QueueSample(2, 0, 0, 0, 251_514)
    assert "no window" not in found(its, rates=its.rates, queue=queue, rtt_ms=20.392)


def test_ping_takes_its_bytes_over_each_rate_on_the_idle_path():
    """98 bytes over 2 Mbit/s take 0.392 ms, and over 0.5 Mbit/s 1.568 ms."""
    assert "RTT of the idle path must be 20.392 ms, found 20 ms" in found(plan(), rtt_ms=20)
    assert "RTT" not in found(plan(), rtt_ms=20.392)
    assert "RTT" not in found(plan(reverse_rate_mbit=0.5), rtt_ms=20.392 + 1.568)
    assert "RTT" not in found(plan(second_rate_mbit=2, flows="cubic"), rtt_ms=20.784)
    assert "RTT" not in found(plan(ip_version=6), rtt_ms=20.472)
    assert "RTT" not in found(plan(shaper="tbf"), rtt_ms=20)


def test_phase_carries_its_rate_and_one_packet_and_an_outage_loses_all():
    phases = [Phase(0, 1, {"rate_mbit": 8}), Phase(1, 2, {"rate_mbit": 8}, outage=True)]

    def violations(octets, lost):
        counts = [LinkCount(700, octets, 0), LinkCount(5, 7_000, lost)]
        return list(schedule_runner.step_violations(phases, counts, 1514))

    assert violations(1_001_514, 5) == []
    assert "at most 8 Mbit/s for 1 s and a packet, found 1001515" in violations(1_001_515, 5)[0]
    assert "must lose all of 5 packets, found 4 lost" in violations(9, 4)[0]


def test_packets_lost_in_outages_are_counted_as_lost():
    def state(lost):
        its = {"r1-r2": lost, "receiver-r2": 2 * lost}
        return {
            host: {"rates": {f"{name} 1:": [[0, 1, 1, 9, 9, its[name]]]}}
            for host, name in (("r1", "r1-r2"), ("receiver", "receiver-r2"))
        }

    deltas = accounting.CounterDeltas(state(0), state(7))
    assert deltas.lost(bottleneck()) == 7


def test_trace_has_the_kernels_own_queue_and_a_band_for_what_bypasses_the_link():
    its = plan(trace="cellular", trace_back="cellular", queue="cake", ecn="on", rate_mbit=1000)
    first, *others = its.hosts["r1"].qdiscs
    assert first.steps == (LinkStep(0, UNLIMITED),)
    assert [(q.kind, q.parent) for q in others] == [
        ("prio", "parent 1:1"), ("pfifo", "parent 40:1"), ("link", "parent 40:2"),
        ("cake", "parent 42:1"),
    ]  # fmt: skip
    assert link_of(its, "data").handle == "42:"
    assert link_of(its, "back").where.name == "r2-r1"


def test_record_of_a_link_becomes_the_log_of_a_trace():
    record = [
        "1999999 + 1514", "3000000 - 1514 2000000 1999999", "3100000 + 66",
        "3100000 d 1580 2", "5000000 x 66 4000000 3100000",
    ]  # fmt: skip
    assert list(log_lines(record, 1)) == [
        "0 + 1500", "2 - 1500 2", "2 + 52", "2 d 2 1552", "4 - 52 2",
    ]  # fmt: skip


def test_script_for_a_router_has_a_token_bucket_and_says_so():
    text = to_tc.script(dataclasses.replace(QUIET, reverse_rate_mbit=0.5))
    assert text.count(" tbf rate ") == 2
    assert not any(" link" in line for line in text.splitlines() if "tc qdisc" in line)
    assert "# Not carried: shaper=link." in text
