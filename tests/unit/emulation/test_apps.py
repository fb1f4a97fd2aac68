import dataclasses
import itertools
import json

import pytest

from losslab.emulation import goodput
from losslab.emulation.apps import ffmpeg, iperf3, web
from losslab.emulation.plan import make_plan
from losslab.emulation.programs import Timeline
from losslab.errors import LosslabError
from tests.unit.study.test_condition import CONDITION

TIMELINE = Timeline(origin_ns=0, started_s={"iperf3": 0.0, "competitor-iperf3": 0.1})


def write_iperf3(folder, delivered_mbit, read_mbit=None, prefix="", acked=None):
    """Write both ends' logs and the sender's samples every 0.1 s, for rates from 0 s on.

    `acked` has for each sample the number of the sample up to which nothing is missing.
    """
    intervals = [
        {"sum": {"end": (i + 1) / 10, "seconds": 0.1, "bytes": rate * 1e6 / 8 / 10}}
        for i, rate in enumerate(read_mbit or delivered_mbit)
    ]
    port = iperf3.SOURCE_PORT + bool(prefix)
    octets = [0, *itertools.accumulate(round(rate * 1e6 / 8 / 10) for rate in delivered_mbit)]
    table = folder / "tcp.csv"
    before = table.read_text() if prefix else "t_s,flow,acked_bytes,delivered_bytes\n"
    in_order = [*map(octets.__getitem__, acked or range(len(octets)))]
    lines = [
        f"{i / 10:.6f},{port},{least},{count}"
        for i, (least, count) in enumerate(zip(in_order, octets, strict=True))
    ]
    table.write_text(before + "\n".join(lines) + "\n")
    (folder / f"{prefix}receiver.log").write_text(json.dumps({"intervals": intervals}))
    (folder / f"{prefix}sender.log").write_text(
        json.dumps({"end": {"sum_sent": {"retransmits": 5}}})
    )


def collected(folder, **more):
    plan = make_plan(dataclasses.replace(CONDITION, **more), 7)
    return iperf3.FEATURE.collect(plan, folder, TIMELINE)


def test_w2_data_behind_a_hole_at_the_warm_ups_end_is_not_counted(tmp_path):
    """W2: the receiver reads the data of 0.2 s at once; the link never exceeds 100 Mbit/s."""
    read = [100] * 9 + [0, 0, 300] + [100] * 88
    write_iperf3(tmp_path, [100] * 100, read, acked=[*range(10), 9, 9, *range(12, 101)])
    summary = collected(tmp_path)
    assert summary["goodput_mbit"] == pytest.approx(100)
    assert summary["received_mbit"] == pytest.approx(100)
    rows = (tmp_path / "intervals.csv").read_text().split()
    assert rows[0] == "t_s,goodput_mbit"
    assert {row.split(",")[1] for row in rows[1:]} == {"100.000000"}
    assert len(rows) == 101


def test_w2_data_behind_a_hole_at_the_end_is_not_received(tmp_path):
    write_iperf3(tmp_path, [100] * 100, acked=[*range(92), *[91] * 9])
    summary = collected(tmp_path)
    seconds = CONDITION.duration_s - CONDITION.warmup_s
    assert summary["received_mbit"] == pytest.approx(100 * (seconds - 0.9) / seconds)
    assert summary["goodput_mbit"] == pytest.approx(100)


def test_w2_run_in_which_nothing_arrives_receives_0(tmp_path):
    write_iperf3(tmp_path, [0] * 100)
    assert collected(tmp_path)["received_mbit"] == 0


def test_w2_window_of_the_received_payload_ends_at_the_end(tmp_path):
    """W2: the window ended at iperf3's last interval, as 2.048 s of 2 s."""
    write_iperf3(tmp_path, [100] * 20 + [0] * 80, [100] * 19 + [300] + [0] * 80)
    assert collected(tmp_path, duration_s=2.0)["received_mbit"] == pytest.approx(100)


