"""The app `command`: goodput from arrivals, algorithms of connections, and listeners."""

import contextlib
import shlex
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis.strategies import characters, text

from losslab.emulation import arrivals, checks, measure, outcome, traffic
from losslab.emulation.apps import command
from losslab.emulation.connections import CONNECTION_COLUMNS, CONNECTIONS
from losslab.emulation.plan import make_plan
from losslab.emulation.programs import Timeline
from losslab.errors import LosslabError
from tests.unit.emulation.test_checks import EVIDENCE
from tests.unit.emulation.test_programs import COMMAND


def write(folder: Path, rows, prefix=""):
    """Write arrivals; a row has the columns of arrivals.csv, or its first."""
    lines = [",".join(map(str, (*row, 0, 0, 0)[:9])) for row in rows]
    text = "\n".join([arrivals.ARRIVAL_COLUMNS, *lines]) + "\n"
    (folder / f"{prefix}{arrivals.ARRIVALS}").write_text(text)


def arrived(folder: Path, *rows, begin_s=0.0, **changed):
    """Return the summary of arrivals."""
    write(folder, rows)
    plan = make_plan(replace(COMMAND, **changed), 1)
    return command.FEATURE.collect(plan, folder, Timeline(0, {"command": begin_s}))


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
    # The kernel has data of the program that ended, which an outage keeps back.
    found = arrived(tmp_path, *begin, *after, (*idle, 1))
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


def evidence(folder, algorithm, *rows, future=None):
    """Return the violations of user programs with these connections."""
    lines = [CONNECTION.format(**row) for row in rows]
    table = [CONNECTION_COLUMNS, *lines]
    (folder / CONNECTIONS).write_text("\n".join(table) + "\n")
    plan = make_plan(replace(COMMAND, algorithm=algorithm), 1)
    plan = plan if future is None else measure.with_algorithm(plan, future)
    found = list(outcome._programs_evidence(plan, folder))
    return found, checks.violations(replace(EVIDENCE, flows=found))


CUBIC = {"host": "sender", "algorithm": "cubic", "sent": 9}


@pytest.mark.parametrize("used", ["bbr", "cubic bbr", "unknown"])
def test_connection_with_another_algorithm_is_a_violation_unless_programs_choose(tmp_path, used):
    """A6: also if it began with the condition's, or closed before it could be read."""
    connections = [CUBIC, CUBIC | {"algorithm": used}]
    names = sorted({"cubic", *used.split()})
    found, violations = evidence(tmp_path, "cubic", *connections)
    assert violations == [f"command must use cubic, found {', '.join(names)}"]
    assert [(each.found, each.window_limited_share) for each in found] == [(names, 0.5)]
    found, violations = evidence(tmp_path, "own", *connections)
    assert (found[0].found, violations) == (names, [])
    # `losslab whatif --algorithm` changes open connections, which keep their past.
    changed = CUBIC | {"algorithm": "cubic bbr"}
    assert evidence(tmp_path, "cubic", changed, future="bbr")[1] == []
    (violation,) = evidence(tmp_path, "cubic", changed, future="reno")[1]
    assert violation == "command must use reno, found bbr"


def test_algorithms_of_connections_without_data_of_the_sender_do_not_matter(tmp_path):
    """A6: the receiver's algorithm sends requests and acknowledgements only."""
    others = [CUBIC | {"host": "receiver", "algorithm": "reno"},
              CUBIC | {"algorithm": "reno", "sent": 0}]  # fmt: skip
    assert evidence(tmp_path, "cubic", *others) == ([], [])
    assert evidence(tmp_path, "cubic", CUBIC, *others)[1] == []


@pytest.mark.parametrize(("algorithm", "left"), [("bbr", "cubic"), ("bbr", "bbr"), ("own", "reno")])
def test_changed_default_algorithm_is_found_before_losslab_restores_it(
    monkeypatch, algorithm, left
):
    """A6: the read-back after the traffic read what losslab had written."""
    monkeypatch.setattr(traffic, "inside", lambda pid: contextlib.nullcontext())
    monkeypatch.setattr(traffic, "read_sysctl", lambda name: left)
    flows = make_plan(replace(COMMAND, algorithm=algorithm), 1).flows
    found = traffic._changed_algorithm(SimpleNamespace(pid=1), flows)
    assert len(found) == (algorithm == "bbr" and left == "cubic")
    assert all("must be bbr, found cubic" in each for each in found)


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


@pytest.mark.parametrize(("ended_s", "in_window"), [(0.5, False), (2.0, True)])
def test_goodput_of_traffic_that_ends_early_is_bounded_by_the_links_highest_rate(
    ended_s, in_window
):
    """The mean rate of a path schedule over the whole run says nothing about its beginning."""
    plan = make_plan(replace(COMMAND, warmup_s=0, duration_s=2.0), 1)
    found = command.FEATURE.goodputs({"goodput_mbit": 1.0, "ended_s": ended_s}, plan)
    assert [(each.seconds, each.in_window) for each in found] == [(ended_s, in_window)]


PAIRS = replace(
    COMMAND, competitor_sender_command="./b", competitor_receiver_command="./c",
    competitor_listens="sender",
)  # fmt: skip


def test_goodputs_of_two_pairs_cover_the_time_in_which_both_send(tmp_path):
    rows = [(t / 2, t, 1000 * t, 0, 0, 100_000 * t) for t in range(5)]
    ended = [(*row, 0, int(row[0] >= 1.5)) for row in rows[:4]] + [(*rows[3], 0, 1)]
    write(tmp_path, rows)
    write(tmp_path, ended, "competitor-")
    plan = make_plan(replace(PAIRS, warmup_s=0), 1)
    found = command.FEATURE.collect(plan, tmp_path, Timeline(0, {}))
    assert found["ended_s"] == 1.5
    assert found["goodput_mbit"] == found["competitor_goodput_mbit"] == pytest.approx(1.6)
    assert (found["total_goodput_mbit"], found["jain_index"]) == (pytest.approx(3.2), 1.0)


@pytest.mark.parametrize(("ended", "found_s"), [(1.0, 0.75), (2.0, None), (None, None)])
def test_completion_is_the_callers_time_and_needs_its_end(tmp_path, ended, found_s):
    rows = [(t / 2, t, 1000 * t, 0, 0, 1000 * t, int(ended == t / 2)) for t in range(5)]
    axes = {"until": "completion", "warmup_s": 0, "begin_s": 0.25}
    if found_s is None:
        with pytest.raises(LosslabError, match="must end by itself within 2 s"):
            arrived(tmp_path, *rows, **axes)
    else:
        assert arrived(tmp_path, *rows, **axes)["completion_s"] == found_s


@given(text(characters(exclude_characters="\0")), text(characters(exclude_characters="\0")))
def test_any_value_of_a_variable_reaches_the_program(one, other):
    env = f"ONE={shlex.quote(one)} OTHER={shlex.quote(other)}"
    (flow,) = make_plan(replace(COMMAND, env=env), 1).flows
    words = shlex.split(flow.caller.command[2].partition("; mkdir -p")[0])
    assert words[-2:] == [f"ONE={one}", f"OTHER={other}"]
