"""`losslab compare`: made-up measurements beside a recorded run, and files that are refused."""

import gzip
import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from losslab import cli
from losslab.campaign.results import Replicate
from losslab.reading import UsageError
from losslab.tools.compare import commands
from losslab.tools.compare.measurement import Measurement, read

EXAMPLES = Path(__file__).parent / "examples"


@pytest.fixture
def run(tmp_path):
    """A run of 4 s with 12 Mbit/s, a smoothed RTT of 42 ms and pings of 41 ms."""
    folder = tmp_path / "run"
    folder.mkdir()
    manifest = {
        "valid": True,
        "cell": {"algorithm": "cubic", "warmup_s": 1.0, "duration_s": 4.0},
        "summary": {"goodput_mbit": 12.0, "total_goodput_mbit": 30.0, "retransmits": 6},
    }
    steps = [n / 10 for n in range(1, 41)]
    tables = {
        "intervals.csv": ["t_s,goodput_mbit", *(f"{at},12" for at in steps)],
        "ping.csv": ["t_s,rtt_ms", *(f"{at},41" for at in steps)],
        "tcp.csv": ["t_s,flow,srtt_ms", *(f"{at},40001,42" for at in steps), "3,77,99"],
    }
    for name, lines in tables.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    replicate = Replicate(folder)
    replicate.__dict__["manifest"] = manifest
    return replicate


def compared(name, run, series=""):
    rows, notes = commands.compared(read(EXAMPLES / name, series), [run])
    return {row["metric"]: row for row in rows}, "\n".join(notes)


def test_report_of_iperf3_is_compared_in_every_metric_after_the_warm_up(run):
    rows, notes = compared("iperf3-tcp.json", run)
    # 11, 12 and 13 Mbit/s after the warm-up of 1 s.
    assert rows["goodput"]["file"] == pytest.approx(12)
    assert rows["goodput"]["ratio"] == pytest.approx(1)
    assert rows["retransmissions"]["file"] == 2
    assert rows["retransmissions"]["run"] == 1.5
    assert (rows["median RTT"]["file"], rows["median RTT"]["run"]) == (42, 42)
    assert rows["95th percentile RTT"]["file"] == 43
    assert rows["distance over time"]["run"] == pytest.approx(100 * 2 / 3 / 12)
    assert "bbr in the file, and cubic in the run" in notes
    assert "not comparable" not in notes


@pytest.mark.parametrize(
    ("name", "file", "of_runs", "said"),
    [
        ("iperf3-streams.json", 42, 30, "adds 4 streams"),
        ("iperf3-reverse.json", 12, 12, "not comparable: RTT (only the sending end"),
        ("iperf3-udp.json", 9.9, 12, "not comparable: retransmissions (UDP has none)"),
        ("iperf3-udp.json", 9.9, 12, "not comparable: lost datagrams (the run does not have it)"),
    ],
)
def test_report_of_iperf3_says_what_is_not_comparable(name, file, of_runs, said, run):
    rows, notes = compared(name, run)
    assert (rows["goodput"]["file"], rows["goodput"]["run"]) == (pytest.approx(file), of_runs)
    assert said in notes


def interval(begin, end, mbit, **more):
    """Return an interval of iperf3 with one stream."""
    total = {"end": end, "seconds": end - begin, "bits_per_second": mbit * 1e6, **more}
    return {"streams": [total], "sum": total}


# Totals of a server that received or sent, by iperf3 3.18.
NONE = {"seconds": 3.2, "bits_per_second": 0}
ALL = NONE | {"bits_per_second": 18e6, "lost_percent": 40}


