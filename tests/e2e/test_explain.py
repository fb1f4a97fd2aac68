"""`losslab explain`: a report that leaves the receive window out, searched twice."""

import json

import yaml

from tests.faults.kit import losslab

REPORT = {
    "reported": {"algorithm": "cubic", "rate_mbit": 20, "rtt_ms": 40, "duration_s": 3,
                 "buffer_packets": "1bdp", "warmup_s": 0.5, "shaper": "tbf"},
    # Of a window of 64 KiB: a window per RTT, and no queue.
    "published": [
        {"condition": {}, "numbers": {"goodput_mbit": 12.6, "retransmits": 0}},
        {"condition": {"rtt_ms": 60}, "numbers": {"goodput_mbit": 8.6}, "held_out": True},
    ],
    "only": ["receive window 64 KiB", "receive window 256 KiB", "RTT x1.1", "no SACK"],
}  # fmt: skip


def test_window_that_a_report_leaves_out_is_found_and_runs_are_kept(tmp_path):
    (tmp_path / "report.yaml").write_text(yaml.safe_dump(REPORT))
    words = ["explain", tmp_path / "report.yaml", "--out", tmp_path / "out"]
    done = losslab(*words)
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "out/explain.json").read_text()
    found = json.loads(first)
    assert found["agreed"] == ["receive window 64 KiB"], done.stdout
    assert found["headline"] in (tmp_path / "out/explain.html").read_text()
    command = found["finalists"][-1]["commands"][0]
    assert "--window-bytes 65535 " in command
    runs = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/runs/*/*/tcp.csv")}
    assert len(runs) == found["runs"]
    assert losslab(*words).returncode == 0
    assert (tmp_path / "out/explain.json").read_text() == first
    assert {path: path.stat().st_mtime_ns for path in runs} == runs
