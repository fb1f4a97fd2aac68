"""Causes and fixes of a guest that did not start, from recorded consoles."""

import json

import pytest

from losslab.backends import base, fixes, virtual
from losslab.emulation import outcome
from losslab.errors import GuestLostError, HostError, LosslabError

AMX = """\
userspace - ptrace set fp regs failed, errno = 14
Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b
CPU: 0 UID: 0 PID: 1 Comm: init Not tainted 6.12.117 #1
"""


@pytest.mark.parametrize(
    ("console", "found", "fix"),
    [
        (AMX, "set fp regs failed, errno = 14; Kernel panic", "make setup"),
        (
            "ptrace: Operation not permitted\ncheck_ptrace : expected SIGSTOP, got status = 9",
            "expected SIGSTOP",
            "SYS_PTRACE",
        ),
        (
            "setarch: failed to set personality to (null): Operation not permitted",
            "failed to set personality",
            "seccomp=unconfined",
        ),
        ("Operation not permitted\n/dev/shm must be not mounted noexec", "noexec", "SCRATCH"),
        ("setarch: failed to execute /k/linux: Exec format error", "format", "make setup"),
        ("Kernel panic - not syncing: Requested init /init failed (error -2).", "-2", "make setup"),
        ("check_ptrace : expected SIGSTOP, got status = 9", "status = 9", "start again"),
        ("check_sysemu: PTRACE_SETOPTIONS failed: Operation not permitted", "failed", "SYS_PTRACE"),
        ("", "nothing", "make setup"),
    ],
)
def test_known_console_message_comes_with_its_fix(console, found, fix):
    error = fixes.not_started(console, 1)
    assert found in error.message.partition("last on its console: ")[2]
    assert fix in error.hint


def test_boot_timeout_suggests_a_longer_timeout():
    assert "fewer --cores" in fixes.not_started("Linux version 6.12", None).hint
    # A cause on the console takes precedence.
    assert "make setup" in fixes.not_started(AMX, None).hint


def result_of(tmp_path, status, console="", started=True, result=None, full=False):
    if started:
        (tmp_path / base.STARTED).touch()
    if result is not None:
        (tmp_path / "result.json").write_text(result)
    return virtual.Guest().result(base.Job({}, tmp_path, 1, 9.0), base.End(status, full), console)


def test_guest_that_never_began_is_a_host_error(tmp_path):
    with pytest.raises(HostError, match="register state"):
        result_of(tmp_path, -6, AMX, started=False)
    with pytest.raises(HostError, match="still booting"):
        result_of(tmp_path, None, started=False)


@pytest.mark.parametrize(
    ("status", "console", "full", "fix"),
    [
        (-9, "", False, "out of memory"),
        (-15, "", False, "start again"),
        (-24, "", False, "ulimit -t"),
        (-6, "Kernel panic - not syncing: Kernel mode signal 7", False, "free memory"),
        (1, "", True, "free memory"),
    ],
)
def test_guest_killed_by_the_host_is_a_host_error(tmp_path, status, console, full, fix):
    with pytest.raises(HostError, match=r"found it (killed by SIG|full)") as error:
        result_of(tmp_path, status, console, full=full)
    assert fix in error.value.hint


@pytest.mark.parametrize(
    ("console", "fix"),
    [
        ("start_userspace : clone failed, errno = 11", "ulimit -u"),
        ("UML ran out of memory on the host side! This can happen due to", "vm.max_map_count"),
    ],
)
def test_host_limit_is_named_with_its_fix(tmp_path, console, fix):
    crashed = '{"error": "BlockingIOError: [Errno 11]", "kind": "crashed"}'
    with pytest.raises(HostError, match="found a limit reached") as error:
        result_of(tmp_path, 0, console, result=crashed)
    assert fix in error.value.hint


def test_check_that_failed_without_memory_is_a_host_error(tmp_path):
    with pytest.raises(HostError, match="guest's memory, found it full"):
        result_of(
            tmp_path, 0, result='{"reasons": ["iperf3 must exit with 0, found -7"]}', full=True
        )
    assert result_of(tmp_path, 0, result='{"reasons": []}', full=True) == {"reasons": []}


# Messages of a guest's kernel when one of its host processes is killed, by function.
KILLED_PROCESS = [
    "userspace - ptrace set regs failed, errno = 3",
    "userspace - ptrace continue failed, op = 31, errno = 3",
    "userspace - PTRACE_GETREGS failed, errno = 3",
    "userspace - wait failed, errno = 10",
    "userspace - child stopped with signal 15",
    "fetch_fp_registers - get_fp_registers failed, errno = 3",
    "put_fp_registers returned -3",
    "Failed to get registers from stub, errno = 3",
    "wait_stub_done : failed to wait for SIGTRAP, pid = 7, n = 7, errno = 3, status = 0x9",
    "start_userspace : expected SIGSTOP, got status = 9",
    "do_syscall_stub : PTRACE_SETREGS failed, errno = 3",
    "Kernel panic - not syncing: Failed to continue stub, pid = 7, errno = 3",
]


