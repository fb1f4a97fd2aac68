"""Limits of a sender, and queueing delay, from made-up samples of a flow with an RTT of 0.1 s."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab.campaign import limiters
from losslab.study.schedule import Phase
from tests.unit.study.test_condition import BARE, CONDITION


def path(warmup_s=0.0):
    """Return a path with a BDP of 165 packets, and the samples' window."""
    return replace(BARE, rate_mbit=20, rtt_ms=100, warmup_s=warmup_s, duration_s=2)


def samples(rate_mbit, cwnd_packets, pacing_mbit, port=40001):
    """Sample a flow of constant rate every 20 ms for 2 s."""
    return [
        {
            "t_s": step / 50, "flow": port, "srtt_ms": 100, "cwnd_packets": cwnd_packets,
            "pacing_mbit": pacing_mbit, "delivered_bytes": round(step / 50 * rate_mbit * 1e6 / 8),
            "retransmits": 0,
        }
        for step in range(101)
    ]  # fmt: skip


def columns(rows):
    return {name: np.array([row[name] for row in rows], float) for name in (rows or [()])[0]}


# 10 Mbit/s have 125,000 bytes or 86.3 full segments in 0.1 s.
@pytest.mark.parametrize(
    ("cwnd_packets", "pacing_mbit", "window", "pacing"),
    [(86, 24, 100, 0), (110, 12, 0, 100), (200, 12, 0, 100), (200, 24, 0, 0), (200, 0, 0, 0)],
)
def test_a_constant_flow_is_limited_by_what_it_reaches(cwnd_packets, pacing_mbit, window, pacing):
    found = limiters.of_samples(columns(samples(10, cwnd_packets, pacing_mbit)), 40001, path())
    assert found["cwnd_limited_percent"] == window
    assert found["pacing_limited_percent"] == pacing
    assert found["pacing_median_mbit"] == pacing_mbit


def test_shares_count_samples_after_the_warm_up():
    rows = samples(10, 86, 24)
    for row in rows[50:]:
        row["cwnd_packets"] = 300
    # The window limits until 1 s: half of the samples with an RTT after them, from 0 to 1.9 s.
    early, late = (limiters.of_samples(columns(rows), 40001, path(s)) for s in (0.0, 1.01))
    assert early["cwnd_limited_percent"] == pytest.approx(100 * 50 / 96, abs=2)
    assert late["cwnd_limited_percent"] == 0


def sorted_by_time(*flows):
    """Return the samples of several flows in the order of tcp.csv."""
    return [row for rows in zip(*flows, strict=True) for row in rows]


def waiting(packets):
    """Sample a queue of constant length every 20 ms for 2 s."""
    return [{"t_s": step / 50, "backlog_packets": packets} for step in range(101)]


IDLE = {limiters.RECEIVER: 0.0, limiters.BUFFER: 0.0}


def shares(rows, packets=0, kernel=IDLE, bulk=True, condition=None, phases=None):
    condition = condition or path()
    phases = phases or limiters.phases_of(condition, 1)
    tables = columns(rows), columns(waiting(packets))
    return limiters.of_time(*tables, 40001, kernel, bulk, condition, phases)


@pytest.mark.parametrize(
    ("rows", "more", "limit"),
    [
        (samples(10, 500, 24), {"packets": 3}, "path"),  # a queue that never empties
        (samples(19, 500, 24), {}, "path"),  # the path's rate of 20 Mbit/s, without a queue
        (sorted_by_time(samples(10, 500, 24), samples(9, 500, 24, 40002)), {}, "path"),
        (samples(10, 86, 24), {}, "congestion window"),
        (samples(10, 500, 12), {}, "pacing"),
        # A13: TCP Brutal's 1 Mbit/s, with a window of 17 packets, were a valid flow of 1 Mbit/s.
        (samples(0.96, 17, 1.0), {}, "pacing"),
        (samples(10, 500, 24), {"kernel": {**IDLE, limiters.RECEIVER: 1.0}}, "receive window"),
        (samples(10, 500, 24), {"kernel": {**IDLE, limiters.BUFFER: 1.0}}, "send buffer"),
        (samples(10, 500, 24), {"bulk": False}, "sending application"),
        # A bulk flow always has data: it waits for acknowledgements.
        (samples(10, 500, 24), {}, "congestion window"),
        (samples(10, 500, 24), {"condition": replace(path(), policer_mbit=10.5)}, "path"),
        (samples(10, 500, 24), {"condition": replace(path(), loss_percent=45)}, "path"),
    ],
)
def test_flow_is_limited_by_what_holds_it_back(rows, more, limit):
    assert shares(rows, **more) == {limit: 100}


