"""Workers of `losslab cell`: their status, output, signals and absence."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from losslab import worker

# The command, which fails if it does not find a worker.
COMMAND = (
    "import sys; sys.modules['losslab.cli'] = None\n"
    "from losslab.worker import main; sys.exit(main())"
)
WORDS = ["cell", "loss/none"]


@pytest.fixture
def variables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with worker.serving() as found:
        yield os.environ | found


def run(command, variables, folder="."):
    return subprocess.run(
        [sys.executable, "-c", command, *WORDS], env=variables, cwd=folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def test_worker_has_the_commands_environment_output_and_status(variables):
    for _ in range(2):
        done = run(COMMAND, variables)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "results/plan.json must be the plan of a campaign" in done.stderr
        assert "Traceback" not in done.stderr
    done = run(COMMAND, variables | {"LOSSLAB_DEBUG": "1"})
    assert "Traceback" in done.stderr


@pytest.mark.parametrize("where", ["in another folder", "without a server"])
def test_command_without_a_worker_runs_by_itself(variables, tmp_path, where):
    (tmp_path / "other").mkdir()
    folder = "other" if where == "in another folder" else "."
    path = variables[worker.VARIABLE] + ("" if folder == "other" else "-gone")
    done = run(COMMAND, variables | {worker.VARIABLE: path}, folder)
    assert "import of losslab.cli halted" in done.stderr


def catches_hangup(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    [caught] = re.findall(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
    return bool(int(caught, 16) & 1)


# A server of workers that wait, and tell a file when they end.
WAITING = """
import socket, sys, time
from losslab import cli, interrupts, worker
def main():
    interrupts.unwind_on_signals()
    try:
        print("waits", flush=True)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            time.sleep(0.1)  # a signal just before it is handled when it returns
    except KeyboardInterrupt:
        return 130
    finally:
        open("ended", "w").close()
cli.main = main
worker._serve(socket.socket(fileno=int(sys.argv[1])))
"""


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_signal_to_the_command_ends_its_worker(tmp_path, monkeypatch, number, expected):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(worker.VARIABLE, "socket")
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        listener.bind("socket")
        listener.listen()
        number_of = str(listener.fileno())
        server = subprocess.Popen([sys.executable, "-c", WAITING, number_of],
                                  pass_fds=[listener.fileno()])  # fmt: skip
        stack.callback(server.wait)
        stack.callback(server.kill)
        command = subprocess.Popen([sys.executable, "-c", COMMAND, *WORDS], stdout=subprocess.PIPE)
        stack.enter_context(command)
        assert command.stdout.read(6) == b"waits\n"
        while not catches_hangup(command.pid):  # it handles signals as soon as it has a worker
            time.sleep(0.01)
        command.send_signal(number)
        assert command.wait(10) == expected
        until = time.monotonic() + 10
        while not (tmp_path / "ended").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
