import pytest

from losslab.emulation.goodput import Deliveries
from losslab.errors import LosslabError

HEADER = "t_s,flow,delivered_bytes"


def read(tmp_path, lines, port=40001):
    path = tmp_path / "tcp.csv"
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return Deliveries.read(path, port)


def test_a_window_is_counted_between_the_samples_inside_it(tmp_path):
    lines = [f"{i * 0.05:.6f},40001,{i * 12_500}" for i in range(41)]
    assert read(tmp_path, lines).mbit(0.51, 1.99) == pytest.approx(2)


def test_a_flow_that_starts_late_or_ends_early_delivers_nothing_while_it_is_not_there(tmp_path):
    lines = [f"{i / 10:.6f},5000,{i}" for i in range(31)]
    lines += [f"{i / 10:.6f},40001,{(i - 9) * 12_500}" for i in range(10, 21)]
    found = read(tmp_path, lines)
    assert found.mbit(0, 3) == pytest.approx(11 * 12_500 * 8 / 1e6 / 3)
    assert found.mbit(0, 0.9) == 0


def test_data_that_the_receiver_gives_up_again_counts_once(tmp_path):
    found = read(tmp_path, ["0,40001,0", "1,40001,300", "2,40001,200", "3,40001,400"])
    assert found.octets == [0, 300, 300, 400]


def test_intervals_are_as_long_as_samples_allow(tmp_path):
    lines = [f"{i * 0.06:.6f},40001,{i * 7_500}" for i in range(11)]
    found = read(tmp_path, lines).intervals()
    assert [round(t_s, 2) for t_s, _ in found] == [0.12, 0.24, 0.36, 0.48, 0.6]
    assert {round(rate_mbit, 6) for _, rate_mbit in found} == {1.0}


@pytest.mark.parametrize("port", [40001, None])
def test_a_connection_that_was_never_seen_is_an_error(tmp_path, port):
    with pytest.raises(LosslabError, match=f"from port {port}"):
        read(tmp_path, ["0,5201,0"], port)


def test_a_window_without_two_samples_is_an_error(tmp_path):
    with pytest.raises(LosslabError, match=r"between 0\.2 and 0\.9 s"):
        read(tmp_path, ["0,40001,0", "0.5,40001,0", "1,40001,0"]).mbit(0.2, 0.9)
