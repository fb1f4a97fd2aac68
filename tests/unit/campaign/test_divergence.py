"""First divergence of two replicates."""

from losslab.campaign.divergence import (
    PacketDivergence,
    StateDivergence,
    described,
    first_packet,
    first_row,
    of_state,
)
from losslab.campaign.qlog import Segment

ROWS = [{"t_s": "0.10", "cwnd": "10", "srtt": "20"}, {"t_s": "0.12", "cwnd": "11", "srtt": "20"}]


def test_equal_packets_have_no_divergence():
    assert first_packet(["a", "b"], ["a", "b"]) is None


def test_first_packet_is_shown_between_those_around_it():
    found = first_packet([*"abcdefgh"], [*"abcdxfgh"])
    assert found == PacketDivergence(5, ("b", "c", "d"), (("e", "f", "g"), ("x", "f", "g")))
    assert [*found.lines()][2:4] == ["  both  d", "  A     e"]


def test_run_that_ends_before_the_other_has_no_further_packet():
    found = first_packet(["a"], ["a", "b"])
    assert found == PacketDivergence(2, ("a",), ((), ("b",)))
    assert "  A     no further packet" in found.lines()


def test_first_column_that_differs_is_named_with_both_values():
    other = [ROWS[0], ROWS[1] | {"srtt": "21", "cwnd": "12"}]
    assert first_row("tcp.csv", ROWS, ROWS) is None
    assert first_row("tcp.csv", ROWS, other) == StateDivergence(
        "tcp.csv", 0.12, "cwnd", ("11", "12")
    )
    assert first_row("tcp.csv", ROWS[:1], ROWS).line() == (
        "tcp.csv: t_s at 0.120000 s is nothing in A, 0.12 in B"
    )


def test_earliest_difference_of_all_tables_is_returned(tmp_path):
    for run, ping, queue in (("a", "1", "2"), ("b", "3", "4")):
        folder = tmp_path / run
        folder.mkdir()
        (folder / "tcp.csv").write_text("t_s,cwnd\n0.1,10\n")
        (folder / "queue.csv").write_text(f"t_s,backlog\n0.3,{queue}\n")
        (folder / "ping.csv").write_text(f"t_s,rtt\n0.2,{ping}\n")
    found = of_state(tmp_path / "a", tmp_path / "b")
    assert found == StateDivergence("ping.csv", 0.2, "rtt", ("1", "3"))


def test_segment_is_described_with_its_time_since_the_origin():
    segment = Segment(1_500_000_256, True, 40001, 7, 1448, 9, ((20, 30),))
    assert described(segment, 1_000_000_000) == (
        "0.500000256 s sent port 40001 seq 7 length 1448 ack 9 SACK 20-30"
    )
