"""`losslab compare`: made-up measurements beside a recorded run, and files that are refused."""

import gzip
import json
import struct
from pathlib import Path

import pytest

from losslab import cli
from losslab.campaign.results import Replicate
from losslab.tools.compare import compare
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
    rows, notes = compare.compared(read(EXAMPLES / name, series), [run])
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
    by_second = compare.by_second(found.intervals)
    assert by_second == ({} if goodput_mbit is None else pytest.approx({1: 5, 2: 20, 3: 22}, 0.01))


def test_rows_of_a_table_hold_since_the_row_before(tmp_path):
    (tmp_path / "a.csv").write_text("t_s,goodput_mbit\n1,10\n1.5,10\n2,20\n6,40\n")
    found = read(tmp_path / "a.csv")
    assert found.goodput_mbit == pytest.approx((10 * 0.5 + 10 * 0.5 + 20 * 0.5 + 40 * 4) / 5.5)
    assert compare.by_second(found.intervals) == {2: 15}


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
    assert rows["median RTT"]["file"] == 43
    assert "not comparable" not in notes


def test_several_runs_give_mean_and_range(run):
    other = Replicate(run.folder)
    summary = run.manifest["summary"] | {"goodput_mbit": 18.0}
    other.__dict__["manifest"] = run.manifest | {"summary": summary}
    rows, _ = compare.compared(read(EXAMPLES / "iperf3-tcp.json"), [run, other])
    goodput = rows[0]
    assert (goodput["run"], goodput["low"], goodput["high"]) == (15, 12, 18)


def test_measurement_without_intervals_says_that_the_start_is_in_its_goodput(run):
    rows, notes = compare.compared(Measurement("none", 4.0, 10.0), [run])
    assert [row["metric"] for row in rows] == ["goodput"]
    assert "warm-up, are in the file's goodput" in "\n".join(notes)
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
        ("a.gz", b"\x1f\x8bnot gzip", "must be JSON in gzip"),
        ("cut.gz", gzip.compress(b'{"a": 1}', mtime=0)[:-9], "must be JSON in gzip"),
        ("a.flent.gz", gzip.compress(b'{"results": {"Ping (ms)": [1]}, "x_values": [1]}', mtime=0),
         "flows of one direction"),
        ("b.flent.gz", gzip.compress(b'{"results": {"TCP": [1, 2]}, "x_values": [1]}', mtime=0),
         "must have 1 values in each series, found 2"),
        ("ng.pcap", b"\x0a\x0d\x0d\x0a....", "editcap -F pcap"),
        ("no.pcap", b"\xd4\xc3\xb2\xa1" + bytes(20), "link type"),
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
