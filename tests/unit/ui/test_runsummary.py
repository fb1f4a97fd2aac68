"""Summary of a run for a terminal."""

import dataclasses

from losslab.ui import runsummary
from tests.unit.study.test_condition import CONDITION

SUMMARY = {
    "goodput_mbit": 18.910482666666667, "rtt_ms": 40.0, "rtt_loaded_ms": 61.20001,
    "retransmits": 12345, "page_ssthresh_packets": None,
}  # fmt: skip
MANIFEST = {"valid": True, "reasons": [], "cell": CONDITION.to_json(), "seed": 7}


def lines(tmp_path, **more):
    return runsummary.text({**MANIFEST, "summary": SUMMARY, **more}, tmp_path).splitlines()


def test_valid_run_shows_verdict_numbers_with_units_files_and_next_steps(tmp_path):
    for name in ("manifest.json", "tcp.csv"):
        (tmp_path / name).write_text("")
    found = lines(tmp_path)
    assert found[0] == "valid: all checks passed"
    assert "cubic" in found[1]
    assert found[1].endswith("seed 7")
    words = [" ".join(line.split()) for line in found]
    assert "Goodput 18.91 Mbit/s" in words
    assert "Retransmissions 12345 packets" in words
    # The run has no queue.csv, and no tcp.csv with samples.
    assert not any("Queueing delay" in line or "Limited by" in line for line in found)
    assert any(line.startswith("tcp.csv") for line in words)
    assert not any(line.startswith("queue.csv") for line in words)
    assert f"losslab rerun {tmp_path}" in words


def test_rate_is_not_shown_with_a_trace(tmp_path):
    cell = dataclasses.replace(CONDITION, trace="cellular", rate_mbit=1000.0).to_json()
    assert "rate" in lines(tmp_path)[1]
    assert "rate" not in lines(tmp_path, cell=cell)[1]


def test_invalid_run_is_not_offered_for_comparison(tmp_path):
    found = lines(tmp_path, valid=False, reasons=["RTT must be 40 ms", "goodput"])
    assert found[0].startswith("INVALID: 2 checks failed, so do not use these numbers")
    assert not any("rerun" in line for line in found)


def test_run_without_numbers_has_a_summary(tmp_path):
    found = lines(tmp_path, valid=False, reasons=["no guest"], summary={})
    assert found[0].startswith("INVALID: 1 check failed")
    assert not any("Mbit/s" in line for line in found[2:])