@pytest.mark.parametrize(
    ("protocol", "sender", "end", "goodput_mbit"),
    [
        ("UDP", False, {"sum": NONE | {"lost_percent": 40}, "sum_received": ALL}, 18),
        ("UDP", True, {"sum": ALL | {"lost_percent": 0}, "sum_received": NONE}, None),
        ("TCP", True, {"sum_sent": ALL, "sum_received": NONE}, 18),
        ("TCP", False, {"sum_received": ALL, "sum_received_bidir_reverse": NONE}, 18),
    ],
)
def test_report_of_a_server_of_iperf3_has_the_goodput_of_its_direction(
    protocol, sender, end, goodput_mbit, tmp_path
):
    """Its last interval is short, and may be of a queue that empties, or of none."""
    parts = [(0, 1, 5), (1.001, 2.001, 20), (2.001, 3.001, 22), (3.001, 3.05, 90)]
    report = {
        "start": {"test_start": {"protocol": protocol, "num_streams": 1}},
        "intervals": [interval(*each, sender=sender, rtt=9) for each in parts],
        "end": end,
    }
    report["intervals"][1]["streams"].append({"sender": not sender, "rtt": 5000})
    (tmp_path / "server.json").write_text(json.dumps(report))
    found = read(tmp_path / "server.json")
    assert found.goodput_mbit == goodput_mbit
    assert 5 not in [ms for _, ms in found.rtts_ms]
    assert len(found.notes) == ("sum_received_bidir_reverse" in end)
    by_second = commands.by_second(found.intervals)
    assert by_second == ({} if goodput_mbit is None else pytest.approx({1: 5, 2: 20, 3: 22}, 0.01))


def test_rows_of_a_table_hold_since_the_row_before(tmp_path):
    (tmp_path / "a.csv").write_text("t_s,goodput_mbit\n1,10\n1.5,10\n2,20\n6,40\n")
    found = read(tmp_path / "a.csv")
    assert found.goodput_mbit == pytest.approx((10 * 0.5 + 10 * 0.5 + 20 * 0.5 + 40 * 4) / 5.5)
    assert commands.by_second(found.intervals) == {2: 15}


def test_flows_of_flent_are_added_and_its_ping_is_compared_with_pings(run):
    rows, notes = compared("flent.json", run, "TCP upload")
    # 10 and (12 + 14) / 2 Mbit/s in the second and the third second.
    assert rows["goodput"]["file"] == pytest.approx(11.5)
    assert (rows["median RTT"]["file"], rows["median RTT"]["run"]) == (42, 41)
    assert "flent's series of flows have none" in notes


def test_capture_has_goodput_retransmissions_and_rtt_of_its_largest_connection(run):
    found = read(EXAMPLES / "sender.pcap")
    assert found.seconds == pytest.approx(1.9)
    assert found.goodput_mbit == pytest.approx(20 * 8e-3 / 1.9)
    assert found.retransmits == 1
    # The acknowledgement of a packet that was sent twice has no RTT.
    assert len(found.rtts_ms) == 19
    assert [ms for _, ms in found.rtts_ms] == pytest.approx([40.0] * 19)


def test_table_of_another_tool_is_compared_by_its_columns(run):
    rows, notes = compared("table.csv", run)
    assert rows["goodput"]["file"] == pytest.approx(13.5)
    assert rows["retransmissions"]["file"] == 1
    assert rows["median RTT"]["file"] == 43.5  # W7: of 43 and 44
    assert "not comparable" not in notes


def test_several_runs_give_mean_and_range(run):
    other = Replicate(run.folder)
    summary = run.manifest["summary"] | {"goodput_mbit": 18.0}
    other.__dict__["manifest"] = run.manifest | {"summary": summary}
    rows, _ = commands.compared(read(EXAMPLES / "iperf3-tcp.json"), [run, other])
    goodput = rows[0]
    assert (goodput["run"], goodput["low"], goodput["high"]) == (15, 12, 18)


def test_file_of_the_runs_length_is_inside_below_or_above_five_runs(run):
    """A10: the table had the range, and not whether the file lies in it."""
    measured = read(EXAMPLES / "iperf3-tcp.json")
    own = commands.compared(measured, [run])[0][0]["file"]
    for factor, place in ((1.0, "inside"), (1.2, "below"), (0.8, "above")):
        runs = []
        for number in range(5):
            value = own * factor * (1 + number / 100 - 0.02)
            other = Replicate(run.folder)
            summary = run.manifest["summary"] | {"goodput_mbit": value}
            other.__dict__["manifest"] = run.manifest | {"summary": summary}
            runs.append(other)
        rows, notes = commands.compared(measured, runs)
        assert rows[0]["place"] == place, rows[0]
        assert not any("lies in the runs' range" in note for note in notes)
    assert commands.compared(measured, runs[:4])[0][0]["place"] is None
    # Of another length, nothing is said.
    rows, notes = commands.compared(replace(measured, seconds=40.0, intervals=()), runs)
    assert {row["place"] for row in rows} == {None}
    assert any("the file has 40 s and each run" in note for note in notes)


