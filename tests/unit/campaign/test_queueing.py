"""Queueing delay from the bottleneck's own records."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab.campaign import queueing
from losslab.study.schedule import Phase
from tests.unit.study.test_condition import CONDITION

PATH = replace(CONDITION, rate_mbit=10, rtt_ms=40, duration_s=2, warmup_s=0, loss_percent=0)


def phases(*rates):
    """Return phases of a second each."""
    return [Phase(n, n + 1.0, {"rate_mbit": rate}) for n, rate in enumerate(rates)]


@pytest.mark.parametrize(
    ("rates", "t_s", "octets", "ms"),
    [
        ((10.0,), 0.5, 0, 0),
        ((10.0,), 0.5, 12_500, 10),
        ((10.0,), 5.0, 12_500, 10),  # the last rate holds on
        ((10.0, 1.0), 0.995, 12_500, 5 + 50),  # half of it at a tenth of the rate
        ((10.0, 1.0, 10.0), 0.995, 137_500, 5 + 1000 + (1.1e6 - 50e3 - 1e6) / 1e7 * 1e3),
        ((1.0, 10.0), 0.0, 125_000, 1000),
    ],
)
def test_delay_is_the_time_to_send_the_backlog_at_the_rates_of_the_phases(rates, t_s, octets, ms):
    assert queueing.delay_ms(t_s, octets, phases(*rates)) == pytest.approx(ms)


@given(
    st.lists(st.floats(0.01, 1000), min_size=1, max_size=6),
    st.floats(0, 8),
    st.integers(0, 10**7),
)
def test_delay_is_between_those_at_the_fastest_and_the_slowest_rate(rates, t_s, octets):
    found = queueing.delay_ms(t_s, octets, phases(*rates))
    low, high = (octets * 8 / (rate * 1e3) for rate in (max(rates), min(rates)))
    assert low * 0.999 - 1e-6 <= found <= high * 1.001 + 1e-6


def measured(tmp_path, condition, octets=12_500, link=None):
    """Return the delay of a run with a constant backlog, or with the log of a trace-driven link."""
    rows = [f"{n / 10},{octets // 1250},{octets},0" for n in range(31)]
    table = ["t_s,backlog_packets,backlog_bytes,drops", *rows]
    (tmp_path / "queue.csv").write_text("\n".join(table) + "\n")
    manifest = {"cell": condition.to_json(), "seed": 1, "observed": {"link_begin_ms": None}}
    if link is not None:
        (tmp_path / "link.log").write_text(link)
        manifest["observed"]["link_begin_ms"] = 1000.0
    return queueing.of_run(tmp_path, manifest)


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"jitter_ms": 30.0}, {"changes": "at_s=1,rtt_ms=120"}, {"policer_mbit": 5.0},
        {"queue": "codel"}, {"queue": "pie"}, {"competitor": "bbr"}, {"queue": "fq_codel"},
    ],
)  # fmt: skip
def test_delay_is_that_of_the_queue_on_every_path(tmp_path, changes):
    """A9: pings said 98.5 ms for a queue of five packets when the base RTT changed."""
    found = measured(tmp_path, replace(PATH, **changes))
    assert (found.mean_ms, found.p95_ms) == (pytest.approx(10), pytest.approx(10))
    assert measured(tmp_path, replace(PATH, **changes), octets=0).mean_ms == 0


def test_rate_of_the_phase_determines_the_delay(tmp_path):
    found = measured(tmp_path, replace(PATH, changes="at_s=1,rate_mbit=5"))
    assert 14 < found.mean_ms < 16
    assert found.p95_ms == pytest.approx(20)


@pytest.mark.parametrize(
    "changes",
    [
        {"queue": "fq_codel", "competitor": "bbr"}, {"queue": "cake", "flows": "same"},
        {"queue": "two-fifos", "competitor": "bbr"}, {"shaper": "htb-netem"},
        {"flows": "same", "second_rate_mbit": 5.0},
    ],
)  # fmt: skip
def test_delay_that_cannot_be_known_is_absent(tmp_path, changes):
    """A9: a backlog of several queues, or with the netem link in it, is no packet's delay."""
    assert measured(tmp_path, replace(PATH, **changes)) is None


def test_trace_driven_link_states_the_delay_of_each_packet(tmp_path):
    """A8: pings, which bypass the link, said 0 ms beside a 95th percentile of 245 ms."""
    log = "900 - 1500 999\n1100 + 1500\n1110 - 1500 10\n1500 - 1500 30\n1501 d 1 1500\n3100 - 9 9\n"
    found = measured(tmp_path, replace(PATH, trace="cellular"), link=log)
    assert (found.mean_ms, found.p95_ms) == (20, 30)
    assert measured(tmp_path, replace(PATH, trace="cellular")) is None
