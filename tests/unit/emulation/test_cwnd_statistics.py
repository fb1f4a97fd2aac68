import pytest

from losslab.emulation import goodput


def row(t_s, cwnd, ssthresh="", srtt_ms=20.0, retransmits=0, flow=40001):
    return {
        "t_s": f"{t_s:.6f}", "flow": str(flow), "cwnd_packets": str(cwnd),
        "ssthresh_packets": str(ssthresh), "srtt_ms": f"{srtt_ms:.3f}",
        "retransmits": str(retransmits),
    }  # fmt: skip


ROWS = [
    row(0.5, 10, srtt_ms=500, retransmits=3),
    row(1.0, 100, retransmits=7),
    row(2.0, 200, 140, srtt_ms=30, retransmits=9),
    row(3.0, 140, 140, srtt_ms=40, retransmits=12),
    row(3.0, 9, 9, srtt_ms=900, flow=5001),
    row(4.0, 130, 98, srtt_ms=20, retransmits=12),
    row(9.0, 1, 1, srtt_ms=900, retransmits=99),
]


def test_only_the_connections_own_samples_in_the_window_count():
    found = goodput.cwnd_statistics(ROWS, 40001, 1, 5)
    assert found["srtt_mean_ms"] == pytest.approx(27.5)
    assert found["srtt_median_ms"] == 25
    assert found["srtt_std_ms"] == pytest.approx(8.2915620)
    assert found["cwnd_median_packets"] == 135
    # From unset to 140 is no change; 140 to 98 is.
    assert found["ssthresh_changes"] == 1
    # 200 to 140 is a cut, 140 to 130 is none; in 4 s.
    assert found["window_cuts_per_s"] == 0.25


def test_the_first_second_counts_whatever_the_warm_up():
    assert goodput.cwnd_statistics(ROWS, 40001, 3, 5)["retransmits_first_second"] == 7


def test_a_connection_without_samples_says_nothing():
    found = goodput.cwnd_statistics(ROWS, 7, 1, 5)
    assert {name for name, value in found.items() if value is None} == {
        "srtt_mean_ms", "srtt_std_ms", "srtt_median_ms", "cwnd_median_packets",
        "window_cuts_per_s", "retransmits_first_second",
    }  # fmt: skip


def test_a_cut_is_one_however_slowly_the_window_falls():
    # Recovery takes the window from 100 to 50, growth to 101, the next cut to 70.
    fall = list(range(100, 49, -1))
    assert goodput.cuts([90, *fall, 50, 50, *range(51, 102), *range(100, 69, -2), 71]) == 2
    assert goodput.cuts([100, 95, 100, 92, 100]) == 0
    assert goodput.cuts([]) == 0
