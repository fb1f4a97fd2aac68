"""First divergence of two replicates."""

from losslab.campaign.packets import Segment, described, packet_lines, sample_line


def test_first_packet_is_shown_between_those_around_it():
    assert packet_lines(["a", "b"], ["a", "b"]) == []
    assert packet_lines([*"abcdefgh"], [*"abcdxfgh"]) == [
        "packet 5 on the sender's link differs:",
        *(f"  both  {packet}" for packet in "bcd"),
        *(f"  A     {packet}" for packet in "efg"),
        *(f"  B     {packet}" for packet in "xfg"),
    ]


def test_run_that_ends_before_the_other_has_no_further_packet():
    assert packet_lines(["a"], ["a", "b"])[2:] == ["  A     no further packet", "  B     b"]


def test_earliest_difference_of_all_tables_is_named_with_both_values(tmp_path):
    for run, ping, queue in (("a", "1", "2"), ("b", "3", "4")):
        folder = tmp_path / run
        folder.mkdir()
        (folder / "tcp.csv").write_text("t_s,cwnd\n0.1,10\n")
        (folder / "queue.csv").write_text(f"t_s,backlog\n0.3,{queue}\n")
        (folder / "ping.csv").write_text(f"t_s,rtt\n0.2,{ping}\n")
    found = sample_line(tmp_path / "a", tmp_path / "b")
    assert found == "ping.csv: rtt at 0.200000 s is 1 in A, 3 in B"
    (tmp_path / "b" / "tcp.csv").write_text("t_s,cwnd\n")
    found = sample_line(tmp_path / "a", tmp_path / "b")
    assert found == "tcp.csv: t_s at 0.100000 s is 0.1 in A, nothing in B"
    assert sample_line(tmp_path / "a", tmp_path / "a") == ""


def test_segment_is_described_with_its_time_since_the_origin():
    segment = Segment(1_500_000_256, True, 40001, 7, 1448, 9, ((20, 30),))
    assert described(segment, 1_000_000_000) == (
        "0.500000256 s sent port 40001 seq 7 length 1448 ack 9 SACK 20-30"
    )
