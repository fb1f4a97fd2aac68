"""Resources of guests on the host, and the causes and fixes of lost guests."""

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from losslab.backends import base, resources, virtual
from losslab.backends.base import Instrument
from losslab.backends.resources import PLACES_PER_CPU, own_cpu
from losslab.backends.snapshot import HOLE_BYTES, release_zeros
from losslab.emulation import outcome
from losslab.errors import GuestLostError, HostError, LosslabError

# No CPUs of this machine, so that neither guests nor other tests use them.
CPUS = [10 * os.getpid() + number for number in (1, 2)]


@pytest.mark.parametrize("guests", [1, 2, 3, 4, 7, 2 * PLACES_PER_CPU, 2 * PLACES_PER_CPU + 1])
def test_guests_are_spread_evenly_over_cpus_also_without_free_slots(guests: int) -> None:
    with contextlib.ExitStack() as stack:
        held = Counter(stack.enter_context(own_cpu(CPUS)) for _ in range(guests))
    counts = [held[cpu] for cpu in CPUS]
    assert sum(counts) == guests
    assert max(counts) - min(counts) <= 1


LOW = {"nofile": 1000, "as": 2 * 2**30, "fsize": 2 * 2**30 - 1}


def output_of(code, **hard):
    """Output of a process under hard limits."""

    def lower():
        for name, limit in hard.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (limit, limit))

    done = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=lower, capture_output=True, text=True, check=True
    )
    return done.stdout


REFUSED = """
from losslab.backends import resources
from losslab.errors import HostError
try:
    resources.require_limits()
except HostError as error:
    print(error)
"""


@pytest.mark.parametrize("name", LOW)
def test_low_hard_limit_is_refused_with_the_needed_value(name):
    what, shell, need, unit = resources.NEEDED[name]
    words = output_of(REFUSED, **{name: LOW[name]})
    assert f"limit of {what}: {LOW[name] // unit}, and a guest needs {need}" in words
    assert f"`{shell} {need}`" in words
    assert words.count("limit of") == 1


def test_exact_hard_limit_is_accepted():
    enough = {name: need * unit for name, (_, _, need, unit) in resources.NEEDED.items()}
    assert output_of(REFUSED, **enough) == ""


ODD = ["with space", "with,comma", "with'quote", 'with"quote', "with\nline", "ünïcode", "a" * 200]


@pytest.mark.parametrize("name", ODD)
def test_command_line_does_not_depend_on_the_scratch_folder(name, tmp_path, monkeypatch):
    chosen = tmp_path / name
    chosen.mkdir()
    monkeypatch.setenv("LOSSLAB_SCRATCH", str(chosen))
    assert resources.scratch_folder() == chosen
    tools = Instrument(tmp_path / "linux", tmp_path / "image", {})
    with virtual.Guest()._resources(tools) as guest:
        assert guest.folder.parent.parent == chosen
        words = guest.command(tools, [])
        assert [word for word in words if name in word] == []
        (root,) = [word for word in words if word.startswith("rootflags=")]
        assert os.readlink(root.partition("=")[2]) == str(tmp_path / "image")
        assert guest.variables["TMPDIR"] == str(guest.folder)
    assert list(chosen.iterdir()) == []


