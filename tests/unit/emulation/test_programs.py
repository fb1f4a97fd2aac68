"""User programs: start, end, exit status, logs and the receive low-water mark."""

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
from types import SimpleNamespace

import pytest

from losslab.emulation import checks, outcome, traffic
from losslab.emulation.apps import command, quic
from losslab.emulation.flows import Program, Timed, Timeline
from losslab.emulation.plan import make_plan
from losslab.emulation.probes import userprograms
from losslab.emulation.programs import ExitWatcher, Process, receive_blocks
from losslab.errors import LosslabError
from losslab.study import names
from losslab.study.condition import Condition
from losslab.study.seeds import replicate_seed
from tests.unit.emulation.test_checks import EVIDENCE, TRAFFIC

COMMAND = Condition(
    algorithm="cubic", app="command", sender_command="./send | tee log", receiver_command="./get",
    duration_s=2, warmup_s=1,
)  # fmt: skip

QUIC = Condition(algorithm="bbr", app="quic", duration_s=2, warmup_s=1)


def test_user_programs_run_in_a_shell_and_end_with_the_run():
    (flow,) = make_plan(COMMAND, 1).flows
    for program, words in ((flow.caller, "./send | tee log"), (flow.listener, "./get")):
        assert program.command[:2] == ["sh", "-c"]
        assert program.command[2].endswith(f"cd /tmp || exit; {words}")
        assert program.until_s == 2
    brought = make_plan(replace(COMMAND, bring="some/folder"), 1).flows[0]
    assert "cd /mnt/out/brought || exit" in brought.caller.command[2]


@pytest.mark.parametrize(
    "wrong",
    [
        replace(COMMAND, sender_command="none"), replace(COMMAND, app="iperf3"),
        replace(COMMAND, receiver_command=""), replace(QUIC, bring="some/folder"),
        replace(QUIC, algorithm="vegas"),
    ],
)  # fmt: skip
def test_conflicting_axes_are_refused(wrong):
    assert wrong.problems() != []
    assert COMMAND.problems() == QUIC.problems() == []


def test_quic_shares_iperf3s_seeds_and_commands_have_their_own():
    bulk = replace(QUIC, app="iperf3", algorithm="cubic")
    assert replicate_seed(QUIC, 3) == replicate_seed(bulk, 3)
    assert replicate_seed(COMMAND, 3) != replicate_seed(replace(COMMAND, sender_command="x"), 3)
    assert COMMAND.slug() != replace(COMMAND, receiver_command="x").slug()
    assert "|" not in COMMAND.slug()


@pytest.mark.parametrize("condition", [COMMAND, QUIC])
def test_udp_offloads_are_off_too(condition):
    assert make_plan(condition, 1).to_json()["hosts"]["sender"]["udp_offloads"] is True
    others = make_plan(Condition(algorithm="cubic"), 1).to_json()
    assert "udp_offloads" not in others["hosts"]["sender"]


def test_programs_with_their_own_ecn_are_allowed(condition=QUIC):
    [found] = make_plan(condition, 1).path_spec.mechanisms
    evidence = replace(EVIDENCE, traffic=replace(TRAFFIC, ecn_capable=9))
    assert list(found.violations(evidence)) == []
    [off] = make_plan(replace(condition, app="iperf3"), 1).path_spec.mechanisms
    assert "no packet may carry ECT" in next(off.violations(evidence))


def arrived(folder: Path, *rows, **changed):
    """Summarise arrivals; a row is t_s, packets, ip_bytes, tcp, new tcp, udp, and who has ended."""
    lines = [userprograms.ARRIVAL_COLUMNS]
    lines += [",".join(map(str, row if len(row) == 8 else (*row, 0, 0))) for row in rows]
    (folder / userprograms.ARRIVALS).write_text("\n".join(lines) + "\n")
    plan = make_plan(replace(COMMAND, **changed), 1)
    return command.FEATURE.collect(plan, folder, Timeline(0, {"command": 0.0}))


def test_goodput_is_distinct_payload_of_both_protocols_in_the_window(tmp_path):
    """A4: payload is counted by protocol at the link; repeated TCP data count once."""
    found = arrived(
        tmp_path, (0.0, 0, 0, 0, 0, 0), (0.5, 5, 5210, 0, 0, 5000), (1.0, 5, 5210, 0, 0, 5000),
        (2.0, 116, 115_210, 12_000, 10_000, 105_000),
        (2.5, 200, 200_000, 12_000, 10_000, 189_000, 1, 1),
    )  # fmt: skip
    assert found["goodput_mbit"] == pytest.approx(110_000 * 8 / 1e6)
    assert found["throughput_mbit"] == pytest.approx(110_000 * 8 / 1e6)
    assert (found["bytes_received"], found["packets_received"]) == (199_000, 200)
    assert found["ended_s"] == 2.0
    assert (tmp_path / "intervals.csv").read_text().splitlines()[1] == "0.500000,0.080000"


TRANSFER = [
    (0.0, 0, 0, 0, 0, 0), (0.004, 300, 450_000, 450_000, 450_000, 0),
    (0.008, 690, 1_036_000, 1_000_000, 1_000_000, 0, 1, 0),
    (0.009, 693, 1_036_044, 1_000_000, 1_000_000, 0, 1, 1),
]  # fmt: skip


