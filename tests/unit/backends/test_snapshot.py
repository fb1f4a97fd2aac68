"""Snapshots and their forks; a script stands in for the kernel."""

import contextlib
import signal
import socket
import sys
import time

import pytest

from losslab import processes
from losslab.backends import snapshot
from losslab.errors import HostError

# Reports that it is ready, then acts as kernel/snapshot.c does. A fork with a socket is ready, too,
# unless its folder is called `hangs` or `dies`. Another fork lives for the time and ends with the
# status that its folder's file `job` holds.
KERNEL = """
import os, select, signal, socket, sys
control = socket.socket(fileno=int(sys.argv[1].removeprefix("snapshot=")))
print("booted", flush=True)
if sys.argv[2] == "panics":
    sys.exit(3)
control.send(b"ready")
signal.signal(signal.SIGCHLD, lambda *_: None)
wake, woken = os.pipe2(os.O_NONBLOCK)
signal.set_wakeup_fd(woken)
while True:
    ready = select.select([control, wake], [], [])[0]
    if wake in ready:
        os.read(wake, 100)
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        control.send(f"ended {pid} {status} 1.500000 0.250000".encode())
    if control not in ready:
        continue
    words, sockets, _, _ = socket.recv_fds(control, 1000, 1)
    words = words.decode()
    if not words:
        sys.exit(0)
    if sys.argv[2] == "no room":
        control.send(b"failed 12")
        continue
    if sys.argv[2] == "silent":
        signal.pause()
    seed, cpu, folder = words.split(" ", 2)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        with open(f"{folder}/boot.log", "a") as out:
            print("fork with", seed, cpu, file=out)
        if sockets and folder.endswith("dies"):
            os._exit(1)
        if sockets:
            control = socket.socket(fileno=sockets[0])
            if not folder.endswith("hangs"):
                control.send(b"ready")
            control.recv(1000)
            os._exit(0)
        lasts_s, status = open(f"{folder}/job").read().split()
        import time
        time.sleep(float(lasts_s))
        os._exit(int(status))
    os.setpgid(pid, pid)
    for number in sockets:
        os.close(number)
    control.send(f"started {pid}".encode())
"""


def refuse(status, console):
    return HostError(f"status {status}, console {console.strip()}")


@contextlib.contextmanager
def booted_snapshot(folder, manner="well", limit_s=20.0):
    def spawn(words, fds, console):
        command = [sys.executable, "-c", KERNEL, *words, manner]
        return processes.spawn(command, pass_fds=fds, console=console)

    with snapshot.booted(spawn, folder / "boot.log", limit_s, refuse) as found:
        yield found


def fork(guest, folder, lasts_s=0.0, status=0, seed=7):
    folder.mkdir()
    (folder / "job").write_text(f"{lasts_s} {status}")
    return guest.fork(seed, folder)


@contextlib.contextmanager
def forked_snapshot(guest, folder, limit_s=20.0, cpu=1):
    folder.mkdir()
    with snapshot.forked(guest, folder / "boot.log", cpu, limit_s, refuse) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "limit_s", "status"), [("dies", 20.0, "status -9"), ("hangs", 0.3, "status None")]
)
def test_forked_snapshot_that_is_not_ready_is_refused(tmp_path, name, limit_s, status):
    begin = time.monotonic()
    with (
        booted_snapshot(tmp_path) as guest,
        pytest.raises(HostError, match=f"{status}, console booted"),
        forked_snapshot(guest, tmp_path / name, limit_s),
    ):
        pass
    assert time.monotonic() - begin < 5


def test_forks_are_lost_with_their_snapshot(tmp_path):
    with booted_snapshot(tmp_path) as guest:
        lost = fork(guest, tmp_path / "lost", lasts_s=60)
        guest._control.close()  # as if the snapshot had died
        guest._control = closed_socket()
        assert guest.alive is False
        assert lost.wait(10) == -signal.SIGKILL
        with pytest.raises(HostError, match="found: no reply"):
            fork(guest, tmp_path / "next")


def closed_socket():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    return ours


def test_silent_snapshot_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "REPLY_LIMIT_S", 0.3)
    with booted_snapshot(tmp_path, "silent") as guest:
        with pytest.raises(HostError, match="found: no reply"):
            fork(guest, tmp_path / "a")
        # The snapshot was killed and reports no end of its fork.
        assert snapshot.Fork(guest, 1).wait() == -signal.SIGKILL


def test_fork_without_memory_is_a_host_error(tmp_path):
    with (
        booted_snapshot(tmp_path, "no room") as guest,
        pytest.raises(HostError, match="Cannot allocate memory") as error,
    ):
        fork(guest, tmp_path / "a")
    assert "free memory" in error.value.hint


def test_failed_boot_of_a_snapshot_quotes_its_console(tmp_path):
    with (
        pytest.raises(HostError, match="status 3, console booted"),
        booted_snapshot(tmp_path, "panics"),
    ):
        pass


def test_next_job_reuses_its_snapshot_unless_lost_or_of_another_kind(tmp_path):
    booted, ended = [], []

    @contextlib.contextmanager
    def boot():
        (tmp_path / str(len(booted))).mkdir()
        with booted_snapshot(tmp_path / str(len(booted))) as guest:
            booted.append(guest)
            yield guest
        ended.append(guest)

    with snapshot.Snapshots() as snapshots:
        first, spent_s = snapshots.get(snapshot.CELL, "a", boot)
        assert spent_s > 0
        assert snapshots.get(snapshot.CELL, "a", boot) == (first, 0.0)
        assert snapshots.get(snapshot.CELL, "b", boot)[0] is booted[1]
        assert ended == [first]
        snapshots.drop()
        assert ended == booted
        third, _ = snapshots.get(snapshot.CELL, "b", boot)
        third._gone = True
        assert snapshots.get(snapshot.CELL, "b", boot)[0] is booted[3]
    assert ended == booted


def test_fork_gets_seed_folder_and_the_snapshots_console(tmp_path):
    folder = tmp_path / "a folder with blanks"
    with booted_snapshot(tmp_path) as guest:
        assert guest.folder == tmp_path
        done = fork(guest, folder)
        assert done.wait(10) == done.returncode == 0
        assert done.cpu_s == 1.75
    assert (folder / "boot.log").read_text() == "booted\nfork with 7 -\n"


def test_forked_snapshot_keeps_the_seed_moves_to_a_cpu_and_ends_with_its_block(tmp_path):
    with booted_snapshot(tmp_path) as guest:
        with forked_snapshot(guest, tmp_path / "cell", cpu=5) as found:
            assert found.alive
            assert found.folder == tmp_path / "cell"
        assert guest._next(5)[0] == "ended"
        assert guest.alive
    assert (tmp_path / "cell" / "boot.log").read_text() == "booted\nfork with - 5\n"
