"""The path of a capture: refusals, and what does not follow from a file."""

import json
import struct

import pytest

from losslab import captures, cli
from losslab.reading import UsageError
from losslab.tools.paths import from_capture

SENDER, RECEIVER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
SYN, ACK, MSS = 0x02, 0x10, 1448


def packet(at_s, from_sender, begin, acked, flags, octets=0, blocks=()):
    """Return a record of a raw IPv4 capture with a TCP segment."""
    options = b"".join(struct.pack("!II", *block) for block in blocks)
    options = bytes([1, 1, 5, 2 + len(options)]) + options if blocks else b""
    size, ends = 20 + len(options), (SENDER, RECEIVER) if from_sender else (RECEIVER, SENDER)
    ports = (40000, 5201) if from_sender else (5201, 40000)
    length = 20 + size + octets
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, 6, 0) + b"".join(ends)
    tcp = struct.pack("!HHIIBBHHH", *ports, begin, acked, size // 4 << 4, flags, 0, 0, 0) + options
    kept = ip + tcp
    times = int(at_s), round(at_s % 1 * 1e6)
    return struct.pack("<IIII", *times, len(kept), length) + kept


def pcap(records):
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101) + b"".join(
        packet(*record) for record in sorted(records, key=lambda each: each[0])
    )


def handshake(answer_s, ack_s):
    return [
        (0.0, True, 0, 0, SYN),
        (answer_s, False, 500, 1, SYN | ACK),
        (ack_s, True, 1, 501, ACK),
    ]


def flow(count=1500, rtt_s=0.04, gap_s=0.01, lost=(), queue_s=lambda at: 0.0):
    """Yield a segment each `gap_s`, and its acknowledgement; some are lost and sent again."""
    for n in range(count):
        at, begin = 0.1 + n * gap_s, 1 + n * MSS
        yield (at, True, begin, 501, ACK, MSS)
        if n not in lost:
            yield (at + rtt_s + queue_s(at), False, 501, begin + MSS, ACK)
        else:
            yield (at + 3 * gap_s + rtt_s, True, begin, 501, ACK, MSS)


def written(tmp_path, records):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(records))
    return path