def test_measurement_without_intervals_says_that_the_start_is_in_its_goodput(run):
    rows, notes = commands.compared(Measurement("none", 4.0, 10.0), [run])
    assert [row["metric"] for row in rows] == ["goodput"]
    assert "warm-up, are in the file's numbers" in "\n".join(notes)
    assert "not comparable: goodput over time" in "\n".join(notes)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("absent", None, "does not exist"),
        ("empty", b"", "must name its columns"),
        ("error.json", b'{"start": {}, "error": "unable to connect"}', "unable to connect"),
        ("other.json", b'{"a": 1}', "iperf3.schema.yaml"),
        ("cut.json", b'{"start": {', "must be JSON"),
        ("none.json", b'{"start": {"test_start": {"protocol": "TCP", "num_streams": 1}}, '
         b'"intervals": [], "end": {}}', "totals of the test"),
        ("a.gz", b"\x1f\x8bnot gzip", "must be a file in gzip"),
        ("cut.gz", gzip.compress(b'{"a": 1}', mtime=0)[:-9], "must be a file in gzip"),
        ("a.flent.gz", gzip.compress(b'{"results": {"Ping (ms)": [1]}, "x_values": [1]}', mtime=0),
         "flows of one direction"),
        ("b.flent.gz", b'{"results": {"TCP upload": [1, 2]}, "x_values": [1]}',
         "must have 1 values in each series, found 2"),
        ("ng.pcap", b"\x0a\x0d\x0d\x0a....", "TCP connection with data"),
        ("no.pcap", b"\xd4\xc3\xb2\xa1" + bytes(16) + b"\x69\0\0\0", "105 (IEEE 802.11)"),
        ("zero.pcap", b"\xd4\xc3\xb2\xa1" + bytes(16) + b"\x01\0\0\0", "TCP connection with data"),
        ("head.csv", b"t_s,speed\n1,2\n", "rename the columns"),
        ("text.csv", b"t_s,goodput_mbit\n1,fast\n", "line 2: goodput_mbit must be a finite number"),
        ("below.csv", b"t_s,goodput_mbit\n1,-2\n", "at least 0"),
        ("fall.csv", b"t_s,retransmits\n1,5\n2,3\n", "retransmits of"),
        ("back.csv", b"t_s,goodput_mbit\n2,5\n1,3\n", "found 1 after 2"),
        ("unix.csv", b"t_s,goodput_mbit\n1.7e9,5\n", "subtract the time"),
    ],
)  # fmt: skip
def test_file_that_is_no_measurement_is_refused_by_what_is_wrong(
    name, content, said, tmp_path, capsys
):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert cli.main(["compare", str(path), "--run", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


def test_command_prints_a_table_or_json(recorded, capsys):
    run = str(recorded("bulk_cubic_loss1_"))
    words = ["compare", str(EXAMPLES / "iperf3-tcp.json"), "--run", run]
    assert cli.main(words) == 0
    assert "run / file" in capsys.readouterr().out
    assert cli.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"][0]["metric"] == "goodput"
    words[1] = str(EXAMPLES)
    assert cli.main(words) == 2


def packet(at_ms, link, version, back=False):
    """Return 100 bytes of data, or their acknowledgement, with the headers of a link."""
    octets = 0 if back else 100
    begin, acked = (7, 1000 + at_ms) if back else (900 + at_ms, 7)
    ports = (80, 5000) if back else (5000, 80)
    tcp = struct.pack("!HHIIBBHHH", *ports, begin, acked, 5 << 4, 0x10, 0, 0, 0)
    ends = (b"\2", b"\1") if back else (b"\1", b"\2")
    if version == 4:
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 40 + octets, 0, 0, 64, 6, 0)
        ip += b"".join(end * 4 for end in ends)
    else:
        ip = struct.pack("!IHBB", 6 << 28, 20 + octets, 6, 64) + b"".join(end * 16 for end in ends)
    kind = struct.pack("!H", 0x0800 if version == 4 else 0x86DD)
    head = {1: bytes(12) + kind, 101: b"", 113: bytes(14) + kind, 276: kind + bytes(18)}
    return head[link] + ip + tcp


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("link", [1, 101, 113, 276])
@pytest.mark.parametrize(("order", "magic", "ticks"), [("<", 0xA1B2C3D4, 10**3),
                                                       (">", 0xA1B23C4D, 10**6)])  # fmt: skip
def test_capture_of_any_link_and_byte_order_is_read(tmp_path, order, magic, ticks, link, version):
    data = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 96, link)
    for at_ms in (100, 200, 300):
        for late_ms, back in ((0, False), (30, True)):
            frame = packet(at_ms, link, version, back)
            data += struct.pack(f"{order}IIII", 5, (at_ms + late_ms) * ticks, len(frame), 999)
            data += frame
    (tmp_path / "a.pcap").write_bytes(data)
    found = read(tmp_path / "a.pcap")
    assert found.seconds == pytest.approx(0.2)
    assert found.goodput_mbit == pytest.approx(300 * 8e-6 / 0.2)
    assert [ms for _, ms in found.rtts_ms] == pytest.approx([30] * 3)


