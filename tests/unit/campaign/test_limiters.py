"""Limits of a sender, from made-up samples of a flow with an RTT of 0.1 s."""

from dataclasses import replace

import pytest

from losslab.campaign import limiters
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
