"""Conversion of a capture and the kernel's samples to qlog."""

import struct

import pytest

from losslab.campaign import qlog
from losslab.emulation import probes
from losslab.emulation.capture import FILE_HEADER, RECORD
from losslab.errors import LosslabError
from losslab.study.condition import Condition

SENDER, RECEIVER = bytes([10, 0, 1, 1]), bytes([10, 0, 3, 2])
PORT, START = 40001, 0xFFFF_FF00  # sequence numbers wrap around during the flow


def frame(protocol, payload, source=SENDER, target=RECEIVER):
    length = 20 + len(payload)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, protocol, 0) + source + target
    return bytes(12) + struct.pack("!H", 0x0800) + ip + payload


def data(at, octets=1000):
    header = struct.pack("!HHIIBBHHH", PORT, 5201, (START + at) % 2**32, 1, 5 << 4, 0x10, 0, 0, 0)
    return frame(6, header + bytes(octets))


def ack(at, *blocks):
    options = b"".join(struct.pack("!II", *((START + n) % 2**32 for n in b)) for b in blocks)
    if blocks:
        options = bytes([1, 1, 5, 2 + len(options)]) + options
    size = (20 + len(options)) // 4 << 4
    header = struct.pack("!HHIIBBHHH", 5201, PORT, 1, (START + at) % 2**32, size, 0x10, 0, 0, 0)
    return frame(6, header + options, RECEIVER, SENDER)


def capture(*frames):
    """Return a pcap with a frame per millisecond, after the pings of the idle path."""
    pings = [frame(1, probes.echo_request(number)) for number in (0, 1, 0)]
    records = [
        RECORD.pack(7, n * 1_000_000, len(each), len(each)) + each
        for n, each in enumerate([*pings, *frames])
    ]
    return FILE_HEADER + b"".join(records)


def test_packets_are_outstanding_until_acknowledged_or_sent_again():
    frames = data(0), data(1000), data(2000), ack(1000, (2000, 3000)), data(1000), ack(3000)
    _, seen = qlog.segments(capture(*frames))
    condition = Condition(algorithm="cubic", app="command", listens="sender")
    assert [s.port for s in qlog.by_flow(seen, condition)] == [s.remote_port for s in seen]
    assert qlog.by_flow(seen, Condition(algorithm="cubic")) == seen
    assert {s.remote_port for s in seen}.isdisjoint({s.port for s in seen})
    assert [packets for _, packets in qlog.outstanding(seen)] == [1, 2, 3, 1, 1, 0]


def test_packets_of_the_sender_are_numbered_from_the_start_of_the_traffic():
    ping_of_traffic = frame(1, probes.echo_request(1))
    _, seen = qlog.sent(capture(data(0), ack(1000), ping_of_traffic, data(1000)))
    assert [its and its.begin for its in seen] == [None, START, None, START + 1000 - 2**32]


ROW = {
    "t_s": "0.0015", "flow": str(PORT), "cwnd_packets": "10", "ssthresh_packets": "",
    "srtt_ms": "20.5", "rttvar_ms": "1.25", "pacing_mbit": "8.000",
}  # fmt: skip


def events(*frames, rows=(ROW,)):
    origin_ns, seen = qlog.segments(capture(*frames))
    (trace,) = qlog.log("run", rows, seen, origin_ns)["traces"]
    return [(e["time"], e["name"].split(":")[1], e["data"]) for e in trace["events"]]


def test_qlog_has_sent_acknowledged_and_lost_packets():
    found = events(data(0), data(1000), data(2000), ack(1000, (2000, 3000)), data(1000), ack(3000))
    named = [(t, name, data) for t, name, data in found if name != "metrics_updated"]
    assert [(t, name) for t, name, _ in named] == [
        (1, "packet_sent"), (2, "packet_sent"), (3, "packet_sent"), (4, "packet_received"),
        (5, "packet_lost"), (5, "packet_sent"), (6, "packet_received"),
    ]  # fmt: skip
    assert named[3][2]["frames"][0]["acked_ranges"] == [[0, 0], [2, 2]]
    assert named[4][2]["header"]["packet_number"] == 1
    assert named[6][2]["frames"][0]["acked_ranges"] == [[3, 3]]
    flying = [data["bytes_in_flight"] for _, _, data in found if "bytes_in_flight" in data]
    assert flying == [1000, 2000, 3000, 1000, 0]


def test_data_connections_come_first_and_are_named():
    origin_ns, seen = qlog.segments(capture(data(0)))
    rows = [ROW | {"flow": "51776"}, ROW]
    first, second = qlog.log("run", rows, seen, origin_ns, {str(PORT): "first"})["traces"]
    assert first["title"] == "data of the flow first, TCP port 40001, run"
    assert second["title"] == "control, TCP port 51776, run"


def test_qlog_has_the_kernels_samples_in_bytes_and_ms():
    found = events(data(0), data(1000))
    time_ms, _, metrics = next(e for e in found if "congestion_window" in e[2])
    assert time_ms == 1.5
    assert metrics == {
        "congestion_window": 14_480, "smoothed_rtt": 20.5, "rtt_variance": 1.25,
        "pacing_rate": 8_000_000,
    }  # fmt: skip
    assert [t for t, _, _ in found] == sorted(t for t, _, _ in found)
    limited = events(rows=[ROW | {"ssthresh_packets": "5"}])
    assert limited[0][2]["ssthresh"] == 7240


def test_capture_of_another_program_is_refused():
    with pytest.raises(LosslabError, match="found another header"):
        qlog.segments(b"\xd4\xc3\xb2\xa1")
    with pytest.raises(LosslabError, match="first ping"):
        qlog.segments(FILE_HEADER)
