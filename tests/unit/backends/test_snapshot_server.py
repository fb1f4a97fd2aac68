"""Base snapshots that processes share; scripts stand in for kernels."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from losslab.backends import snapshot, snapshot_server, virtual
from losslab.backends.base import Instrument
from losslab.errors import GuestLostError, HostError
from losslab.repository import ROOT
from tests.unit.backends.test_snapshot import booted_snapshot, closed_socket, refuse

TOOLS = Instrument(Path("/kernel"), Path("/image"), {})


class FakeGuest(virtual.Guest):
    """A guest whose kernel is the script of test_snapshot."""

    def __init__(self, folder, fails=False):
        self.folder, self.fails, self.booted, self.ended = folder, fails, [], []
        self.made = []

    @contextlib.contextmanager
    def boot(self, tools):
        if self.fails:
            raise GuestLostError("the guest must boot, found it does not")
        name = str(len(self.booted))
        self.booted.append(tools)
        (self.folder / name).mkdir()
        with booted_snapshot(self.folder / name) as found:
            self.made.append(found)
            yield found
        self.ended.append(name)


@pytest.fixture
def guest(tmp_path, monkeypatch):
    made = FakeGuest(tmp_path)
    monkeypatch.setitem(snapshot_server.BACKENDS, ("virtual", "guest"), made)
    return made


@pytest.fixture
def serving(monkeypatch):
    """Return a context manager that serves this process itself."""

    @contextlib.contextmanager
    def served():
        with snapshot_server.serving() as variables:
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            yield
        for name in variables:
            monkeypatch.delenv(name)

    return served


@contextlib.contextmanager
def cell_snapshot(folder, tools=TOOLS):
    """Fork the shared base snapshot, as a backend does."""
    base = virtual.connect(tools)
    assert base is not None
    folder.mkdir()
    with snapshot.forked(base, folder / "boot.log", 1, 20.0, refuse) as found:
        yield found


def test_each_instrument_has_its_own_base_snapshot(guest, serving, tmp_path):
    other = replace(TOOLS, kernel=Path("/other"), boot=("seccomp=on",))
    with (
        serving(),
        cell_snapshot(tmp_path / "a"),
        cell_snapshot(tmp_path / "b", other),
        cell_snapshot(tmp_path / "c"),
    ):
        assert [tools.kernel for tools in guest.booted] == [Path("/kernel"), Path("/other")]
        assert guest.booted[1].boot == ("seccomp=on",)


def test_instruments_beyond_the_servers_room_boot_their_own(guest, serving, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_server, "BASES_MAX", 1)
    other = replace(TOOLS, boot=("tcp_cubic.beta=800",))
    with serving(), cell_snapshot(tmp_path / "a"):
        assert virtual.connect(TOOLS) is not None
        assert virtual.connect(other) is None


def test_lost_base_snapshot_is_booted_again(guest, serving, tmp_path):
    with serving():
        with cell_snapshot(tmp_path / "a"):
            pass
        guest.made[0]._control.close()  # as if it had died
        guest.made[0]._control = closed_socket()
        with cell_snapshot(tmp_path / "b"):
            assert len(guest.booted) == 2


def test_failed_boot_is_the_error_of_the_cell_that_asked(guest, serving, tmp_path):
    guest.fails = True
    with (
        serving(),
        pytest.raises(HostError, match="must boot, found it does not"),
        cell_snapshot(tmp_path / "a"),
    ):
        pass


def test_guest_code_other_than_the_servers_is_not_shared(guest, serving, monkeypatch):
    with serving():
        assert virtual.connect(TOOLS) is not None
        wanted = virtual.describe(TOOLS) | {"payload": "another"}
        monkeypatch.setattr(virtual, "describe", lambda tools: wanted)
        assert virtual.connect(TOOLS) is None


def test_process_without_a_server_boots_its_own(monkeypatch, tmp_path):
    monkeypatch.delenv(virtual.VARIABLE, raising=False)
    assert virtual.connect(TOOLS) is None
    monkeypatch.setenv(virtual.VARIABLE, str(tmp_path / "none"))
    assert virtual.connect(TOOLS) is None


@contextlib.contextmanager
def connected(variables):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(20)
        client.connect(variables[virtual.VARIABLE])
        yield client


def request(**more):
    return json.dumps(virtual.describe(TOOLS) | more).encode()


@pytest.mark.parametrize(
    "text",
    [b"7", b"{}", b"\xff\xfe", request(backend="none"), request(folder="/x"), request() + b"x"],
)
def test_malformed_request_is_refused_and_the_next_one_served(
    guest, serving, tmp_path, text, capfd
):
    with serving():
        with connected({virtual.VARIABLE: os.environ[virtual.VARIABLE]}) as client:
            client.send(text)
            assert client.recv(virtual.MESSAGE_BYTES).startswith(b"failed ")
        with cell_snapshot(tmp_path / "a") as found:
            assert found.alive
    assert capfd.readouterr().err == ""


def test_client_that_stops_keeps_no_other_waiting(guest, serving, tmp_path, monkeypatch):
    """E: a client that connects and stops blocked all other cells for 600 s."""
    monkeypatch.setattr(snapshot_server, "READ_LIMIT_S", 0.5)
    with serving():
        variables = {virtual.VARIABLE: os.environ[virtual.VARIABLE]}
        with connected(variables) as stopped:
            with cell_snapshot(tmp_path / "a") as found:
                assert found.alive
            assert stopped.recv(virtual.MESSAGE_BYTES) == b"failed timed out"


def test_end_does_not_wait_for_a_client_that_stops(guest, serving):
    begin = time.monotonic()
    with serving(), connected({virtual.VARIABLE: os.environ[virtual.VARIABLE]}):
        pass
    assert time.monotonic() - begin < snapshot_server.READ_LIMIT_S / 2


INTERRUPTED = """
import os, signal, sys, time, threading
from pathlib import Path
sys.path.insert(0, {root!r})
from losslab import interrupts, processes
from losslab.backends import virtual
from losslab.backends import snapshot_server
from tests.unit.backends.test_snapshot_server import TOOLS, FakeGuest, request
import contextlib, socket, tempfile

class Slow(FakeGuest):
    @contextlib.contextmanager
    def boot(self, tools):
        process = processes.spawn(["sleep", "60"])
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(100):
                process.poll()
                time.sleep(0.01)
            interrupts.heed()
            yield None
        finally:
            processes.end_session(process)

interrupts.unwind_on_signals()
snapshot_server.BACKENDS["virtual", "guest"] = Slow(Path(tempfile.gettempdir()))
try:
    with snapshot_server.serving() as variables:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.connect(variables[virtual.VARIABLE])
        socket.send_fds(client, [request(folder="/x", cpu=0)], [1])
        time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_interrupt_during_a_boot_prints_no_traceback():
    """E: Ctrl-C while the server booted a guest printed a traceback."""
    code = INTERRUPTED.format(root=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