def test_w3_kernels_count_of_the_receive_window_comes_before_pacing():
    """BBR paces at what a window of 65,535 bytes lets through: it is no limit of its own."""
    kernel = {**IDLE, limiters.RECEIVER: 0.87}
    # 5 Mbit/s of payload at a pacing rate of 5.3, and a window of two bandwidth-delay products.
    assert shares(samples(5, 90, 5.3), kernel=kernel) == {
        "receive window": pytest.approx(87), "pacing": pytest.approx(13)
    }  # fmt: skip


def test_pacing_that_follows_from_the_window_is_no_limit_of_its_own():
    """A window per RTT: 110 packets of 1448 bytes in 0.1 s, of which 78 % are in flight."""
    assert shares(samples(10, 110, 110 * 1448 * 8 / 0.1e6)) == {"congestion window": 100}


def test_bulk_flow_that_the_kernel_counts_as_limited_by_the_send_buffer_waits_for_it():
    """The kernel counted 30 %. Far less than the window is in flight, and nothing was lost."""
    rows, kernel = samples(6, 106, 15), {**IDLE, limiters.BUFFER: 0.3}
    assert shares(rows, kernel=kernel) == {"send buffer": 100}
    for row in rows:
        row["retransmits"] = 3 * row["t_s"] if row["t_s"] >= 1 else 0
    # From 0.9 s on, each RTT has a retransmission: it waits for those.
    assert shares(rows, kernel=kernel) == {
        "send buffer": pytest.approx(100 * 45 / 96, abs=2),
        "congestion window": pytest.approx(100 * 51 / 96, abs=2),
    }  # fmt: skip


def crawling(interval_s):
    """Return a flow that fq paces to a packet per interval, longer than the RTT."""
    rows = samples(0, 10, 1514 * 8 / interval_s / 1e6)
    for row in rows:
        row["delivered_bytes"] = 1448 * int(row["t_s"] / interval_s)
    return rows


@pytest.mark.parametrize("interval_s", [0.05, 0.13, 0.21])
def test_b6_flow_that_is_paced_to_a_crawl_is_limited_by_pacing(interval_s):
    """Most RTTs have no packet at all: the rate needs several packets."""
    assert shares(crawling(interval_s)) == {"pacing": 100}


@pytest.mark.parametrize(
    ("cause", "changes", "advice"),
    [
        (limiters.RECEIVER, {}, "try --receive-buffer large"),
        (limiters.RECEIVER, {"receive_buffer": "large"}, "the receiver does not read fast enough"),
        (limiters.RECEIVER, {"window_bytes": 65535}, "try it without --window-bytes"),
        (limiters.ESTIMATE, {"sysctl": "both:net.ipv4.tcp_window_scaling=0"},
         "try it without --sysctl"),
        (limiters.BUFFER, {}, "set a larger net.ipv4.tcp_wmem with --sysctl"),
        (limiters.PACING, {}, "the goodput is not the path's capacity"),
    ],
)  # fmt: skip
def test_advice_names_what_the_user_can_change(cause, changes, advice):
    assert limiters.advice(cause, replace(path(), **changes)) == advice


@pytest.mark.parametrize(
    ("limits", "causes"),
    [
        (limiters.Limits({"path": 90.0, "pacing": 10.0}, 0.0), {}),
        (limiters.Limits({}), {}),
        (limiters.Limits({"path": 60.0, "receive window": 40.0}, 90.0), {"receive window": 40.0}),
        (limiters.Limits({"pacing": 99.0, "path": 1.0}, 0.0), {"pacing": 99.0}),
        # B5: the kernel counts 0.8 %, and BBR has estimated its rate during it.
        (limiters.Limits({"pacing": 99.0, "receive window": 0.8}, 0.8), {limiters.ESTIMATE: 99.0}),
        (limiters.Limits({"congestion window": 90.0, "receive window": 4.0}, 4.0),
         {"congestion window": 90.0}),
    ],
)  # fmt: skip
def test_causes_are_the_largest_limit_and_buffers_that_matter(limits, causes):
    assert limiters.causes(limits, path()) == causes


