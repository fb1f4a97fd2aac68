"""Goodput and cwnd statistics of a flow."""

import pytest

from losslab.emulation import goodput
from losslab.emulation.goodput import Deliveries
from losslab.errors import LosslabError

HEADER = "t_s,flow,delivered_bytes"


def read(tmp_path, lines, port=40001):
    path = tmp_path / "tcp.csv"
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return Deliveries.read(path, port)


def test_window_is_counted_between_the_samples_inside_it(tmp_path):
    lines = [f"{i * 0.05:.6f},40001,{i * 12_500}" for i in range(41)]
    assert read(tmp_path, lines).mbit(0.51, 1.99) == pytest.approx(2)


def test_time_before_the_first_connection_does_not_count(tmp_path):
    """The set-up of iperf3 over a long path is no time of its flow."""
    lines = [f"{i / 50:.6f},40001,{(i - 50) * 5_000}" for i in range(50, 101)]
    found = read(tmp_path, lines)
    assert found.mbit(0, 2) == pytest.approx(250_000 * 8 / 1e6)
    assert found.sampled_s(0, 2) == pytest.approx(1)
    assert found.sampled_s(3, 4) == 0


def test_set_up_of_a_connection_without_data_is_no_time_of_the_flow(tmp_path):
    control = [f"{i / 50:.6f},50000,185" for i in range(20, 101)]
    lines = [f"{i / 50:.6f},40001,{(i - 50) * 5_000}" for i in range(50, 101)]
    path = tmp_path / "tcp.csv"
    path.write_text("\n".join([HEADER, *control, *lines]) + "\n")
    found = Deliveries.read(path, 40001, {40001})
    assert (found.mbit(0, 2), found.sampled_s(0, 2)) == pytest.approx((2, 1))
    # The table of intervals begins with the first connection, as all samples do.
    assert found.intervals()[0] == (0.4, 0.0)


def test_w7_median_of_an_even_number_is_the_mean_of_the_middle_values():
    assert goodput.median([4, 1, 3, 2]) == 2.5
    assert goodput.median(iter([5, 1, 3])) == 3
    assert goodput.median([]) is None


def test_data_reneged_by_the_receiver_counts_once(tmp_path):
    found = read(tmp_path, ["0,40001,0", "1,40001,300", "2,40001,200", "3,40001,400"])
    assert found.octets == [0, 300, 300, 400]


def test_intervals_have_the_length_that_samples_allow(tmp_path):
    lines = [f"{i * 0.06:.6f},40001,{i * 7_500}" for i in range(11)]
    found = read(tmp_path, lines).intervals()
    assert [round(t_s, 2) for t_s, _ in found] == [0.12, 0.24, 0.36, 0.48, 0.6]
    assert {round(rate_mbit, 6) for _, rate_mbit in found} == {1.0}


@pytest.mark.parametrize(
    ("port", "lines", "words"),
    [
        (40001, ["0,5201,0"], "from port 40001"), (None, ["0,5201,0"], "from port None"),
        (40001, ["0,40001,0", "0.5,40001,0", "1,40001,0"], r"between 0\.2 and 0\.9 s"),
    ],
)  # fmt: skip
def test_window_without_two_samples_is_an_error(tmp_path, port, lines, words):
    with pytest.raises(LosslabError, match=words):
        read(tmp_path, lines, port).mbit(0.2, 0.9)


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


def test_cwnd_statistics_cover_the_connections_samples_in_the_window():
    found = goodput.cwnd_statistics(ROWS, 40001, 1, 5)
    assert found["srtt_mean_ms"] == pytest.approx(27.5)
    assert found["srtt_median_ms"] == 25
    assert found["srtt_std_ms"] == pytest.approx(8.2915620)
    assert found["cwnd_median_packets"] == 135
    # From unset to 140 is no change; from 140 to 98 is one.
    assert found["ssthresh_changes"] == 1
    # From 200 to 140 is a reduction, from 140 to 130 is none; in 4 s.
    assert found["window_cuts_per_s"] == 0.25
    # The first second counts independent of the warm-up.
    assert goodput.cwnd_statistics(ROWS, 40001, 3, 5)["retransmits_first_second"] == 7
    assert goodput.cwnd_statistics(ROWS, 40001, 0, 0.5)["retransmits_first_second"] == 3
    found = goodput.cwnd_statistics(ROWS, 7, 1, 5)
    assert {each for name, each in found.items() if name != "ssthresh_changes"} == {None}


def test_slow_window_reduction_counts_once():
    # Recovery reduces the window from 100 to 50, it grows to 101, then is reduced to 70.
    fall = list(range(100, 49, -1))
    assert goodput.cuts([90, *fall, 50, 50, *range(51, 102), *range(100, 69, -2), 71]) == 2
    assert goodput.cuts([100, 95, 100, 92, 100]) == 0
    assert goodput.cuts([]) == 0