def test_relative_scratch_folder_starts_at_the_current_folder(tmp_path, monkeypatch):
    """The guest's process runs in another folder."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOSSLAB_SCRATCH", "scratch")
    assert resources.scratch_folder() == tmp_path / "scratch"


def test_unusable_scratch_folder_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LOSSLAB_SCRATCH", str(tmp_path / "none"))
    resources.scratch_folder()
    assert f"{tmp_path / 'none'} is not a writable folder" in capsys.readouterr().err
    monkeypatch.setattr(resources, "MEMORY_BYTES", 2**70)
    with pytest.raises(HostError, match=r"less than .* MiB free") as error:
        resources.scratch_folder()
    assert "set LOSSLAB_SCRATCH" in error.value.hint


# A process with an unnamed file: data, zeros, data beside zeros, a hole.
PROGRAM = f"""
import sys, tempfile
file = tempfile.TemporaryFile(dir='/dev/shm')
n = {HOLE_BYTES}
file.write(b"a" * n + bytes(200 * n) + b"b" + bytes(n - 1))
file.truncate(400 * n)
file.flush()
print(file.fileno(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def waiting() -> Iterator[tuple[int, Path]]:
    """Return the PID of a waiting process, and the path of its unnamed file."""
    words = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield process.pid, Path(f"/proc/{process.pid}/fd/{int(process.stdout.readline())}")
        assert process.stdin
        process.stdin.close()


def test_zeros_are_released_and_the_content_is_the_same(waiting: tuple[int, Path]) -> None:
    pid, path = waiting
    before, allocated = path.read_bytes(), path.stat().st_blocks
    release_zeros(pid)
    assert path.read_bytes() == before
    assert path.stat().st_size == len(before) == 400 * HOLE_BYTES
    assert path.stat().st_blocks * 512 == 2 * HOLE_BYTES
    assert allocated * 512 == 202 * HOLE_BYTES


def test_a_process_without_such_a_file_is_left_alone() -> None:
    release_zeros(os.getpid())
    release_zeros(2**22 + 1)  # no process has this PID


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
    error = resources.not_started(console, 1)
    assert found in error.message.partition("last on its console: ")[2]
    assert fix in error.hint


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


CRASHED = '{"error": "BlockingIOError: [Errno 11]", "kind": "crashed"}'
GOOD, FAILED = '{"reasons": []}', '{"reasons": ["iperf3 must exit with 0, found -7"]}'
KILLED, LIMIT = "found it killed by SIG", "found a limit reached"
MEMORY = "UML ran out of memory on the host side! This can happen due to"


@pytest.mark.parametrize(
    ("kind", "status", "console", "result", "full", "words", "fix"),
    [
        (HostError, -9, "", None, False, KILLED, "out of memory"),
        (HostError, -9, "", GOOD, False, KILLED, "out of memory"),
        (HostError, -15, "", None, False, KILLED, "start again"),
        (HostError, -24, "", None, False, KILLED, "ulimit -t"),
        (HostError, -6, "Kernel panic - not syncing: Kernel mode signal 7", None, False,
         r"found it (killed by SIG|full)", "free memory"),
        (HostError, 1, "", None, True, "found it full", "free memory"),
        (HostError, 0, "start_userspace : clone failed, errno = 11", CRASHED, False, LIMIT,
         "ulimit -u"),
        (HostError, 0, MEMORY, CRASHED, False, LIMIT, "vm.max_map_count"),
        (HostError, 0, "", FAILED, True, "guest's memory, found it full", ""),
        # result.json can reach the host before the raw files do.
        *((GuestLostError, status, "", GOOD, False,
           f"must power off by itself, found exit status {status}", "") for status in (1, -6)),
        (GuestLostError, None, "", None, False, "must end within 9 s", ""),
        (GuestLostError, 1, "", None, False, "result.json, found none", ""),
        (GuestLostError, 0, "", '{"err', False, "result.json, found none", ""),
        (GuestLostError, 0, "", '{"error": "KeyError: 3", "kind": "crashed"}', False,
         "must not crash, found KeyError: 3", ""),
    ],
)  # fmt: skip
def test_guest_without_a_whole_result_is_lost_or_a_host_error_with_its_fix(
    tmp_path, kind, status, console, result, full, words, fix
):
    with pytest.raises(kind, match=words) as error:
        result_of(tmp_path, status, console, result=result, full=full)
    assert fix in error.value.hint


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


def test_full_memory_alone_is_no_violation(tmp_path):
    assert result_of(tmp_path, 0, result=GOOD, full=True) == {"reasons": []}


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
