"""Sender and receiver of background flows over the loopback interface."""

import socket
import subprocess
import sys
import threading
import time

import pytest

from losslab.emulation.background import program
from losslab.emulation.background.program import Sending

HERE = "127.0.0.1"


@pytest.fixture
def ends(monkeypatch):
    """Run flows from free ports; return the report of each end."""

    def run(*flows):
        with socket.socket() as one, socket.socket() as other:
            one.bind(("", 0))
            other.bind(("", 0))
            port, end_port = one.getsockname()[1], other.getsockname()[1]
        monkeypatch.setattr(program, "END_PORT", end_port)
        received = {}
        thread = threading.Thread(target=lambda: received.update(program.receive(port, len(flows))))
        thread.start()
        while True:
            try:
                # The receiver listens once it accepts a test connection.
                with socket.create_connection((HERE, port)):
                    break
            except ConnectionRefusedError:
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
        sock.bind((HERE, 0))
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


def test_flow_without_a_size_is_stopped_at_its_end(ends):
    one, other = free_port(), free_port()
    sent, received = ends(flow(one, 0.1, 0.3), flow(other, 0.0, 0.2))
    for port, seconds in ((one, 0.2), (other, 0.2)):
        its = sent[str(port)]
        assert its["how"] == "stopped"
        assert (its["ended_ns"] - its["started_ns"]) / 1e9 > seconds / 4
        assert its["acked_bytes"] - 1 <= received[str(port)]["bytes"] <= its["told_bytes"]
        assert received[str(port)]["bytes"] > 0
    assert sent[str(one)]["started_ns"] > sent[str(other)]["started_ns"]


def test_flow_with_a_rate_sends_at_its_rate(ends):
    port = free_port()
    sent, received = ends(flow(port, 0.0, 0.5, rate_mbit=8.0))
    # 1 MB/s, if the machine is fast enough.
    seconds = (sent[str(port)]["ended_ns"] - sent[str(port)]["started_ns"]) / 1e9
    assert 100_000 < sent[str(port)]["told_bytes"] <= 1_000_000 * seconds
    read = received[str(port)]["bytes"]
    assert sent[str(port)]["acked_bytes"] - 1 <= read <= sent[str(port)]["told_bytes"]


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
        "from losslab.emulation.background.program import allow_files\n"
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
