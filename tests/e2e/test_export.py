"""Exports: a capture does not change the run's bytes, and agrees with the kernel's counters."""

import json

import pytest

from losslab.campaign import packets
from losslab.emulation.goodput import read_rows
from tests.e2e.test_measure import measure
from tests.faults.kit import contents, losslab

pytestmark = pytest.mark.usefixtures("shared_guests")

WORDS = ["--algorithm", "cubic", "--rate-mbit", 10, "--rtt-ms", 20, "--buffer-packets", 30]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run a replicate without and with a capture of the bottleneck; export the first as qlog."""
    folder = tmp_path_factory.mktemp("runs")
    lossy = [*WORDS, "--loss-percent", 1]
    assert measure(folder / "without", *lossy).returncode == 0
    assert measure(folder / "with", *lossy, "--capture", "r1-r2").returncode == 0
    done = losslab("export", folder / "without", "--qlog", "--out", folder / "run.qlog")
    assert done.returncode == 0, done.stderr
    return folder


def test_capture_changes_no_other_byte_and_has_as_many_packets_as_the_links_counted(runs):
    without, captured = contents(runs / "without"), contents(runs / "with")
    assert set(captured) - set(without) == {"capture-r1-r2.pcap"}
    manifest = json.loads(captured["manifest.json"])
    assert manifest.pop("captures") == ["r1-r2"]
    assert manifest["files"].pop("capture-r1-r2.pcap")
    assert manifest == json.loads(without["manifest.json"])
    assert [n for n in without if n != "manifest.json" and without[n] != captured[n]] == []
    out = runs / "r1-r2.pcap"
    assert losslab("export", runs / "with", "--pcap", "r1-r2", "--out", out).returncode == 0
    _, seen = packets.segments(out.read_bytes())
    # After the bottleneck, the lossy interface is also offered the pings: 20 before the flow, and
    # those during it.
    pings = 20 + len(read_rows(runs / "with" / "ping.csv"))
    forward = sum(segment.sent for segment in seen)
    assert 0 <= manifest["summary"]["loss_offered_packets"] - forward - pings + 20 <= 2


def test_qlog_has_the_kernels_losses_and_bytes(runs):
    log = json.loads((runs / "run.qlog").read_text())
    assert log["qlog_version"] == "0.3"
    rows = read_rows(runs / "without" / "tcp.csv")
    ports = [trace["common_fields"]["ODCID"] for trace in log["traces"]]
    bulk = log["traces"][ports.index(f"{40001:04x}")]["events"]
    names = [event["name"] for event in bulk]
    last = [row for row in rows if row["flow"] == "40001"][-1]
    assert abs(names.count("recovery:packet_lost") - int(last["retransmits"])) <= 2
    sent = sum(e["data"]["raw"]["length"] for e in bulk if e["name"] == "transport:packet_sent")
    lost = 1448 * names.count("recovery:packet_lost")
    # At the last sample, up to 17 packets are on the path and 30 in the buffer.
    assert 0 <= sent - lost - int(last["delivered_bytes"]) <= 47 * 1448


def test_impossible_export_is_refused(runs, tmp_path):
    done = measure(tmp_path / "out", *WORDS, "--capture", "r9-r1")
    assert done.returncode == 2
    assert "a link to capture must be one of r1-r2" in done.stderr
    done = losslab("export", runs / "without", "--pcap", "r9-r1", "--out", tmp_path / "x.pcap")
    assert done.returncode == 2
    assert "a link to capture must be one of r1-r2" in done.stderr
    done = losslab("export", runs / "with", "--qlog", "--out", runs / "run.qlog")
    assert done.returncode == 1
    assert "must not exist" in done.stderr