def test_transfer_of_8_ms_is_measured_to_its_last_byte(tmp_path):
    """A5: goodput of 1,000,000 bytes at 1 Gbit/s, until the caller ended."""
    found = arrived(tmp_path, *TRANSFER, warmup_s=0)
    assert found["bytes_received"] == 1_000_000
    assert (found["ended_s"], found["goodput_mbit"]) == (0.008, pytest.approx(1000))


@pytest.mark.parametrize(("warmup_s", "found_s"), [(0.5, "0.008"), (0.008, "0.008")])
def test_transfer_within_the_warmup_is_refused_with_what_to_set(tmp_path, warmup_s, found_s):
    """A5: the error names the end that it found and the axis to set."""
    with pytest.raises(
        LosslabError, match=f"warm-up of {warmup_s} s, found its end at {found_s}"
    ) as e:
        arrived(tmp_path, *TRANSFER, warmup_s=warmup_s)
    assert "set warmup_s to 0" in e.value.hint


def test_data_after_the_callers_end_count_and_a_stall_of_a_running_caller_does(tmp_path):
    """A5: a caller at the sender may end before its data arrive; waiting for data takes time."""
    begin = [(0.0, 0, 0, 0, 0, 0), (1.0, 9, 900, 900, 900, 0)]
    after = [(1.2, 9, 900, 900, 900, 0, 1, 0), (1.5, 29, 2900, 2900, 2900, 0, 1, 0)]
    idle = (2.0, 29, 2900, 2900, 2900, 0, 1, 0)
    found = arrived(tmp_path, *begin, *after, idle)
    assert (found["ended_s"], found["goodput_mbit"]) == (1.5, pytest.approx(2000 * 8 / 1e6 / 0.5))
    running = [(*row[:6], 0, 1) for row in (*after, idle)]  # only the listener has ended
    found = arrived(tmp_path, *begin, *running)
    assert (found["ended_s"], found["goodput_mbit"]) == (2.0, pytest.approx(2000 * 8 / 1e6))
    # If the sender listens, the caller is at the receiver.
    found = arrived(tmp_path, *begin, *running, listens="sender")
    assert found["ended_s"] == 1.5


def test_datagrams_on_a_path_that_duplicates_have_no_goodput(tmp_path):
    """A4, as A2: losslab cannot tell a program's datagram from its duplicate, but TCP can."""
    rows = [(0.0, 0, 0, 0, 0, 0), (1.0, 9, 900, 900, 600, 0), (2.0, 18, 1800, 1800, 1200, 0)]
    found = arrived(tmp_path, *rows, duplicate_percent=50)
    assert (found["goodput_mbit"], found["bytes_received"]) == (600 * 8 / 1e6, 1200)
    rows[-1] = (2.0, 18, 1800, 900, 600, 1200)
    found = arrived(tmp_path, *rows, duplicate_percent=50)
    assert {"goodput_mbit", "bytes_received"} & found.keys() == set()
    assert found["throughput_mbit"] == pytest.approx(900 * 8 / 1e6)
    assert "goodput_mbit" in arrived(tmp_path, *rows)


def test_logs_of_programs_are_kept_and_runs_without_data_are_refused(tmp_path):
    logs = tmp_path / "logs" / "deep"
    logs.mkdir(parents=True)
    (logs / "own.txt").write_text("words")
    with pytest.raises(LosslabError, match="between 1 and 2 s, found none"):
        arrived(tmp_path, (0.0, 0, 0, 0, 0, 0), (1.0, 5, 490, 0, 0, 9), (2.0, 9, 882, 0, 0, 9))
    assert (tmp_path / "program-deep-own.txt").read_text() == "words"
    assert not (tmp_path / "logs").exists()


CONNECTION = "{host},8000,40000,{algorithm},{sent},1.0,0.5,0.0"


def evidence(folder, algorithm, *connections):
    """Return the violations of user programs with these connections."""
    lines = [CONNECTION.format(**each) for each in connections]
    table = [userprograms.CONNECTION_COLUMNS, *lines]
    (folder / userprograms.CONNECTIONS).write_text("\n".join(table) + "\n")
    flows = make_plan(replace(COMMAND, algorithm=algorithm), 1).flows
    found = list(outcome._programs_evidence(flows, folder))
    return found, checks.violations(replace(EVIDENCE, flows=found))


@pytest.mark.parametrize("used", ["bbr", "cubic bbr", "unknown"])
def test_connection_with_another_algorithm_is_a_violation_unless_programs_choose(tmp_path, used):
    """A6: also if it began with the condition's, or closed before it could be read."""
    connections = [
        {"host": "sender", "algorithm": "cubic", "sent": 9},
        {"host": "sender", "algorithm": used, "sent": 9},
    ]
    names = sorted({"cubic", *used.split()})
    found, violations = evidence(tmp_path, "cubic", *connections)
    assert violations == [f"command must use cubic, found {', '.join(names)}"]
    assert [(each.found, each.window_limited_share) for each in found] == [(names, 0.5)]
    found, violations = evidence(tmp_path, "own", *connections)
    assert (found[0].found, violations) == (names, [])


