"""The first packet, sample and state in which two runs differ."""

import shutil
import struct

from losslab.campaign import rerun
from losslab.campaign.packets import Segment
from losslab.emulation import capture
from losslab.tools.check import divergence
from tests.unit.campaign.test_packets import RECEIVER, SENDER, frame
from tests.unit.campaign.test_packets import capture as pcap
from tests.unit.campaign.test_state import bbr, captured


def test_first_packet_that_differs_is_shown_between_those_around_it_or_at_the_end():
    assert divergence.packet_lines(["a", "b"], ["a", "b"]) == []
    assert divergence.packet_lines([*"abcdefgh"], [*"abcdxfgh"]) == [
        "packet 5 on the sender's link differs:",
        *(f"  both  {packet}" for packet in "bcd"),
        *(f"  A     {packet}" for packet in "efg"),
        *(f"  B     {packet}" for packet in "xfg"),
    ]
    assert divergence.packet_lines(["a"], ["a", "b"])[2:] == [
        "  A     no further packet",
        "  B     b",
    ]


def test_earliest_difference_of_all_tables_is_named_with_both_values(tmp_path):
    for run, ping, queue in (("a", "1", "2"), ("b", "3", "4")):
        folder = tmp_path / run
        folder.mkdir()
        (folder / "tcp.csv").write_text("t_s,cwnd\n0.1,10\n")
        (folder / "queue.csv").write_text(f"t_s,backlog\n0.3,{queue}\n")
        (folder / "ping.csv").write_text(f"t_s,rtt\n0.2,{ping}\n")
    found = divergence.sample_line(tmp_path / "a", tmp_path / "b")
    assert found == "ping.csv: rtt at 0.200000 s is 1 in A, 3 in B"
    (tmp_path / "b" / "tcp.csv").write_text("t_s,cwnd\n")
    found = divergence.sample_line(tmp_path / "a", tmp_path / "b")
    assert found == "tcp.csv: t_s at 0.100000 s is 0.1 in A, nothing in B"
    assert divergence.sample_line(tmp_path / "a", tmp_path / "a") == ""


def test_segment_is_described_with_its_time_since_the_origin():
    segment = Segment(1_500_000_256, True, 40001, 7, 1448, 9, ((20, 30),))
    assert divergence.described(segment, 1_000_000_000) == (
        "0.500000256 s sent port 40001 seq 7 length 1448 ack 9 SACK 20-30"
    )


def test_first_variable_that_differs_is_named_with_its_times_and_values(tmp_path):
    names = ("one", "other", "late")
    events = ([bbr(2_000), bbr(3_000, mode=1)], [bbr(2_000), bbr(3_000, mode=2)],
              [bbr(2_500), bbr(3_500, mode=1)])  # fmt: skip
    for name, its in zip(names, events, strict=True):
        (tmp_path / name).mkdir()
        captured(tmp_path / name / capture.name("state"), *its)
    one, other, late = (tmp_path / name for name in names)
    assert divergence.state_lines(one, other) == [
        "state: mode at event 2 is 1 at 0.002000 s in A, 2 at 0.002000 s in B"
    ]
    assert divergence.state_lines(one, late) == []  # the same states at other times
    shutil.rmtree(late)
    assert divergence.state_lines(one, late) == []


def segment(port, begin, acked, flags, octets=0, received=False):
    ends = (5000, port) if received else (port, 5000)
    header = struct.pack("!HHIIBBHHH", *ends, begin, acked, 5 << 4, flags, 0, 0, 0)
    hosts = (RECEIVER, SENDER) if received else (SENDER, RECEIVER)
    return frame(6, header + bytes(octets), *hosts)


def test_runs_of_two_seeds_differ_where_their_packets_do_not_in_what_a_seed_draws(
    tmp_path, monkeypatch
):
    """Ports and first sequence numbers differ from the first packet on, in all seeds."""
    for seed, (port, first, data) in enumerate([(40001, 7, 500), (50002, 99, 500), (9999, 1, 400)]):
        (tmp_path / str(seed)).mkdir()
        (tmp_path / str(seed) / "capture-sender-r1.pcap").write_bytes(pcap(
            segment(port, first, 0, 2), segment(port, 300, first + 1, 0x12, received=True),
            frame(1, b"\x08" + bytes([seed] * 30)),
            segment(port, first + 1, 301, 0x18, data),
        ))  # fmt: skip
    monkeypatch.setattr(rerun, "load_manifest", lambda folder: {"seed": int(folder.name)})
    folders = [tmp_path / str(seed) for seed in range(3)]
    assert divergence.differences(*folders[:2], trusted=False) == []
    found = divergence.differences(folders[0], folders[2], trusted=False)
    assert found[0] == "packet 1 on the sender's link differs:"
    (folders[2] / "capture-sender-r1.pcap").write_bytes(
        (folders[1] / "capture-sender-r1.pcap").read_bytes().replace(
            segment(50002, 100, 301, 0x18, 500), segment(50002, 101, 301, 0x18, 500)
        )
    )  # fmt: skip
    found = divergence.differences(folders[0], folders[2], trusted=False)
    assert found[0] == "packet 3 on the sender's link differs:"
    assert found[-1].endswith("10.0.1.1:port1 > 10.0.3.2:5000 TCP PA seq 2 ack 1, 500 bytes")