def pcap(segments, link=1, head=None, total=None, numbers=None, window=9):
    """Return a capture of one connection: (s, sequence, bytes, acknowledgement or None).

    `numbers` are the packets' identifications in IPv4.
    """
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, link)
    numbers = numbers or [0] * len(segments)
    for (at_s, begin, octets, acked), number in zip(segments, numbers, strict=True):
        back = acked is not None
        ports = (80, 5000) if back else (5000, 80)
        tcp = struct.pack("!HHIIBBHHH", *ports, begin, acked or 1, 5 << 4, 0x10, window, 0, 0)
        ends = (b"\2", b"\1") if back else (b"\1", b"\2")
        length = 40 + octets if total is None else total
        ip = struct.pack("!BBHHHBBH", 0x45, 0, length, number, 0, 64, 6, 0)
        ip += b"".join(end * 4 for end in ends)
        frame = (bytes(12) + b"\x08\0" if head is None else head) + ip + tcp
        parts = round(at_s % 1 * 1e6)
        data += struct.pack("<IIII", int(at_s), parts, len(frame), len(frame) + octets) + frame
    return data


def evenly(first_s, last_s, mbit):
    """Return times of segments of 1000 bytes at a rate."""
    count = round((last_s - first_s) * mbit * 125)
    return [first_s + (last_s - first_s) * n / count for n in range(count)]


STALLED = [*evenly(0.02, 1, 8), *evenly(5, 5.9, 40)]


def written(path, times, **more):
    path.write_bytes(pcap([(at, 1 + 1000 * n, 1000, None) for n, at in enumerate(times)], **more))
    return path


def test_w1_capture_keeps_the_data_after_a_stall(run, tmp_path):
    found = read(written(tmp_path / "stalled.pcap", STALLED))
    assert found.goodput_mbit == pytest.approx(7.5, rel=0.02)
    rows, _ = commands.compared(found, [run])
    by_metric = {row["metric"]: row["file"] for row in rows}
    assert by_metric["goodput"] == pytest.approx(7.4, rel=0.01)


def test_w1_retransmissions_and_goodput_are_of_one_interval(run, tmp_path):
    """Of 6 s, the first is the warm-up; the last 2 s have only retransmissions."""
    times = evenly(0, 4, 8)
    segments = [(at, 1 + 1000 * n, 1000, None) for n, at in enumerate(times)]
    segments += [(0.5, 1, 1000, None)] * 10 + [(4 + n, 1, 1000, None) for n in (1, 2)]
    segments.sort(key=lambda segment: segment[0])
    (tmp_path / "dead.pcap").write_bytes(pcap(segments))
    found = read(tmp_path / "dead.pcap")
    assert found.seconds == pytest.approx(6)
    rows, _ = commands.compared(found, [run])
    by_metric = {row["metric"]: row["file"] for row in rows}
    assert by_metric["goodput"] == pytest.approx(8 * 3 / 5, rel=0.01)
    assert by_metric["retransmissions"] == pytest.approx(2 / 5)


def test_keepalives_are_no_data(tmp_path):
    """A last byte that has its acknowledgement asks only whether the peer is there."""
    segments = [(at, 1 + 1000 * n, 1000, None) for n, at in enumerate(evenly(0, 2, 8))]
    end = segments[-1][1] + 1000
    segments += [(2.1, 1, 0, end), (30, end - 1, 1, None), (60, end - 1, 1, None)]
    (tmp_path / "a.pcap").write_bytes(pcap(segments))
    found = read(tmp_path / "a.pcap")
    assert (found.seconds, found.retransmits) == (pytest.approx(2, rel=0.01), 0)
    # Without the acknowledgement, it is data that is sent again.
    del segments[-3]
    (tmp_path / "a.pcap").write_bytes(pcap(segments))
    assert read(tmp_path / "a.pcap").retransmits == 2