def test_flow_that_does_not_fill_the_path_has_rtt_and_loss_but_no_rate(tmp_path, capsys):
    lost = {200, 600, 601, 602, 1000, 1001}
    path = written(tmp_path, [*handshake(0.04, 0.04), *flow(lost=lost)])
    assert cli.main(["path", "from-capture", str(path)]) == 1
    out = capsys.readouterr().out
    assert "# unknown: rate_mbit: no queue stood for 5 windows of 0.2 s" in out
    assert "or its queue is before the place of the capture; its mean was" in out
    assert "# unknown: buffer_packets: the rate is not known" in out
    assert "6 of 1500 packets sent beside a short queue were sent again" in out
    assert "# not in the file: the kind of queue" in out
    command, _, left = out.splitlines()[-1].partition(" --left-out ")
    assert command == (
        "losslab measure --algorithm cubic --loss-percent 0.4 --rtt-ms 40 --loss-burst-packets 2 "
        "--seed 1 --out from-capture --rate-mbit '?' --buffer-packets '?'"
    )
    assert left.startswith("'what no capture shows: the reverse path")
    assert cli.main(["path", "from-capture", str(path), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["condition"] == {
        "algorithm": "cubic", "rtt_ms": 40.0, "loss_percent": 0.4, "loss_burst_packets": 2.0
    }  # fmt: skip
    assert [*data["unknown"]] == ["rate_mbit", "buffer_packets"]


def test_rate_is_that_of_the_time_in_which_a_queue_stood(tmp_path):
    """10 ms for each frame of 1514 bytes: 1.211 Mbit/s. A queue stands in the last third."""
    queued = flow(queue_s=lambda at: 0.03 if at > 11 else 0.0)
    found = from_capture.read(written(tmp_path, [*handshake(0.04, 0.04), *queued]))
    assert found.values["rate_mbit"] == pytest.approx(1.211, rel=0.01)
    assert found.values["loss_percent"] == 0.0
    assert list(found.unknown) == ["buffer_packets"]
    assert "it holds at least 3 packets" in found.unknown["buffer_packets"]


def test_losses_of_a_buffer_are_not_the_paths_even_if_no_rate_is_known(tmp_path):
    """A queue of 30 ms stands for 60 ms of each second, too short to show the rate."""
    lost = {n for n in range(1500) if n % 100 in (3, 4)}
    path = written(
        tmp_path,
        [
            *handshake(0.04, 0.04),
            *flow(lost=lost, queue_s=lambda at: 0.03 if round(at * 100 - 10) % 100 < 6 else 0.0),
        ],
    )
    found = from_capture.read(path)
    assert found.values["loss_percent"] == 0.0
    assert [*found.unknown] == ["rate_mbit", "buffer_packets"]
    assert "30 losses beside a long queue are its overflows" in found.unknown["buffer_packets"]


def test_segment_that_the_receiver_acknowledged_late_has_no_rtt():
    """The second segment is lost; the third makes the receiver acknowledge the first."""
    flow = from_capture._Flow()
    for at_s, begin in ((0.0, 1), (0.0, 1 + MSS), (0.02, 1 + 2 * MSS)):
        flow.send(at_s, begin, MSS)
    flow.acknowledge(0.06, 1 + MSS, [(1 + 2 * MSS, 1 + 3 * MSS)])
    assert [rtt for _, _, rtt in flow.rtts] == [pytest.approx(0.04)]


@pytest.mark.parametrize(
    ("answer_s", "percent"), [(0.0, 0), (0.02, 50)], ids=["receiver", "between"]
)
def test_capture_that_was_not_made_at_the_sender_is_refused(tmp_path, answer_s, percent):
    path = written(tmp_path, [*handshake(answer_s, 0.04), *flow()])
    with pytest.raises(UsageError, match=rf"at the sender, found a place with {percent} % of"):
        from_capture.read(path)


def test_place_of_a_capture_without_a_handshake_is_the_users_word(tmp_path):
    path = written(tmp_path, flow())
    with pytest.raises(UsageError, match="handshake"):
        from_capture.read(path)
    assert from_capture.read(path, at_sender=True).values["rtt_ms"] == 40.0


def test_ports_that_are_used_again_are_other_connections(tmp_path):
    """Each has its own handshake; a SYN that is sent again has the same number."""
    first = [*handshake(0.04, 0.04), *flow(count=50)]
    later = [(9 + at, *rest) for at, *rest in [*handshake(0.04, 0.04), *flow()]]
    numbers = [(at, sent, begin + 9000 * sent, acked + 9000 * (not sent), *rest)
               for at, sent, begin, acked, *rest in later]  # fmt: skip
    numbers[0] = (*numbers[0][:3], 0, *numbers[0][4:])
    found = from_capture.read(written(tmp_path, [*first, *numbers]))
    assert found.values["rtt_ms"] == 40.0
    assert "other flows with data in the file, not used: 1" in found.notes
    again = [(0.5, True, 0, 0, SYN), (0.52, False, 500, 1, SYN | ACK)]
    with pytest.raises(UsageError, match="handshake"):
        from_capture.read(written(tmp_path, [*handshake(0.04, 0.04), *again, *again, *flow()]))


def test_short_flows_and_other_files_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"at least 100 segments .* found 50"):
        from_capture.read(written(tmp_path, flow(count=50)), at_sender=True)
    (tmp_path / "text").write_text("t_s,goodput\n")
    with pytest.raises(UsageError, match="found neither"):
        from_capture.read(tmp_path / "text")
    (tmp_path / "x.snoop").write_bytes(b"snoop\0\0\0\0\0\0\2")
    with pytest.raises(UsageError, match="found a capture of snoop") as error:
        from_capture.read(tmp_path / "x.snoop")
    assert "editcap -F pcap" in str(error.value.hint)
    (tmp_path / "part.gz").write_bytes(b"\x1f\x8b\x08\0")
    with pytest.raises(UsageError, match="whole file in gzip"):
        from_capture.read(tmp_path / "part.gz")


def test_blocks_of_sack_are_read_and_broken_options_ignored():
    records = [(0.1, False, 1, 2, ACK, 0, ((5, 9), (20, 30))), (0.2, True, 1, 2, ACK, MSS)]
    found = [*captures.segments(pcap(records), "x", captures.Counter())]
    assert [each[7] for each in found] == [((5, 9), (20, 30)), ()]
    assert captures._sacked(b"\x05\x0a\0\0") == ()
    assert captures._sacked(b"\x08\x00\x05") == ()


def report(rtts_us, resent=0, mbit=19.1):
    intervals = [
        {"streams": [{"rtt": rtt}], "sum": {"end": n + 1, "seconds": 1, "omitted": False,
         "bits_per_second": mbit * 1e6, "retransmits": resent * (n == 3)}}
        for n, rtt in enumerate(rtts_us)
    ]  # fmt: skip
    start = {"test_start": {"protocol": "TCP", "num_streams": 1}, "tcp_mss_default": 1448}
    return {"start": start, "intervals": intervals, "end": {}}


def test_report_of_iperf3_has_a_rate_only_with_a_queue_and_a_loss_only_without(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(report([41000, *[80000] * 8])))
    found = from_capture.read(path)
    assert found.values["rate_mbit"] == pytest.approx(19.1 * 1514 / 1448, rel=1e-3)
    assert found.values["loss_percent"] == 0.0
    path.write_text(json.dumps(report([41000, *[80000] * 8], resent=20)))
    assert "loss_percent" in from_capture.read(path).unknown
    path.write_text(json.dumps(report([41000] * 9, resent=20, mbit=3)))
    found = from_capture.read(path)
    assert found.values["loss_percent"] == pytest.approx(100 * 20 / (27e6 / 8 / 1448), rel=0.01)
    assert list(found.unknown) == ["rate_mbit", "buffer_packets"]


@pytest.mark.parametrize("wrong", ["streams", "rtt", "retransmits"])
def test_other_reports_of_iperf3_are_refused(tmp_path, wrong):
    data = report([41000] * 3)
    middle = data["intervals"][1]
    if wrong == "streams":
        data["start"]["test_start"]["num_streams"] = 2
    elif wrong == "rtt":
        del middle["streams"][0]["rtt"]
    else:
        del middle["sum"]["retransmits"]
    (tmp_path / "x.json").write_text(json.dumps(data))
    with pytest.raises(UsageError, match="one TCP stream"):
        from_capture.read(tmp_path / "x.json")