OUTCOMES = [
    (0, '{"error": "`ip` must succeed without messages, found: ", "kind": "refused"}'),
    (0, '{"reasons": ["iperf3 must exit with 0, found -11"]}'),
    (0, '{"reasons": []}'),
    (-6, None),
    (None, None),
]


@pytest.mark.parametrize(
    ("line", "status", "result"),
    [(line, 0, '{"reasons": []}') for line in KILLED_PROCESS]
    + [(KILLED_PROCESS[0], *each) for each in OUTCOMES],
)
def test_guest_whose_host_process_was_killed_is_lost_whatever_it_reports(
    tmp_path, line, status, result
):
    with pytest.raises(GuestLostError, match="must run until the guest ends it") as error:
        result_of(tmp_path, status, f"before\n{line}\nafter\n", result=result)
    assert line in error.value.message
    assert "dmesg" in error.value.hint


def test_process_killed_during_boot_is_not_reported_as_forbidden_ptrace(tmp_path):
    with pytest.raises(GuestLostError, match="must run until"):
        result_of(tmp_path, -6, KILLED_PROCESS[0], started=False)


@pytest.mark.parametrize("status", [1, -6])
def test_result_counts_only_if_the_guest_powered_off(tmp_path, status):
    """result.json can reach the host before the raw files do."""
    with pytest.raises(
        GuestLostError, match=f"must power off by itself, found exit status {status}"
    ):
        result_of(tmp_path, status, result='{"reasons": []}')
    with pytest.raises(HostError, match="found it killed"):
        result_of(tmp_path, -9, result='{"reasons": []}')


def test_kernel_warning_is_a_violation(tmp_path):
    console = "WARNING: CPU: 0 PID: 31 at net/ipv4/tcp_input.c:2858 tcp_fastretrans_alert"
    found = result_of(tmp_path, 0, console, result='{"reasons": []}')
    assert found["reasons"] == [f"the guest's console must show no warning, found: {console}"]


def test_kernel_panic_is_quoted(tmp_path):
    panic = "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000300"
    with pytest.raises(GuestLostError, match="exitcode=0x00000300"):
        result_of(tmp_path, -6, panic)


@pytest.mark.parametrize(
    ("status", "result", "words"),
    [
        (None, None, "must end within 9 s"),
        (1, None, "result.json, found none"),
        (0, '{"err', "result.json, found none"),
        (0, '{"error": "KeyError: 3", "kind": "crashed"}', "must not crash, found KeyError: 3"),
    ],
)
def test_guest_without_a_result_is_lost(tmp_path, status, result, words):
    with pytest.raises(GuestLostError, match=words):
        result_of(tmp_path, status, result=result)


def test_jobs_own_refusal_keeps_its_message(tmp_path):
    with pytest.raises(LosslabError, match="tc must") as error:
        result_of(tmp_path, 0, result='{"error": "tc must", "kind": "refused"}')
    assert not isinstance(error.value, GuestLostError | HostError)
    with pytest.raises(HostError, match="engine must start"):
        result_of(tmp_path, 0, result='{"error": "the engine must start", "kind": "host"}')


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (LosslabError("tc must", hint="try"), LosslabError),
        (HostError("the engine must start"), HostError),
        (KeyError("rtt"), GuestLostError),
        (OSError(28, "No space left on device"), GuestLostError),
    ],
)
def test_failure_of_a_job_keeps_its_kind(tmp_path, error, raised):
    outcome.write_failure(error, tmp_path / "result.json")
    with pytest.raises(LosslabError) as found:
        base.refuse_failure(json.loads((tmp_path / "result.json").read_text()))
    assert type(found.value) is raised
    assert str(error) in found.value.message


TRACE = (
    "Kernel panic - not syncing: Segfault with no mm\nCall Trace:\n [<6038>] ? tcp_ack+0x1/0x2\n"
)


def test_panic_of_own_code_is_explained():
    """E: a NULL dereference named no function, and not console.log."""
    text = fixes.crash(TRACE)
    assert "NULL" in text
    assert "tcp_ack+0x1/0x2" in text
    assert "console.log" in text
    assert "division by zero" in fixes.crash("Kernel panic - not syncing: Kernel mode signal 8\n")
    assert fixes.crash("Kernel panic - not syncing: VFS: Unable to mount root\n") == ""
    assert fixes.crash("all is well\n") == ""