def test_probes_of_a_closed_window_are_no_retransmissions(tmp_path):
    data = [(at, 1 + 1000 * n, 1000, None) for n, at in enumerate(evenly(0, 1, 8))]
    end = data[-1][1] + 1000
    closed = [(1.01, 1, 0, end)] + [(1 + n, end, 1, None) for n in (1, 2, 4, 8)]
    (tmp_path / "a.pcap").write_bytes(pcap([*data, *closed], window=0))
    assert read(tmp_path / "a.pcap").retransmits == 0
    (tmp_path / "a.pcap").write_bytes(pcap([*data, *closed], window=9))
    assert read(tmp_path / "a.pcap").retransmits == 3


@pytest.mark.parametrize(("late_s", "resent"), [(0.002, 0), (0.1, 1)])
def test_data_that_the_capture_has_late_is_in_the_goodput(tmp_path, late_s, resent):
    """At a receiver, what was lost comes after later data, or packets overtake each other."""
    times = evenly(0, 2, 8)
    segments = [(at, 1 + 1000 * n, 1000, None) for n, at in enumerate(times)]
    segments[700] = (times[700] + late_s, *segments[700][1:])
    (tmp_path / "a.pcap").write_bytes(pcap(sorted(segments)))
    found = read(tmp_path / "a.pcap")
    assert found.goodput_mbit * found.seconds == pytest.approx(len(times) * 8e-3)
    assert found.retransmits == resent


def test_file_in_another_format_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "x.snoop.gz").write_bytes(gzip.compress(b"snoop\0\0\0\0\0\0\2"))
    with pytest.raises(UsageError, match="found a capture of snoop") as error:
        read(tmp_path / "x.snoop.gz")
    assert "editcap -F pcap" in str(error.value.hint)
    (tmp_path / "x").write_bytes(bytes(range(64)))
    with pytest.raises(UsageError, match="found other bytes"):
        read(tmp_path / "x")


def test_copies_of_packets_are_no_retransmissions(tmp_path):
    """Captures of several interfaces have them, with the identification of the first."""
    times = evenly(0, 2, 4)
    segments, numbers = [], []
    for n, at in enumerate(times):
        data, reply = (at, 1 + 1000 * n, 1000, None), (at + 5e-4, 1, 0, 1001 + 1000 * n)
        segments += [data, (at + 1e-4, *data[1:]), reply, (at + 6e-4, *reply[1:])]
        numbers += [2 * n + 1] * 2 + [7000 + n] * 2
    (tmp_path / "a.pcap").write_bytes(pcap(segments, numbers=numbers))
    found = read(tmp_path / "a.pcap")
    assert found.retransmits == 0
    assert [ms for _, ms in found.rtts_ms] == pytest.approx([0.5] * len(times), abs=0.01)
    assert f"{2 * len(times)} copies" in " ".join(found.notes)
    # Sent again: another identification.
    numbers[1] = 9000
    (tmp_path / "a.pcap").write_bytes(pcap(segments, numbers=numbers))
    assert read(tmp_path / "a.pcap").retransmits == 1


def test_data_below_options_of_ipv6_is_read(tmp_path):
    """Large segments of Linux (BIG TCP) have their length there."""
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 229)
    for n in range(3):
        tcp = struct.pack("!HHIIBBHHH", 5000, 80, 1 + 80_000 * n, 7, 5 << 4, 0x10, 0, 0, 0)
        options = struct.pack("!BBBBI", 6, 0, 0xC2, 4, 80_020 + 8)
        frame = struct.pack("!IHBB", 6 << 28, 0, 0, 64) + bytes(32) + options + tcp
        data += struct.pack("<IIII", n, 0, len(frame), len(frame) + 80_000) + frame
    (tmp_path / "a.pcap").write_bytes(data)
    assert read(tmp_path / "a.pcap").goodput_mbit == pytest.approx(0.96)


def test_w1_runs_retransmissions_are_of_the_same_interval(run):
    lines = ["t_s,flow,srtt_ms,retransmits", *(f"{n / 2},40001,42,{9 + n}" for n in range(1, 9))]
    (run.folder / "tcp.csv").write_text("\n".join(lines) + "\n")
    rows, _ = compared("iperf3-tcp.json", run)
    assert rows["retransmissions"]["run"] == 6 / 3


