"""What is judged in real time; no root needed."""

import contextlib
import dataclasses
import types

import pytest

from losslab.emulation import measure, realtime
from losslab.emulation.plan import make_plan
from losslab.emulation.probes.queue import QueueSample
from losslab.emulation.shaping import shapers
from losslab.emulation.topology import HOSTS
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


def promise(condition):
    return make_plan(condition, 7).promise


def found(condition=BARE, **changes):
    return [
        r.split(" (")[0] for r in dataclasses.replace(CALM, **changes).reasons(promise(condition))
    ]


def test_a_quiet_machine_is_fine_and_a_shared_one_is_not():
    assert found() == []
    assert found(busy_before=0.5) == ["other programs must leave the processors alone"]
    assert found(steal=0.1) == ["the machine's own host must not take its processors"]
    assert found(busy=0.95) == ["no processor may be the bottleneck: busy"]


def test_a_path_that_is_not_kept_is_refused_though_the_processors_look_idle():
    """As an emulated machine did: 55 % busy, nothing stolen, goodput 21 % off."""
    slow = dataclasses.replace(BARE, rate_mbit=5, rtt_ms=40)
    reasons = found(
        slow, busy=0.55, rate_share=0.896, rtt_excess_p95_ms=80.8, late_p99_ms=26.7,
        late_max_ms=91.7,
    )  # fmt: skip
    assert [reason.split(" must ")[0] for reason in reasons] == [
        "the bottleneck", "pings in the traffic", "timers",
    ]  # fmt: skip
    assert found(slow, late_max_ms=564.0) == ["timers must be on time, the latest"]


def test_how_late_is_too_late_depends_on_the_path():
    far = dataclasses.replace(BARE, rate_mbit=1, rtt_ms=160)
    assert realtime.lateness_max_ms(promise(far)) == 16
    assert realtime.lateness_max_ms(promise(BARE)) == pytest.approx(1.2112)  # a frame at 10 Mbit/s
    assert realtime.lateness_max_ms(promise(CONDITION)) == realtime.LATE_LEAST_MS
    late = {"late_p99_ms": 11.0, "rtt_excess_p95_ms": 20.0}
    assert found(far, **late) == []
    assert len(found(dataclasses.replace(far, rtt_ms=40), **late)) == 2


def test_where_nothing_tells_nothing_is_refused():
    assert found(rate_share=None, rtt_excess_p95_ms=None, late_p99_ms=None, late_max_ms=None) == []


def test_load_is_of_the_busiest_processor():
    watch = realtime.Watch.__new__(realtime.Watch)
    watch._busy_before, watch._late_ms = 0.02, [3.0, 1.0, 2.0]
    watch._begin, watch._end = realtime.parse_ticks(BEFORE), realtime.parse_ticks(AFTER)
    findings = watch.findings(promise(BARE), 0.05, [], [])
    assert findings.busy == pytest.approx(1.0)
    assert findings.softirq == pytest.approx(0.3)
    assert findings.steal == 0
    assert (findings.late_median_ms, findings.late_max_ms) == (2.0, 3.0)
    assert findings.rate_share is None


@pytest.mark.alone
def test_a_watch_sees_what_lies_between_its_ends_and_how_late_timers_are(monkeypatch):
    monkeypatch.setattr(realtime, "QUIET_S", 0.0)
    with realtime.Watch() as watch:
        realtime.time.sleep(5 * realtime.WAKE_INTERVAL_S)
    assert watch._timers.poll() == 0
    assert len(watch._late_ms) >= 2
    assert all(late >= 0 for late in watch._late_ms)


class Recorder:
    """A watch that notes when it is entered and left."""

    def __init__(self, events):
        self.events = events

    def __enter__(self):
        self.events.append("watch")

    def __exit__(self, *_):
        self.events.append("end of watch")


def test_only_what_lies_between_a_path_that_is_set_up_and_the_end_of_traffic_is_judged(
    monkeypatch, tmp_path
):
    events = []

    class EnoughError(Exception):
        pass

    def event(name, value=None):
        def note(*words):
            events.append(name)
            return value

        return note

    @contextlib.contextmanager
    def hosts(*words):
        events.append("hosts")
        yield {name: types.SimpleNamespace(pid=1) for name in HOSTS}

    def settled(*words):
        raise EnoughError

    monkeypatch.setattr(measure.hosts, "require_algorithms", event("algorithms"))
    monkeypatch.setattr(measure, "emulated_hosts", hosts)
    monkeypatch.setattr(measure.batch, "handles", lambda _: contextlib.nullcontext({}))
    monkeypatch.setattr(measure.hosts, "apply", event("set up"))
    monkeypatch.setattr(measure.hosts, "shape", event("shaped"))
    monkeypatch.setattr(measure, "_ping_idle", event("ping"))
    monkeypatch.setattr(measure.hosts, "read_back", event("read back"))
    monkeypatch.setattr(measure.traffic, "run", event("traffic"))
    monkeypatch.setattr(measure.hosts, "read_back_settled", settled)
    with measure.stage(BARE) as ready, pytest.raises(EnoughError):
        measure.measure(ready, 7, tmp_path, watch=Recorder(events))
    begin, end = events.index("watch"), events.index("end of watch")
    assert events[:begin] == ["algorithms", "hosts", "set up", "shaped"]
    assert events[end - 1] == "traffic"


def queue(share=1.0, backlog_packets=20, samples=41):
    """A bottleneck that is sampled every 20 ms while `backlog_packets` wait."""
    return [
        QueueSample(n * 0.02, backlog_packets, backlog_packets * 1514, 0,
                    round(share * n * 0.02 * BYTES_PER_S))
        for n in range(samples)
    ]  # fmt: skip


def test_the_rate_is_told_while_packets_wait_and_only_then():
    assert realtime.rate_share(promise(BARE), queue()) == pytest.approx(1.0, abs=1e-3)
    assert realtime.rate_share(promise(BARE), queue(share=0.9)) == pytest.approx(0.9, abs=1e-3)
    # 20 ms of this rate are 16.5 packets: with less in the queue, the link may have been idle.
    assert realtime.rate_share(promise(BARE), queue(share=0.5, backlog_packets=16)) is None
    assert realtime.rate_share(promise(BARE), queue(samples=20)) is None


def test_a_ping_is_late_by_what_neither_path_nor_queue_explain():
    waits_ms = (20 - 0.5) * 1514 * 8 / 10e6 * 1e3
    replies = [(0.02, 0.05 + waits_ms), (0.04, 0.05 + waits_ms + 3)]
    excess = realtime.rtt_excess_ms(promise(BARE), 0.05, replies, queue())
    assert excess == pytest.approx([0.0, 3.0])
    assert (
        realtime.rtt_excess_ms(
            promise(dataclasses.replace(BARE, queue="codel")), 0.05, replies, queue()
        )
        == []
    )
    assert realtime.rtt_excess_ms(promise(BARE), None, replies, queue()) == []


def test_a_bare_path_needs_neither_netem_nor_fq():
    assert {s.kind for s in shapers(BARE, 1)} == {"tbf", "pfifo"}
    assert BARE.problems() == []


@pytest.mark.parametrize(
    ("field", "value"), [("rate_mbit", 1000), ("loss_percent", 1), ("trace", "cellular")]
)
def test_a_bare_path_is_slow_and_loses_nothing_at_random(field, value):
    (problem,) = dataclasses.replace(BARE, **{field: value}).problems()
    assert problem.startswith(field)
