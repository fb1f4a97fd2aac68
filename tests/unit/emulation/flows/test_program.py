"""Sender and receiver of background flows over the loopback interface."""

import itertools
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from losslab.emulation.flows import program
from losslab.emulation.flows.program import Sending, Source

HERE = "127.0.0.1"


@pytest.fixture
def ends(monkeypatch):
    """Run flows from free ports; return the report of each end."""

    def run(*flows, size_bytes=None, asking=None):
        port = free_port()
        monkeypatch.setattr(program, "END_PORT", free_port())
        received = {}
        words = (program.request, *asking) if asking else (program.receive, len(flows), size_bytes)
        thread = threading.Thread(
            target=lambda end, *rest: received.update(end(port, *rest)), args=words, daemon=True
        )
        thread.start()
        while f":{port:04X} 00000000:0000 0A" not in Path("/proc/net/tcp").read_text():
            time.sleep(0.01)
        sent = program.send(flows, port, time.monotonic_ns())
        thread.join(10)
        assert not thread.is_alive()
        return sent, received

    return run


def flow(source_port, start_s=0.0, end_s=5.0, size_bytes=None, rate_mbit=None):
    return Sending(HERE, source_port, HERE, "cubic", start_s, end_s, size_bytes, rate_mbit)


def free_port():
    with socket.socket() as sock:
        sock.bind(("", 0))
        return sock.getsockname()[1]


def test_flow_with_a_size_arrives_completely(ends):
    port = free_port()
    sent, received = ends(flow(port, size_bytes=300_001))
    its = sent[str(port)]
    assert (its["how"], its["told_bytes"], its["algorithm"]) == ("finished", 300_001, "cubic")
    # The SYN and FIN of the connection count, too.
    assert its["acked_bytes"] - 2 == 300_001
    assert received[str(port)]["bytes"] == 300_001
    assert its["started_ns"] < received[str(port)]["ended_ns"]


@pytest.mark.alone
def test_flow_with_a_rate_sends_at_its_rate(ends):
    port = free_port()
    sent, received = ends(flow(port, 0.0, 0.5, rate_mbit=8.0))
    # 1 MB/s, if the machine is fast enough.
    seconds = (sent[str(port)]["ended_ns"] - sent[str(port)]["started_ns"]) / 1e9
    assert 100_000 < sent[str(port)]["told_bytes"] <= 1_000_000 * seconds
    read = received[str(port)]["bytes"]
    assert sent[str(port)]["acked_bytes"] - 1 <= read <= sent[str(port)]["told_bytes"]


def source(source_port, pattern, end_s=0.6, size_bytes=None):
    return Source(HERE, source_port, HERE, "cubic", 0.0, end_s, size_bytes, pattern=pattern)


@pytest.mark.alone
def test_source_with_a_size_notes_its_first_and_last_byte_and_stays_open(ends):
    port = free_port()
    sent, received = ends(source(port, [(0.0, None)], 0.4, 300_001), size_bytes=300_001)
    its, read = sent[str(port)], received[str(port)]
    assert (its["how"], its["told_bytes"], read["bytes"]) == ("finished", 300_001, 300_001)
    assert its["started_ns"] < read["first_ns"] <= read["complete_ns"] < its["ended_ns"]
    assert its["ended_ns"] - its["started_ns"] > 0.3e9


@pytest.mark.parametrize("count", [0, 3])
def test_source_answers_each_request_and_the_client_thinks(ends, count):
    port = free_port()
    its = replace(source(port, [(0.0, None)]), request_bytes=7, response_bytes=50_001)
    sent, received = ends(its, asking=(7, 50_001, 10_000_000, count))
    requests = received[str(port)]["requests"]
    done = [each for each in requests if "done_ns" in each]
    assert len(requests) == count or (not count and len(requests) > 3)
    assert len(done) >= len(requests) - 1
    for each, after in itertools.pairwise(done):
        assert each["sent_ns"] < each["first_ns"] <= each["done_ns"]
        assert after["sent_ns"] - each["done_ns"] >= 10_000_000
    assert {each["bytes"] for each in done} == {50_001}
    assert sent[str(port)]["asked_bytes"] == 7 * len(requests)
    assert sent[str(port)]["told_bytes"] >= 50_001 * len(done)


def test_source_drops_what_is_still_due_at_a_steps_end_and_sends_no_more_than_its_size():
    """The kernel accepts nothing more; the next step does not make up for it."""
    its = source(1, [(0.0, 8.0), (1.0, 16.0)], end_s=2.0)
    its.begin_step(0.0)
    assert its.due_bytes(5.0) == 1_000_000
    its.begin_step(1.0)
    assert its.due_bytes(1.5) == 1_000_000
    its = source(1, [(0.0, 8.0)], end_s=1.0, size_bytes=700_000)
    its.begin_step(0.0)
    assert [its.due_bytes(until_s) for until_s in (0.5, 0.9)] == [500_000, 700_000]


def test_refused_flow_reports_the_error():
    port = free_port()
    sender = program.Sender([flow(port, size_bytes=5)], free_port(), time.monotonic_ns())
    sender.run()
    assert sender._flows[0].report["how"] == "ECONNREFUSED"


@pytest.mark.parametrize(("flows", "status"), [(300, 0), (10, 1)])
def test_program_may_open_as_many_files_as_it_has_flows(flows, status):
    """The test needs its own process because the raised limit remains."""
    words = (
        "import resource, socket\n"
        "from losslab.emulation.flows.program import allow_files\n"
        "_, most = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))\n"
        f"allow_files({flows})\n"
        "kept = [socket.socket() for _ in range(300)]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert status == 0 or "Too many open files" in done.stderr
