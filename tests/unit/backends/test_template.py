"""What is said to a guest that waits, and what it answers: here a script in place of its kernel."""

import contextlib
import signal
import socket
import sys
import time

import pytest

from losslab import processes
from losslab.backends import template
from losslab.errors import HostError

# Says that it waits, then does what kernel/snapshot.c does; a copy lives for as long as its folder
# says, and ends with a status of its own.
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
    words = control.recv(1000).decode()
    if not words:
        sys.exit(0)
    if sys.argv[2] == "no room":
        control.send(b"failed 12")
        continue
    if sys.argv[2] == "silent":
        signal.pause()
    seed, _, folder = words.partition(" ")
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        with open(f"{folder}/console.log", "a") as out:
            print("copy with", seed, file=out)
        lasts_s, status = open(f"{folder}/job").read().split()
        import time
        time.sleep(float(lasts_s))
        os._exit(int(status))
    os.setpgid(pid, pid)
    control.send(f"started {pid}".encode())
"""


def refuse(status, console):
    return HostError(f"status {status}, console {console.strip()}")


@contextlib.contextmanager
def waiting(folder, manner="well", limit_s=20.0):
    def spawn(words, fds, console):
        command = [sys.executable, "-c", KERNEL, *words, manner]
        return processes.spawn(command, pass_fds=fds, console=console)

    with template.waiting(spawn, folder / "boot.log", limit_s, refuse) as found:
        yield found


def copy(waits, folder, lasts_s=0.0, status=0, seed=7):
    folder.mkdir()
    (folder / "job").write_text(f"{lasts_s} {status}")
    return waits.copy(seed, folder, folder / "console.log")


def test_a_copy_has_its_seed_its_folder_and_the_words_before_it(tmp_path):
    folder = tmp_path / "a folder with blanks"
    with waiting(tmp_path) as waits:
        assert waits.boot_s > 0
        assert waits.folder == tmp_path
        done = copy(waits, folder)
        assert done.wait(10) == done.returncode == 0
        assert done.cpu_s == 1.75
    assert (folder / "console.log").read_text() == "booted\ncopy with 7\n"


def test_copies_end_in_any_order(tmp_path):
    with waiting(tmp_path) as waits:
        slow = copy(waits, tmp_path / "slow", lasts_s=0.4, status=5)
        quick = copy(waits, tmp_path / "quick", status=3)
        assert slow.poll() is None
        with pytest.raises(processes.TimeoutExpired):
            slow.wait(0.05)
        assert slow.wait(10) == 5
        assert quick.wait(10) == 3


def test_a_copy_is_ended_with_its_group(tmp_path):
    with waiting(tmp_path) as waits:
        hung = copy(waits, tmp_path / "hung", lasts_s=60)
        assert processes.wait(hung, 0.05) is None
        processes.end_session(hung)
        assert hung.returncode == -signal.SIGKILL


def test_copies_are_lost_with_the_one_that_waits(tmp_path):
    with waiting(tmp_path) as waits:
        lost = copy(waits, tmp_path / "lost", lasts_s=60)
        waits._control.close()  # as seen from here
        waits._control = dead_end()
        assert waits.waits is False
        assert lost.wait(10) == -signal.SIGKILL
        with pytest.raises(HostError, match="found: no answer"):
            copy(waits, tmp_path / "next")


def dead_end():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    return ours


def test_one_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(template, "ANSWER_LIMIT_S", 0.3)
    with waiting(tmp_path, "silent") as waits:
        with pytest.raises(HostError, match="found: no answer"):
            copy(waits, tmp_path / "a")
        # It was killed, and nobody tells of its end.
        assert template.Copy(waits, 1).wait() == -signal.SIGKILL


def test_no_room_for_a_copy_is_the_hosts_fault(tmp_path):
    with (
        waiting(tmp_path, "no room") as waits,
        pytest.raises(HostError, match="Cannot allocate memory") as error,
    ):
        copy(waits, tmp_path / "a")
    assert "free memory" in error.value.hint


def test_one_that_does_not_come_to_wait_is_refused_with_its_words(tmp_path):
    with (
        pytest.raises(HostError, match="status 3, console booted"),
        waiting(tmp_path, "panics"),
    ):
        pass


def test_one_that_takes_too_long_is_ended(tmp_path):
    begin = time.monotonic()
    with pytest.raises(HostError, match="status None"), waiting(tmp_path, limit_s=0.0):
        pass
    assert time.monotonic() - begin < 5


def test_the_next_job_has_the_same_guest_unless_it_was_lost_or_is_for_another_purpose(tmp_path):
    booted, ended = [], []

    @contextlib.contextmanager
    def boot():
        (tmp_path / str(len(booted))).mkdir()
        with waiting(tmp_path / str(len(booted))) as waits:
            booted.append(waits)
            yield waits
        ended.append(waits)

    with template.Templates() as templates:
        first, spent_s = templates.get("a", boot)
        assert spent_s == first.boot_s
        assert templates.get("a", boot) == (first, 0.0)
        assert templates.get("b", boot)[0] is booted[1]
        assert ended == [first]
        templates.drop()
        assert ended == booted
        third, _ = templates.get("b", boot)
        third._gone = True
        assert templates.get("b", boot)[0] is booted[3]
    assert ended == booted