def test_algorithms_of_connections_without_data_of_the_sender_do_not_matter(tmp_path):
    """A6: the receiver's algorithm sends requests and acknowledgements only."""
    others = [
        {"host": "receiver", "algorithm": "reno", "sent": 9},
        {"host": "sender", "algorithm": "reno", "sent": 0},
    ]
    assert evidence(tmp_path, "cubic", *others) == ([], [])
    mine = {"host": "sender", "algorithm": "cubic", "sent": 9}
    assert evidence(tmp_path, "cubic", mine, *others)[1] == []


@pytest.mark.parametrize(("algorithm", "left"), [("bbr", "cubic"), ("bbr", "bbr"), ("own", "reno")])
def test_changed_default_algorithm_is_found_before_losslab_restores_it(
    monkeypatch, algorithm, left
):
    """A6: the read-back after the traffic read what losslab had written."""
    monkeypatch.setattr(traffic.netns, "inside", lambda pid: contextlib.nullcontext())
    monkeypatch.setattr(traffic.netns, "read_sysctl", lambda name: left)
    flows = make_plan(replace(COMMAND, algorithm=algorithm), 1).flows
    found = traffic._changed_algorithm(SimpleNamespace(pid=1), flows)
    assert len(found) == (algorithm == "bbr" and left == "cubic")
    assert all("must be bbr, found cubic" in each for each in found)


def test_programs_own_algorithm_is_for_user_programs_alone():
    """A6: `own` needs the app command; the hosts then have Linux's default."""
    own = replace(COMMAND, algorithm="own")
    assert own.problems() == []
    plan = make_plan(own, 1)
    assert plan.algorithms == set()
    assert plan.hosts["sender"].sysctls["net.ipv4.tcp_congestion_control"] == "cubic"
    assert names.algorithms_of(own) == set()
    (problem,) = Condition(algorithm="own").problems()
    assert problem.startswith("algorithm own needs the app command")


@pytest.mark.parametrize(
    ("listens", "host", "port"),
    [("receiver", "receiver", 0), ("sender", "sender", 0), ("none", "receiver", -1)],
)
def test_either_end_may_listen_or_none(listens, host, port):
    """B: a server that sends, such as a web server, runs on the sender."""
    (flow,) = make_plan(replace(COMMAND, listens=listens), 1).flows
    assert (flow.listener.host, flow.port) == (host, port)
    assert {flow.listener.host, flow.caller.host} == {"sender", "receiver"}
    assert replace(COMMAND, listens=listens).problems() == []
    (problem,) = Condition(algorithm="cubic", listens="sender").problems()
    assert problem == "listens sender needs the app command, found iperf3"


def test_dual_stack_listeners_are_found_and_those_on_loopback_are_not(tmp_path):
    """B: `iperf3 -s` listens on a socket of IPv6, which /proc/net/tcp does not list."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with contextlib.ExitStack() as stack:
        ports = [
            stack.enter_context(
                socket.create_server((address, 0), family=family, dualstack_ipv6=dual)
            ).getsockname()[1]
            for address, family, dual in (
                ("::", socket.AF_INET6, True), ("0.0.0.0", socket.AF_INET, False),
                ("::1", socket.AF_INET6, False), ("127.0.0.1", socket.AF_INET, False),
            )
        ]  # fmt: skip
        found = {
            port
            for table, state in traffic.LISTENING.items()
            for port in traffic.listening_ports(Path("/proc/net", table), state)
        }
    assert [port in found for port in ports] == [True, True, False, False]
    assert traffic.listening_ports(tmp_path / "tcp6", "0A") == []  # a kernel without IPv6


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


def test_wait_ends_with_another_descriptor_and_says_whether_anything_happened():
    minute_ns = 60 * 10**9
    reading, writing = os.pipe()
    with contextlib.closing(ExitWatcher(reading)) as watcher:
        assert not watcher.wait(1_000_000)
        os.write(writing, b"x")
        assert watcher.wait(minute_ns)
        os.read(reading, 1)
        program = started(Program("sender", ["x"], "x.log"), "pass")
        watcher.watch(program)
        assert watcher.wait(minute_ns)
        assert watcher.all_ended
    for each in (reading, writing):
        os.close(each)


def connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    return sender, receiver


def test_low_water_mark_is_set_on_the_flows_connection_alone():
    (sender, receiver), (other_sender, other_receiver) = connection(), connection()
    with sender, receiver, other_sender, other_receiver:
        assert receive_blocks(os.getpid(), sender.getsockname()[1], 16_384)
        assert receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 16_384
        assert other_receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
        # The receiver's own descriptor still works.
        sender.sendall(b"x" * 16_384)
        assert len(receiver.recv(16_384)) == 16_384


def test_missing_connection_is_reported():
    with contextlib.ExitStack() as stack:
        # Connected, without a name.
        for end in socket.socketpair():
            stack.enter_context(end)
        assert not receive_blocks(os.getpid(), 1, 16_384)