def test_b5_warnings_of_many_runs_have_a_line_per_cause(monkeypatch):
    """Their number, the shares of time, the cells, and what to do; invalid runs do not count."""
    measured = {
        1: (5, {"pacing": 80.0, "path": 20.0}, 0.8), 2: (10, {"pacing": 60.4}, 9.0),
        3: (5, {"path": 90.0}, 0.0), 4: (5, {"path": 60.0, "receive window": 31.0}, 31.0),
        5: (10, {"pacing": 99.0}, 3.0),
    }  # fmt: skip
    runs = [
        SimpleNamespace(folder=None, manifest={
            "seed": seed, "valid": seed != 5,
            "cell": replace(path(), loss_percent=loss, algorithm="bbr").to_json(),
        })
        for seed, (loss, _, _) in measured.items()
    ]  # fmt: skip
    monkeypatch.setattr(
        limiters, "of_run", lambda _, manifest: limiters.Limits(*measured[manifest["seed"]][1:])
    )
    assert limiters.of_runs(runs, lambda its: f"loss {its.loss_percent:g}") == [
        "in 2 of 4 runs, the pacing by an estimate made under the receive window limited the first "
        "flow 60 to 80 % of the time (loss 5; loss 10): try --receive-buffer large",
        "in 1 of 4 runs, the receive window limited the first flow 31 % of the time (loss 5): try "
        "--receive-buffer large",
    ]


def test_path_limits_only_in_the_phase_that_is_slow():
    phases = [Phase(0.0, 1.0, {"rate_mbit": 10.0}), Phase(1.0, 2.0, {"rate_mbit": 20.0})]
    found = shares(samples(9.5, 82, 24), phases=phases)
    assert found == {
        "path": pytest.approx(50, abs=3),
        "congestion window": pytest.approx(50, abs=3),
    }


def test_flow_without_a_connection_has_no_limit():
    assert shares(samples(10, 500, 24, port=40002)) == {}


def test_shares_of_the_kernel_do_not_exceed_the_time_that_is_left():
    found = shares(samples(10, 500, 24), kernel={limiters.RECEIVER: 0.7, limiters.BUFFER: 0.7})
    assert found == {
        "receive window": pytest.approx(70), "send buffer": pytest.approx(30)
    }  # fmt: skip


def test_queue_tells_when_the_path_limits_a_udp_flow():
    queue = waiting(3)[:51] + waiting(0)[51:]
    phases = limiters.phases_of(path(), 1)
    found = limiters.of_queue(columns(queue), {}, path(), phases)
    assert found == {"path": pytest.approx(50.5, abs=0.1), "sender": pytest.approx(49.5, abs=0.1)}


@pytest.mark.parametrize(("mbit", "limit"), [(18.0, "path"), (9.0, "sender")])
def test_path_limits_a_udp_flow_that_uses_its_rate_without_a_queue(mbit, limit):
    goodputs = [{"t_s": n / 10, "goodput_mbit": mbit} for n in range(1, 22)]
    phases = limiters.phases_of(path(), 1)
    tables = columns(waiting(0)), columns(goodputs)
    assert repr(limiters.of_queue(*tables, path(), phases)) == f"{{{limit!r}: 100.0}}"


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40_000)), min_size=3, max_size=60),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
)
def test_shares_always_add_up_to_the_whole_time(steps, window, buffer, bulk):
    octets, rows, queue = 0, [], []
    for number, (packets, more) in enumerate(steps):
        octets += more
        sample = {"t_s": number / 50, "srtt_ms": 30, "delivered_bytes": octets}
        rows.append(samples(0, 20, 5)[0] | sample)
        queue.append({"t_s": number / 50, "backlog_packets": packets})
    kernel = {limiters.RECEIVER: window, limiters.BUFFER: buffer}
    tables, phases = (columns(rows), columns(queue)), limiters.phases_of(path(), 1)
    found = limiters.of_time(*tables, 40001, kernel, bulk, path(), phases)
    assert not found or sum(found.values()) == pytest.approx(100)
    assert all(0 < share <= 100.0001 for share in found.values())


# Queueing delay

PATH = replace(CONDITION, rate_mbit=10, rtt_ms=40, duration_s=2, warmup_s=0, loss_percent=0)


def phases_of(*rates):
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
    assert limiters.delay_ms(t_s, octets, phases_of(*rates)) == pytest.approx(ms)


def measured(tmp_path, condition, octets=12_500, link=None):
    """Return the delay of a run with a constant backlog, or with the log of a trace-driven link."""
    rows = [f"{n / 10},{octets // 1250},{octets},0" for n in range(31)]
    table = ["t_s,backlog_packets,backlog_bytes,drops", *rows]
    (tmp_path / "queue.csv").write_text("\n".join(table) + "\n")
    manifest = {"cell": condition.to_json(), "seed": 1, "observed": {"link_begin_ms": None}}
    if link is not None:
        (tmp_path / "link.log").write_text(link)
        manifest["observed"]["link_begin_ms"] = 1000.0
    return limiters.queueing_delay(tmp_path, manifest)


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
