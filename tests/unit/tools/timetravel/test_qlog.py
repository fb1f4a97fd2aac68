"""Conversion of a capture and the kernel's samples to qlog."""

from losslab.campaign import packets
from losslab.emulation import probes
from losslab.tools.timetravel import export, why
from tests.unit.campaign.test_packets import PORT, START, ack, capture, data, frame

ROW = {
    "t_s": "0.0015", "flow": str(PORT), "cwnd_packets": "10", "ssthresh_packets": "",
    "srtt_ms": "20.5", "rttvar_ms": "1.25", "pacing_mbit": "8.000",
}  # fmt: skip


def events(*frames, rows=(ROW,)):
    origin_ns, seen = packets.segments(capture(*frames))
    (trace,) = export.log("run", rows, seen, origin_ns)["traces"]
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
    origin_ns, seen = packets.segments(capture(data(0)))
    rows = [ROW | {"flow": "51776"}, ROW]
    first, second = export.log("run", rows, seen, origin_ns, {str(PORT): "first"})["traces"]
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


def test_packets_of_the_sender_are_numbered_from_the_start_of_the_traffic():
    ping_of_traffic = frame(1, probes.echo_request(1))
    content = capture(data(0), ack(1000), ping_of_traffic, data(1000))
    seen = why.sent(content, packets.traffic(content)[0])
    assert [its and its.begin for its in seen] == [None, START, None, START + 1000 - 2**32]
