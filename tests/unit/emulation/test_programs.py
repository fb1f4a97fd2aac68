"""Programs of hosts: start, wait, end, exit status, logs; preloaded ones; user programs."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from losslab.emulation import programs
from losslab.emulation.apps import quic
from losslab.emulation.plan import make_plan
from losslab.emulation.programs import (
    ExitWatcher,
    Process,
    Program,
    Timed,
    Timeline,
    receive_blocks,
    wait_for_whole_second,
)
from losslab.errors import LosslabError
from losslab.study.condition import Condition
from tests.unit.emulation.test_checks import EVIDENCE, TRAFFIC

COMMAND = Condition(
    algorithm="cubic", app="command", sender_command="./send | tee log", receiver_command="./get",
    duration_s=2, warmup_s=1,
)  # fmt: skip

QUIC = Condition(algorithm="bbr", app="quic", duration_s=2, warmup_s=1)


@pytest.mark.parametrize(
    ("condition", "evidence", "found"),
    [
        # Programs may have their own ECN.
        (QUIC, replace(EVIDENCE, traffic=replace(TRAFFIC, ecn_capable=9)), ""),
        (replace(QUIC, app="iperf3"), replace(EVIDENCE, traffic=replace(TRAFFIC, ecn_capable=9)),
         "no packet may carry ECT"),
        # Those over UDP need none: with `ecn on`, each of their runs was invalid.
        (replace(COMMAND, ecn="on"), replace(EVIDENCE, flows=[]), ""),
        (replace(COMMAND, ecn="on"), EVIDENCE, "must carry ECT"),
    ],
)  # fmt: skip
def test_ecn_of_programs_is_their_own(condition, evidence, found):
    [marking] = make_plan(condition, 1).path_spec.mechanisms
    violations = list(marking.violations(evidence))
    assert found in violations[0] if found else violations == []


def event(time_ms, name, **data):
    return "\x1e" + json.dumps({"time": time_ms, "name": name, "data": data}) + "\n"


def received(time_ms, *frames):
    frames = [
        {"frame_type": "stream", "stream_id": 0, "offset": begin, "length": end - begin}
        for begin, end in frames
    ]
    return event(time_ms, "transport:packet_received", frames=frames)


def test_bytes_of_a_stream_count_once_at_their_arrival(tmp_path):
    client = received(900, (0, 1000)) + received(1200, (2000, 3000)) + received(1300, (2000, 3000))
    client += received(1500, (1000, 2500), (4000, 4100)) + '\x1e{"time": 16'
    (tmp_path / quic.CLIENT_LOG).write_text(client)
    (tmp_path / quic.SENDER_LOGS).mkdir()
    sender = event(0, "recovery:metrics_updated", congestion_window=12000, bytes_in_flight=1200)
    sender += event(900, "recovery:packet_lost", header={})
    sender += event(901, "recovery:metrics_updated", ssthresh=6000, smoothed_rtt=20)
    (tmp_path / quic.SENDER_LOGS / "id.sqlog").write_text(sender)
    plan = make_plan(QUIC, 1)
    found = quic.FEATURE.collect(plan, tmp_path, Timeline(0, {"quic": 0.0}))
    assert found["bytes_received"] == 3100
    assert found["goodput_mbit"] == pytest.approx(2100 * 8 / 1e6)
    assert found["retransmits"] == 1
    assert (tmp_path / "quic.csv").read_text().splitlines()[1:] == [
        "0.000,12000,,1200,", "0.901,12000,6000,1200,20",
    ]  # fmt: skip
    rates = (tmp_path / "intervals.csv").read_text().splitlines()
    assert rates[9] == "0.900000,0.000000"
    assert rates[10] == "1.000000,0.080000"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "intervals.csv", "quic-receiver.sqlog", "quic-sender.sqlog", "quic.csv",
    ]  # fmt: skip
    assert quic.FEATURE.collect(plan, tmp_path, Timeline(0, {"quic": 0.0})) == found


def test_download_without_a_log_is_refused(tmp_path):
    with pytest.raises(LosslabError, match="a qlog each, found 0 and 0"):
        quic.FEATURE.collect(make_plan(QUIC, 1), tmp_path, Timeline(0, {"quic": 0.0}))


def started(program, code):
    popen = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    return Process(program, popen, Path(os.devnull))


def test_program_that_does_not_end_with_the_run_is_ended():
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    one = started(Timed("sender", ["x"], "x.log", until_s=1.0), code)
    time.sleep(0.3)  # for it to be deaf
    one.end_if_due(lambda: 0.9)
    assert not one.signalled
    one.end_if_due(lambda: 1.0)
    assert one.signalled
    one.end_if_due(lambda: 1.5)
    assert one.popen.poll() is None
    one.end_if_due(lambda: 2.0)
    assert one.popen.wait(5) == -signal.SIGKILL
    assert one.violation(9) is None


def test_failing_program_is_a_violation_and_others_continue():
    failed = started(Timed("sender", ["x"], "x.log", until_s=1.0), "raise SystemExit(3)")
    failed.popen.wait(5)
    assert failed.violation(9) == "x on sender must exit with 0, found 3: nothing"
    server = started(Program("sender", ["x"], "x.log"), "import time; time.sleep(60)")
    server.end_if_due(lambda: 99.0)
    assert server.popen.poll() is None
    server.send(signal.SIGKILL)
    server.popen.wait(5)


def test_wait_ends_with_the_program():
    first, second = (
        started(Program("sender", ["x"], "x.log"), f"import time; time.sleep({length_s})")
        for length_s in (0.2, 60)
    )
    served = replace(first, program=Program("receiver", ["x"], "x.log", lasting=True))
    minute_ns = 60 * 10**9
    with contextlib.closing(ExitWatcher()) as watcher:
        assert watcher.all_ended
        watcher.watch(served)
        assert watcher.all_ended  # a lasting program is not waited for
        watcher.watch(first)
        watcher.watch(second)
        begin_s = time.monotonic()
        watcher.wait(minute_ns)
        assert (first.popen.returncode, watcher.all_ended) == (0, False)
        watcher.wait(1_000_000)  # times out
        assert not watcher.all_ended
        second.send(signal.SIGKILL)
        watcher.wait(minute_ns)
        assert time.monotonic() - begin_s < 30
        assert (second.popen.returncode, watcher.all_ended) == (-signal.SIGKILL, True)
    before = len(os.listdir("/proc/self/fd"))
    with contextlib.closing(ExitWatcher()) as watcher:
        third = started(Program("sender", ["x"], "x.log"), "pass")
        watcher.watch(third)
        watcher.wait(minute_ns)
    assert len(os.listdir("/proc/self/fd")) == before


def test_low_water_mark_is_set_on_the_flows_connection_alone():
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        ends = []
        for _ in range(2):
            ends.append(stack.enter_context(socket.create_connection(listener.getsockname())))
            ends.append(stack.enter_context(listener.accept()[0]))
        for end in socket.socketpair():  # connected, without a name
            stack.enter_context(end)
        sender, receiver, _, other = ends
        assert receive_blocks(os.getpid(), sender.getsockname()[1], 16_384)
        assert receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 16_384
        assert other.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
        # The receiver's own descriptor still works.
        sender.sendall(b"x" * 16_384)
        assert len(receiver.recv(16_384)) == 16_384
        assert not receive_blocks(os.getpid(), 1, 16_384)


def test_wait_ends_at_the_clocks_next_whole_second():
    before = time.monotonic_ns()
    wait_for_whole_second()
    after = time.monotonic_ns()
    whole = (before // 10**9 + 1) * 10**9
    assert before < whole <= after
    assert after - whole < 10**9


SAYS = """
import os, sys

