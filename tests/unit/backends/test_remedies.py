"""What the console of a guest that did not start says, and what mends it; words as seen."""

import json

import pytest

from losslab.backends import base, remedies, virtual
from losslab.emulation import outcome
from losslab.errors import GuestLostError, HostError, LosslabError

AMX = """\
userspace - ptrace set fp regs failed, errno = 14
Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b
CPU: 0 UID: 0 PID: 1 Comm: init Not tainted 6.12.117 #1
"""


@pytest.mark.parametrize(
    ("console", "found", "remedy"),
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
def test_what_the_console_says_comes_with_its_remedy(console, found, remedy):
    error = remedies.not_started(console, 1)
    assert found in error.message.partition("last on its console: ")[2]
    assert remedy in error.hint


def test_a_guest_that_has_no_time_to_boot_is_not_built_anew():
    assert "fewer --cores" in remedies.not_started("Linux version 6.12", None).hint
    # Unless its console names the cause.
    assert "make setup" in remedies.not_started(AMX, None).hint


def end(tmp_path, status, console="", started=True, result=None, full=False):
    if started:
        (tmp_path / base.STARTED).touch()
    if result is not None:
        (tmp_path / "result.json").write_text(result)
    return virtual.Guest().result(base.Job({}, tmp_path, 1, 9.0), base.End(status, full), console)


def test_a_guest_that_never_began_is_the_hosts_or_instruments_fault(tmp_path):
    with pytest.raises(HostError, match="register state"):
        end(tmp_path, -6, AMX, started=False)
    with pytest.raises(HostError, match="still booting"):
        end(tmp_path, None, started=False)


@pytest.mark.parametrize(
    ("status", "console", "full", "remedy"),
    [
        (-9, "", False, "out of memory"),
        (-15, "", False, "start again"),
        (-24, "", False, "ulimit -t"),
        (-6, "Kernel panic - not syncing: Kernel mode signal 7", False, "free memory"),
        (1, "", True, "free memory"),
    ],
)
def test_a_guest_that_the_host_ended_is_not_its_own_doing(tmp_path, status, console, full, remedy):
    with pytest.raises(HostError, match=r"found it (killed by SIG|full)") as error:
        end(tmp_path, status, console, full=full)
    assert remedy in error.value.hint


@pytest.mark.parametrize(
    ("console", "remedy"),
    [
        ("start_userspace : clone failed, errno = 11", "ulimit -u"),
        ("UML ran out of memory on the host side! This can happen due to", "vm.max_map_count"),
    ],
)
def test_a_limit_of_the_host_is_named_with_what_raises_it(tmp_path, console, remedy):
    crashed = '{"error": "BlockingIOError: [Errno 11]", "kind": "crashed"}'
    with pytest.raises(HostError, match="found a limit reached") as error:
        end(tmp_path, 0, console, result=crashed)
    assert remedy in error.value.hint


def test_a_check_that_failed_for_want_of_memory_is_not_believed(tmp_path):
    with pytest.raises(HostError, match="scratch folder, found it full"):
        end(tmp_path, 0, result='{"reasons": ["iperf3 must exit with 0, found -7"]}', full=True)
    assert end(tmp_path, 0, result='{"reasons": []}', full=True) == {"reasons": []}


# What a guest's kernel says of a host process that was killed, by the function that met it.
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


@pytest.mark.parametrize("line", KILLED_PROCESS)
@pytest.mark.parametrize(
    ("status", "result"),
    [
        (0, '{"error": "`ip -json -batch -` must succeed in silence, found: ", "kind": "refused"}'),
        (0, '{"reasons": ["iperf3 must exit with 0, found -11"]}'),
        (0, '{"reasons": []}'),
        (-6, None),
        (None, None),
    ],
)
def test_a_guest_that_lost_a_process_to_the_host_is_lost_whatever_it_reports(
    tmp_path, line, status, result
):
    with pytest.raises(GuestLostError, match="must run until the guest ends it") as error:
        end(tmp_path, status, f"before\n{line}\nafter\n", result=result)
    assert line in error.value.message
    assert "dmesg" in error.value.hint


def test_a_process_killed_while_the_guest_boots_is_not_taken_for_forbidden_ptrace(tmp_path):
    with pytest.raises(GuestLostError, match="must run until"):
        end(tmp_path, -6, KILLED_PROCESS[0], started=False)


@pytest.mark.parametrize("status", [1, -6])
def test_a_result_counts_only_if_the_guest_powered_off(tmp_path, status):
    """The host may have result.json before it has the raw files."""
    with pytest.raises(
        GuestLostError, match=f"must power off by itself, found exit status {status}"
    ):
        end(tmp_path, status, result='{"reasons": []}')
    with pytest.raises(HostError, match="found it killed"):
        end(tmp_path, -9, result='{"reasons": []}')


def test_a_warning_of_the_guests_own_kernel_stays_a_failed_check(tmp_path):
    console = "WARNING: CPU: 0 PID: 31 at net/ipv4/tcp_input.c:2858 tcp_fastretrans_alert"
    found = end(tmp_path, 0, console, result='{"reasons": []}')
    assert found["reasons"] == [f"the guest's console must show no warning, found: {console}"]


def test_a_panic_of_the_guests_own_kernel_is_quoted(tmp_path):
    panic = "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000300"
    with pytest.raises(GuestLostError, match="exitcode=0x00000300"):
        end(tmp_path, -6, panic)


@pytest.mark.parametrize(
    ("status", "result", "words"),
    [
        (None, None, "must end within 9 s"),
        (1, None, "result.json, found none"),
        (0, '{"err', "result.json, found none"),
        (0, '{"error": "KeyError: 3", "kind": "crashed"}', "must not crash, found KeyError: 3"),
    ],
)
def test_a_guest_that_began_and_left_nothing_is_lost(tmp_path, status, result, words):
    with pytest.raises(GuestLostError, match=words):
        end(tmp_path, status, result=result)


def test_a_job_says_itself_what_refused_it(tmp_path):
    with pytest.raises(LosslabError, match="tc must") as error:
        end(tmp_path, 0, result='{"error": "tc must", "kind": "refused"}')
    assert not isinstance(error.value, GuestLostError | HostError)
    with pytest.raises(HostError, match="engine must start"):
        end(tmp_path, 0, result='{"error": "the engine must start", "kind": "host"}')


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (LosslabError("tc must", hint="try"), LosslabError),
        (HostError("the engine must start"), HostError),
        (KeyError("rtt"), GuestLostError),
        (OSError(28, "No space left on device"), GuestLostError),
    ],
)
def test_how_a_job_failed_comes_through(tmp_path, error, raised):
    outcome.write_failure(error, tmp_path / "result.json")
    with pytest.raises(LosslabError) as found:
        base.refuse_failure(json.loads((tmp_path / "result.json").read_text()))
    assert type(found.value) is raised
    assert str(error) in found.value.message