def test_goodput_begins_when_the_first_data_connection_opens(tmp_path):
    """iperf3's control connection opened after the warm-up; its set-up counted as time."""
    write_iperf3(tmp_path, [100] * 100)
    table = tmp_path / "tcp.csv"
    head, *rows = table.read_text().splitlines()
    late = [row for row in rows if float(row.split(",")[0]) >= 3]
    control = [f"{n / 10:.6f},50000,185,185" for n in range(15, 100)]
    table.write_text("\n".join([head, *control, *late]) + "\n")
    summary = collected(tmp_path)
    assert (summary["goodput_mbit"], summary["received_mbit"]) == pytest.approx((100, 100))


def test_jain_index_ranges_from_one_over_n_to_one():
    assert goodput.jain_index([5, 5, 5]) == 1
    assert goodput.jain_index([7, 0]) == 0.5
    assert goodput.jain_index([0, 0]) is None  # A10


@pytest.mark.parametrize(("duration_s", "frames"), [(1.0, 30), (1.01, 31), (1.51, 46), (2.99, 90)])
def test_all_frames_that_begin_before_the_end_are_100_percent(tmp_path, duration_s, frames):
    """A10: 1.01 s of video have 31 frames, which were 103.3 % of 30."""
    condition = dataclasses.replace(
        CONDITION, app="ffmpeg", duration_s=duration_s, warmup_s=0.2, rtt_ms=20
    )
    lines = [
        "0 #tb 0: 1/30",
        *(f"{n * 10**7} 0, {n}, {n}, 1, 9, 0x0" for n in range(1, frames + 1)),
    ]
    (tmp_path / "receiver.log").write_text("\n".join(lines))
    plan = make_plan(condition, 7, tmp_path / "video.mp4")
    found = ffmpeg.FEATURE.collect(plan, tmp_path, TIMELINE)
    assert found["frames_delivered_percent"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        ({}, {"stall_count": 0, "stall_s": 0, "frames_on_time_percent": 100}),
        ({5: 0.5}, {"stall_count": 1, "stall_s": 0.3, "frames_on_time_percent": 90}),
        # A stalled player shifts later deadlines.
        (dict.fromkeys(range(5, 10), 1.0),
         {"stall_count": 1, "stall_s": 0.8, "frames_on_time_percent": 50}),
    ],
)  # fmt: skip
def test_player_stalls_for_late_frames(late, expected):
    frames = [(n / 10, 5 + n / 10 + late.get(n, 0)) for n in range(10)]
    assert ffmpeg.playout(frames, 0.2) == pytest.approx(expected)


def write_web(folder, **changes):
    report = {
        "http_code": 200, "size_download": web.PAGE_BYTES, "time_total": 4.6, "time_connect": 0.6,
        "time_starttransfer": 1.2,
    }  # fmt: skip
    (folder / "web-client.log").write_text(json.dumps(report | changes))
    (folder / "ping.csv").write_text("t_s,rtt_ms\n0.5,20\n2,500\n3,700\n31,9000\n")
    lines = ["30,80,,0", "31,80,16,3", "31,40001,9,99", "32,80,8,5"]
    header = "t_s,flow,ssthresh_packets,retransmits"
    (folder / "tcp.csv").write_text("\n".join([header, *lines]) + "\n")


WEB = dataclasses.replace(CONDITION, app="web", duration_s=60)
WEB_TIMELINE = Timeline(origin_ns=0, started_s={"web": 30.0})


def test_web_rtt_is_measured_between_warm_up_and_fetch(tmp_path):
    write_web(tmp_path)
    summary = web.FEATURE.collect(make_plan(WEB, 7), tmp_path, WEB_TIMELINE)
    assert summary["download_s"] == 4.6
    assert summary["rtt_before_fetch_ms"] == 600
    assert (summary["page_retransmits"], summary["page_ssthresh_packets"]) == (5, 16)
    assert summary["rtt_before_fetch_min_ms"] == 500
    assert summary["rtt_before_fetch_max_ms"] == 700
    assert summary["rtt_before_fetch_mdev_ms"] == 100
    for changes, word in (({"http_code": 404}, "404"), ({"size_download": 1000}, "1000")):
        write_web(tmp_path, **changes)
        with pytest.raises(LosslabError, match=word):
            web.FEATURE.collect(make_plan(WEB, 7), tmp_path, WEB_TIMELINE)