def main(arguments):
    print("said", len(arguments), arguments[-1][:4], sys.stdin.read() == "", flush=True)
    print("complained", file=sys.stderr)
    return 3

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


class Here:
    """A host on this machine; it counts the programs that it starts."""

    pid = os.getpid()

    def __init__(self, folder):
        self.environment = os.environ | {
            "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"
        }
        self.started = []

    def popen(self, command, **streams):
        words = [sys.executable if word == "python3" else word for word in command]
        popen = subprocess.Popen(words, env=self.environment, **streams)
        self.started.append(popen)
        return popen


@pytest.fixture
def here(tmp_path):
    (tmp_path / "says.py").write_text(SAYS)
    (tmp_path / "collects.py").write_text("import gc\ndef main(_): return int(gc.isenabled())\n")
    (tmp_path / "breaks.py").write_text("raise RuntimeError('broken')")
    return Here(tmp_path)


def command(*arguments):
    return [*programs.PYTHON, "says", *arguments]


QUIET = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}


def test_preloaded_program_collects_no_garbage_and_an_unused_one_is_ended(here):
    """A collection reads the clock, and comes earlier or later with each import."""
    with programs.preloaded({"r1": here}, [("r1", "collects"), ("r1", "says")]) as ready:
        words = [*programs.PYTHON, "collects"]
        assert ready["r1"].popen(words, stdout=subprocess.DEVNULL, **QUIET).wait(10) == 0
        unused = here.started[1]
        assert unused.poll() is None
    assert unused.returncode is not None


def test_preloaded_program_ends_with_its_parent(here):
    script = (
        "import subprocess, sys\n"
        "from losslab.emulation import programs\n"
        "class Here:\n"
        "    def popen(self, command, **streams):\n"
        "        return subprocess.Popen([sys.executable, *command[1:]], **streams)\n"
        "each = programs.Loaded.start(Here(), 'says')\n"
        "each.require()\n"
        "print(each.popen.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=here.environment, capture_output=True, text=True,
        check=True, timeout=30,
    )  # fmt: skip
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{int(done.stdout)}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{int(done.stdout)}")


def test_failing_import_of_a_preloaded_module_is_named(here, capfd):
    with (
        pytest.raises(LosslabError, match="breaks must be loaded within"),
        programs.preloaded({"r1": here}, [("r1", "breaks")]),
    ):
        pass
    assert "broken" in capfd.readouterr().err
