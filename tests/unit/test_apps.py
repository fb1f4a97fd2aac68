import json

import pytest

from losslab.apps import ffmpeg, iperf3
from losslab.errors import LosslabError
from tests.unit.test_condition import CONDITION


def write_iperf3(folder, rates_mbit):
    intervals = [
        {"sum": {"end": (i + 1) / 10, "seconds": 0.1, "bytes": rate * 1e6 / 8 / 10}}
        for i, rate in enumerate(rates_mbit)
    ]
    (folder / "receiver.log").write_text(json.dumps({"intervals": intervals}))
    (folder / "sender.log").write_text(json.dumps({"end": {"sum_sent": {"retransmits": 5}}}))


def test_goodput_leaves_out_warm_up_and_tail(tmp_path):
    write_iperf3(tmp_path, [900] * 10 + [100] * 90 + [900] * 5)
    summary = iperf3.collect(CONDITION, tmp_path, 0)
    assert summary["goodput_mbit"] == pytest.approx(100)
    assert summary["retransmits"] == 5


def test_iperf3_error_is_an_error(tmp_path):
    write_iperf3(tmp_path, [100] * 100)
    (tmp_path / "sender.log").write_text(json.dumps({"error": "unable to connect"}))
    with pytest.raises(LosslabError, match="unable to connect"):
        iperf3.collect(CONDITION, tmp_path, 0)


def test_frames_are_read_with_their_time_base():
    text = "5 #tb 0: 1/1000\n10 0, 0, 0, 33, 400, 0xabc\n20 0, 33, 33, 33, 500, 0xdef\n"
    assert ffmpeg.parse_frames(text) == [(0.0, 10, 400), (0.033, 20, 500)]


def test_punctual_frames_do_not_stall():
    frames = [(i / 30, 5 + i / 30) for i in range(90)]
    found = ffmpeg.playout(frames, 0.2)
    assert found == {"stall_count": 0, "stall_s": 0.0, "frames_on_time_percent": 100}


def test_one_late_frame_is_one_stall_of_its_lateness():
    frames = [(i / 10, i / 10) for i in range(10)]
    frames[5] = (0.5, 1.0)
    found = ffmpeg.playout(frames, 0.2)
    assert found["stall_count"] == 1
    assert found["stall_s"] == pytest.approx(0.3)
    assert found["frames_on_time_percent"] == 90


def test_a_player_that_waited_is_not_late_again():
    frames = [(i / 10, i / 10 + (1.0 if i >= 5 else 0)) for i in range(10)]
    found = ffmpeg.playout(frames, 0.2)
    assert found["stall_count"] == 1
    assert found["frames_on_time_percent"] == 50