def test_w1_short_capture_is_compared_as_a_whole(run, tmp_path):
    rows, _ = commands.compared(read(written(tmp_path / "a.pcap", evenly(0, 1.9, 10))), [run])
    assert rows[0]["file"] == pytest.approx(10, rel=0.01)


FLENT_SERIES = {
    "TCP upload BE1 a": 0.25, "TCP upload BE2 b": 0.25, "TCP upload::3": 0.25, "TCP upload 4": 0.25,
    "TCP upload avg": 0.25, "TCP upload sum": 1.0, "TCP upload fairness": 1.0,
    "TCP upload Jain": 1.0, "TCP upload::1::tcp_cwnd": 30.0, "Ping (ms) ICMP": 20.0,
    "qdisc_stats_box::drop_next": -0.2,
}  # fmt: skip


def flent_file(path, names):
    times = [n / 5 for n in range(50)]
    results = {name: [FLENT_SERIES[name]] * len(times) for name in names}
    data = {"x_values": times, "results": results}
    path.write_bytes(gzip.compress(json.dumps(data).encode(), mtime=0))
    return path


def test_w2_only_series_of_flows_are_added(tmp_path):
    found = read(flent_file(tmp_path / "a.flent.gz", FLENT_SERIES))
    assert (found.goodput_mbit, found.streams) == (pytest.approx(1), 4)
    assert "TCP upload fairness, TCP upload Jain" in found.notes[0]


def test_r_parts_that_are_not_needed_do_not_refuse_a_file(tmp_path):
    """A negative value in another series, and datagrams that arrived late, are of no number."""
    file = flent_file(tmp_path / "a.flent.gz", ["TCP upload 4", "qdisc_stats_box::drop_next"])
    assert read(file).goodput_mbit == pytest.approx(0.25)
    report = json.loads((EXAMPLES / "iperf3-udp.json").read_text())
    report["intervals"][0]["sum"] |= {"lost_packets": -250, "lost_percent": -27.8}
    (tmp_path / "late.json").write_text(json.dumps(report))
    assert "arrived later than counted: 1" in "".join(read(tmp_path / "late.json").notes)


def test_r_hint_leads_to_a_measurement(tmp_path):
    """What the message for two directions names can be chosen."""
    names = {"TCP download BE": 3.0, "TCP upload BE": 2.0, "Ping (ms)": 9.0}
    data = {"x_values": [1, 2], "results": {name: [value] * 2 for name, value in names.items()}}
    (tmp_path / "a.json").write_text(json.dumps(data))
    with pytest.raises(UsageError) as refused:
        read(tmp_path / "a.json")
    series = refused.value.hint.split("--series '")[1].split("'")[0]
    assert read(tmp_path / "a.json", series).goodput_mbit == 3


IPERF2 = """------------------------------------------------------------
Client connecting to 10.0.0.2, TCP port 5001
[  3] local 10.0.0.1 port 40000 connected with 10.0.0.2 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3]  0.0- 1.0 sec  1.25 MBytes  8.00 Mbits/sec
[  3]  1.0- 2.0 sec  1.25 MBytes  10.0 Mbits/sec
[  3]  2.0- 3.0 sec  1.25 MBytes  12000 Kbits/sec
[  3]  0.0- 3.1 sec  3.75 MBytes  9.68 Mbits/sec
"""
IPERF3 = """[  5] local 10.0.0.1 port 40000 connected to 10.0.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  1.25 MBytes  8.00 Mbits/sec    7   66.5 KBytes
[  5]   1.00-2.00   sec  1.25 MBytes  10.0 Mbits/sec    2   66.5 KBytes
[  5]   2.00-3.00   sec  1.25 MBytes  12.0 Mbits/sec    4   66.5 KBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[  5]   0.00-3.00   sec  3.75 MBytes  10.0 Mbits/sec    13             sender
[  5]   0.00-3.04   sec  3.60 MBytes  9.68 Mbits/sec                  receiver
"""
SUMS = """Server listening on UDP port 5001
[  1] 0.0000-1.0000 sec  1.25 MBytes  3.00 MBytes/sec   0.005 ms    0/  893 (0%)
[  2] 0.0000-1.0000 sec  1.25 MBytes  5.00 Mbits/sec   0.005 ms    0/  893 (0%)
[SUM] 0.0000-1.0000 sec  1.25 MBytes  9.68 Mbits/sec   0.005 ms   10/ 1000 (1%)
"""


