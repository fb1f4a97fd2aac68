"""Checks of measurements in real time; no root needed."""

import dataclasses

import pytest

from losslab.emulation.plan import make_plan
from losslab.emulation.probes import QueueSample
from losslab.tools.realtime import watch as realtime
from tests.unit.study.test_condition import BARE, CONDITION

BYTES_PER_S = 10e6 / 8

BEFORE = """cpu  400 0 0 0 0 0 0 0 0 0
cpu0 100 0 100 1000 0 0 10 0 0 0
cpu1 100 0 100 1000 0 0 10 0 0 0
intr 1
"""
AFTER = """cpu  400 0 0 0 0 0 0 0 0 0
cpu0 120 0 110 1060 0 0 20 0 0 0
cpu1 140 0 130 1000 0 0 40 0 0 0
"""

CALM = realtime.Findings(
    busy_before=0.01, steal=0.0, busy=0.5, softirq=0.2, late_median_ms=0.05, late_p99_ms=0.2,
    late_max_ms=1.0, rtt_excess_median_ms=0.1, rtt_excess_p95_ms=0.6, rate_share=1.0,
)  # fmt: skip


def path_spec(condition):
    return make_plan(condition, 7).path_spec


def found(condition=BARE, **changes):
    return [
        r.split(" must ")[0]
        for r in dataclasses.replace(CALM, **changes).violations(path_spec(condition))
    ]


def test_busy_machine_is_a_violation_in_real_time():
    assert found() == []
    assert found(busy_before=0.5) == ["CPU time of other programs before the cell"]
    assert found(steal=0.1) == ["steal time of a CPU"]
    assert found(busy=0.95) == ["utilisation of a CPU"]


def test_slow_path_is_a_violation_even_with_idle_cpus():
    """Checks pass or fail as on an emulated machine: 55 % busy, no steal time, goodput 21 % off."""
    slow = dataclasses.replace(BARE, rate_mbit=5, rtt_ms=40)
    violations = found(
        slow, busy=0.55, rate_share=0.896, rtt_excess_p95_ms=80.8, late_p99_ms=26.7,
        late_max_ms=91.7,
    )  # fmt: skip
    assert violations == [
        "the bottleneck", "the RTT beyond base RTT and queueing delay (95th percentile)",
        "the lateness of timers (99th percentile)",
    ]  # fmt: skip
    assert found(slow, late_max_ms=564.0) == ["the lateness of timers (maximum)"]


def test_tolerated_lateness_depends_on_the_path():
    far = dataclasses.replace(BARE, rate_mbit=1, rtt_ms=160)
    assert realtime.lateness_max_ms(path_spec(far)) == 16
    assert realtime.lateness_max_ms(path_spec(BARE)) == pytest.approx(
        1.2112
    )  # the time of a frame at 10 Mbit/s
    assert realtime.lateness_max_ms(path_spec(CONDITION)) == realtime.LATE_LIMIT_MIN_MS
    late = {"late_p99_ms": 11.0, "rtt_excess_p95_ms": 20.0}
    assert found(far, **late) == []
    assert len(found(dataclasses.replace(far, rtt_ms=40), **late)) == 2


def test_load_is_that_of_the_busiest_cpu():
    watch = realtime.Watch.__new__(realtime.Watch)
    watch._busy_before, watch._late_ms = 0.02, [3.0, 1.0, 2.0]
    watch._begin, watch._end = realtime.parse_cpu_times(BEFORE), realtime.parse_cpu_times(AFTER)
    findings = watch.findings(path_spec(BARE), 0.05, [], [])
    assert findings.busy == pytest.approx(1.0)
    assert findings.softirq == pytest.approx(0.3)
    assert findings.steal == 0
    assert (findings.late_median_ms, findings.late_max_ms) == (2.0, 3.0)
    assert findings.rate_share is None


@pytest.mark.alone
def test_watch_measures_load_and_timer_lateness_of_its_block(monkeypatch):
    monkeypatch.setattr(realtime, "QUIET_S", 0.0)
    with realtime.Watch() as watch:
        realtime.time.sleep(5 * realtime.WAKE_INTERVAL_S)
    assert watch._timers.poll() == 0
    assert len(watch._late_ms) >= 2
    assert all(late >= 0 for late in watch._late_ms)


def queue(share=1.0, backlog_packets=20, samples=41):
    """Return samples every 20 ms of a bottleneck in which `backlog_packets` wait."""
    return [
        QueueSample(n * 0.02, backlog_packets, backlog_packets * 1514, 0,
                    round(share * n * 0.02 * BYTES_PER_S))
        for n in range(samples)
    ]  # fmt: skip


def test_rate_is_measured_only_with_a_standing_queue():
    assert realtime.rate_share(path_spec(BARE), queue()) == pytest.approx(1.0, abs=1e-3)
    assert realtime.rate_share(path_spec(BARE), queue(share=0.9)) == pytest.approx(0.9, abs=1e-3)
    # 20 ms of this rate are 16.5 packets: with a shorter queue, the link may have been idle.
    assert realtime.rate_share(path_spec(BARE), queue(share=0.5, backlog_packets=16)) is None
    assert realtime.rate_share(path_spec(BARE), queue(samples=20)) is None


def test_excess_rtt_is_beyond_path_and_queue():
    waits_ms = (20 - 0.5) * 1514 * 8 / 10e6 * 1e3
    replies = [(0.02, 0.05 + waits_ms), (0.04, 0.05 + waits_ms + 3)]
    excess = realtime.rtt_excess_ms(path_spec(BARE), 0.05, replies, queue())
    assert excess == pytest.approx([0.0, 3.0])
    assert (
        realtime.rtt_excess_ms(
            path_spec(dataclasses.replace(BARE, queue="codel")), 0.05, replies, queue()
        )
        == []
    )
    assert realtime.rtt_excess_ms(path_spec(BARE), None, replies, queue()) == []
