"""Limits of a sender, from made-up samples of a flow with an RTT of 0.1 s."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from losslab.campaign import limiters, queueing
from losslab.study.schedule import Phase
from tests.unit.study.test_condition import BARE


def path(warmup_s=0.0):
    """Return a path with a BDP of 165 packets, and the samples' window."""
    return replace(BARE, rate_mbit=20, rtt_ms=100, warmup_s=warmup_s, duration_s=2)


def samples(rate_mbit, cwnd_packets, pacing_mbit, port="40001"):
    """Sample a flow of constant rate every 20 ms for 2 s."""
    return [
        {
            "t_s": f"{step / 50}", "flow": port, "srtt_ms": "100",
            "cwnd_packets": f"{cwnd_packets}", "pacing_mbit": f"{pacing_mbit}",
            "delivered_bytes": f"{round(step / 50 * rate_mbit * 1e6 / 8)}",
        }
        for step in range(101)
    ]  # fmt: skip


# 10 Mbit/s have 125,000 bytes or 86.3 full segments in 0.1 s.
@pytest.mark.parametrize(
    ("cwnd_packets", "pacing_mbit", "window", "pacing"),
    [(86, 24, 100, 0), (110, 12, 0, 100), (200, 12, 0, 100), (200, 24, 0, 0), (200, 0, 0, 0)],
)
def test_a_constant_flow_is_limited_by_what_it_reaches(cwnd_packets, pacing_mbit, window, pacing):
    found = limiters.of_samples(samples(10, cwnd_packets, pacing_mbit), "40001", path())
    assert found["cwnd_limited_percent"] == window
    assert found["pacing_limited_percent"] == pacing
    assert found["pacing_median_mbit"] == pacing_mbit


def test_shares_count_samples_after_the_warm_up():
    rows = samples(10, 86, 24)
    for row in rows[50:]:
        row["cwnd_packets"] = "300"
    # The window limits until 1 s: half of the samples with an RTT after them, from 0 to 1.9 s.
    assert limiters.of_samples(rows, "40001", path())["cwnd_limited_percent"] == pytest.approx(
        100 * 50 / 96, abs=2
    )
    assert limiters.of_samples(rows, "40001", path(warmup_s=1.01))["cwnd_limited_percent"] == 0


def test_other_flows_and_empty_tables_have_no_share():
    assert limiters.of_samples(samples(10, 86, 24, port="40002"), "40001", path()) == {}
    assert limiters.of_samples([], "40001", path()) == {}


def test_windows_below_the_bandwidth_delay_product_are_counted():
    rows = samples(10, 86, 24)
    for row in rows[48:]:
        row["cwnd_packets"] = "166"
    assert limiters.of_samples(rows, "40001", path())["below_bdp_percent"] == 50


def sorted_by_time(*flows):
    """Return the samples of several flows in the order of tcp.csv."""
    return [row for rows in zip(*flows, strict=True) for row in rows]


def waiting(packets):
    """Sample a queue of constant length every 20 ms for 2 s."""
    return [{"t_s": f"{step / 50}", "backlog_packets": f"{packets}"} for step in range(101)]


IDLE = {limiters.RECEIVER: 0.0, limiters.BUFFER: 0.0}


def shares(rows, packets=0, kernel=IDLE, bulk=True, condition=None, phases=None):
    condition = condition or path()
    phases = phases or queueing.phases(condition, 1)
    return limiters.of_time(rows, waiting(packets), "40001", kernel, bulk, condition, phases)


@pytest.mark.parametrize(
    ("rows", "more", "limit"),
    [
        (samples(10, 500, 24), {"packets": 3}, "path"),  # a queue that never empties
        (samples(19, 500, 24), {}, "path"),  # the path's rate of 20 Mbit/s, without a queue
        (sorted_by_time(samples(10, 500, 24), samples(9, 500, 24, "40002")), {}, "path"),
        (samples(10, 86, 24), {}, "congestion window"),
        (samples(10, 500, 12), {}, "pacing"),
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


def test_algorithm_that_paces_at_a_low_rate_is_limited_by_pacing():
    """A13: TCP Brutal at its default of 1 Mbit/s was measured as a valid flow of 1 Mbit/s."""
    # It sets a window of twice the rate times the RTT: 17 packets.
    assert shares(samples(0.96, 17, 1.0)) == {"pacing": 100}


def test_path_limits_only_in_the_phase_that_is_slow():
    phases = [Phase(0.0, 1.0, {"rate_mbit": 10.0}), Phase(1.0, 2.0, {"rate_mbit": 20.0})]
    found = shares(samples(9.5, 82, 24), phases=phases)
    assert found == {
        "path": pytest.approx(50, abs=3),
        "congestion window": pytest.approx(50, abs=3),
    }


def test_shares_of_the_kernel_do_not_exceed_the_time_that_is_left():
    found = shares(samples(10, 500, 24), kernel={limiters.RECEIVER: 0.7, limiters.BUFFER: 0.7})
    assert found == {
        "receive window": pytest.approx(70), "send buffer": pytest.approx(30)
    }  # fmt: skip


def test_queue_tells_when_the_path_limits_a_udp_flow():
    queue = waiting(3)[:51] + waiting(0)[51:]
    phases = queueing.phases(path(), 1)
    found = limiters.of_queue(queue, [], path(), phases)
    assert found == {"path": pytest.approx(50.5, abs=0.1), "sender": pytest.approx(49.5, abs=0.1)}


@pytest.mark.parametrize(("mbit", "limit"), [(18.0, "path"), (9.0, "sender")])
def test_path_limits_a_udp_flow_that_uses_its_rate_without_a_queue(mbit, limit):
    goodputs = [{"t_s": f"{n / 10}", "goodput_mbit": f"{mbit}"} for n in range(1, 22)]
    phases = queueing.phases(path(), 1)
    assert limiters.of_queue(waiting(0), goodputs, path(), phases) == {limit: 100}


@settings(deadline=None)
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
        rows.append(
            samples(0, 20, 5)[0]
            | {"t_s": f"{number / 50}", "srtt_ms": "30", "delivered_bytes": f"{octets}"}
        )
        queue.append({"t_s": f"{number / 50}", "backlog_packets": f"{packets}"})
    kernel = {limiters.RECEIVER: window, limiters.BUFFER: buffer}
    condition = path()
    phases = queueing.phases(condition, 1)
    found = limiters.of_time(rows, queue, "40001", kernel, bulk, condition, phases)
    assert not found or sum(found.values()) == pytest.approx(100)
    assert all(0 < share <= 100.0001 for share in found.values())