@pytest.mark.parametrize(
    ("text", "parts", "resent", "lost", "streams"),
    [
        (IPERF2, [8, 10, 12], None, None, 1),
        (IPERF3, [8, 10, 12], 13, None, 1),
        (SUMS, [9.68], None, 1, 2),
    ],
)
def test_r_text_of_iperf_is_read(tmp_path, text, parts, resent, lost, streams):
    (tmp_path / "iperf.txt").write_text(text)
    found = read(tmp_path / "iperf.txt")
    assert found.goodput_mbit == 9.68
    assert [mbit for *_, mbit in found.intervals] == parts
    assert (found.retransmits, found.lost_percent, found.streams) == (resent, lost, streams)


HEADS = {
    "PPPoE": (1, bytes(12) + b"\x88\x64" + bytes(6) + b"\x00\x21"),
    "PPPoE in a VLAN": (1, bytes(12) + b"\x81\0\0\5\x88\x64" + bytes(6) + b"\x21"),
    "VLAN": (1, bytes(12) + b"\x81\0\0\5\x08\0"),
    "two VLANs": (1, bytes(12) + b"\x88\xa8\0\5\x81\0\0\6\x08\0"),
    "loopback of BSD": (0, b"\2\0\0\0"), "PPP": (9, b"\xff\x03\0\x21"), "IPv4": (228, b""),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_r_captures_of_links_are_read(tmp_path, name):
    link, head = HEADS[name]
    found = read(written(tmp_path / "a.pcap", evenly(0, 2, 4), link=link, head=head))
    assert found.goodput_mbit == pytest.approx(4, rel=0.01)


def test_r_segments_without_a_length_have_that_of_the_wire(tmp_path):
    """Linux leaves the length of a large segment 0 that the interface will cut."""
    found = read(written(tmp_path / "a.pcap", evenly(0, 2, 4), total=0))
    assert found.goodput_mbit == pytest.approx(4, rel=0.01)


@pytest.mark.parametrize("order", "<>")
def test_r_pcapng_is_read(tmp_path, order):
    packed = pcap([(at, 1 + 1000 * n, 1000, None) for n, at in enumerate(evenly(0, 2, 4))])

    def block(kind, body):
        body += bytes(-len(body) % 4)
        size = struct.pack(f"{order}I", len(body) + 12)
        return struct.pack(f"{order}I", kind) + size + body + size

    data = block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    resolution = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
    data += block(1, struct.pack(f"{order}HHI", 1, 0, 96) + resolution)
    at = 24
    while at < len(packed):
        seconds, parts, kept, wire = struct.unpack_from("<IIII", packed, at)
        ns = seconds * 10**9 + parts * 1000
        head = struct.pack(f"{order}IIIII", 0, ns >> 32, ns & 0xFFFFFFFF, kept, wire)
        data += block(6, head + packed[at + 16 : at + 16 + kept])
        at += 16 + kept
    (tmp_path / "a.pcapng.gz").write_bytes(gzip.compress(data))
    found = read(tmp_path / "a.pcapng.gz")
    assert found.goodput_mbit == pytest.approx(4, rel=0.01)


def test_r_refusal_says_what_the_capture_has(tmp_path):
    head = bytes(12) + b"\x88\xcc"
    with pytest.raises(UsageError, match="found 8 packets of the protocol 0x88cc"):
        read(written(tmp_path / "a.pcap", range(8), head=head))
    with pytest.raises(UsageError, match="in two segments at least, found 1 segment of data"):
        read(written(tmp_path / "a.pcap", [1]))


def test_r_stream_of_json_is_read(run, tmp_path):
    report = json.loads((EXAMPLES / "iperf3-tcp.json").read_text())
    events = [("start", report["start"])]
    events += [("interval", part) for part in report["intervals"]] + [("end", report["end"])]
    lines = [json.dumps({"event": name, "data": data}) for name, data in events]
    (tmp_path / "a.json").write_text("\n".join(lines) + "\n")
    whole = read(EXAMPLES / "iperf3-tcp.json")
    assert read(tmp_path / "a.json") == whole
