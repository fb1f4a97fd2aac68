"""Flows and their programs on hosts: data, waiting, starting and ending.

`select.select` and `time.sleep` also read the clock, to continue after a signal. In a guest each
system call is a context switch between program and kernel, which is most of the CPU time of a
program with a wait per packet. `Waiter` and `sleep_until` make a single one.

Loading the interpreter and a Python program's modules takes half a second of CPU time in a guest.
The snapshot preloads it once for all replicates; each program then waits for its arguments and
standard streams. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from losslab.emulation import preloaded_program
from losslab.emulation.preloaded_program import GO, READY
from losslab.errors import LosslabError

POLLIN = 0x0001  # asm-generic/poll.h
TIMER_ABSTIME = 1  # linux/time.h
NS_PER_S = 10**9
# Random start times keep flows out of phase with the bottleneck and the probes.
START_JITTER_S = 0.1
# Start of the names of a competitor's flow and its files.
COMPETITOR_PREFIX = "competitor-"

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):  # struct timespec
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Pollfd(ctypes.Structure):  # struct pollfd
    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


_libc.ppoll.argtypes = (ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p)
_libc.clock_nanosleep.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Waiter:
    """Waits until a descriptor is readable."""

    def __init__(self, *descriptors: int) -> None:
        self._polled = (_Pollfd * len(descriptors))(*(_Pollfd(fd, POLLIN, 0) for fd in descriptors))
        self._timeout = _Timespec()

    def wait(self, timeout_ns: int | None) -> list[int]:
        """Return the readable descriptors, including those at the end of their file.

        Return an empty list after `timeout_ns` (None: no timeout) or a signal; see ppoll(2).
        """
        timeout = None
        if timeout_ns is not None:
            self._timeout.seconds, self._timeout.nanoseconds = divmod(timeout_ns, NS_PER_S)
            timeout = ctypes.byref(self._timeout)
        count = _libc.ppoll(self._polled, len(self._polled), timeout, None)
        if count > 0:
            return [each.fd for each in self._polled if each.revents]
        if count < 0 and ctypes.get_errno() != errno.EINTR:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return []


def sleep_until(time_ns: int) -> None:
    """Sleep until a time of CLOCK_MONOTONIC, also across signals; see clock_nanosleep(2)."""
    until = _Timespec(*divmod(time_ns, NS_PER_S))
    status = errno.EINTR
    # clock_nanosleep returns the error number and does not set errno.
    while status == errno.EINTR:
        status = _libc.clock_nanosleep(
            time.CLOCK_MONOTONIC, TIMER_ABSTIME, ctypes.byref(until), None
        )
    if status != 0:
        raise OSError(status, os.strerror(status))


def wait_for_whole_second() -> None:
    """Sleep until CLOCK_MONOTONIC's next whole second, to align the clock.

    In virtual time computing takes no time, but a clock read takes 256 ns and a failed system call
    1 us (arch/um/kernel/skas/syscall.c). Their number while Python starts depends, for example, on
    the length of losslab's modules, which must not change the results. `time.sleep` rounds its
    argument and would end a nanosecond early or late.
    """
    sleep_until((int(time.monotonic()) + 1) * NS_PER_S)


ANY, ANY_PORT = "any", 0  # any protocol; a listener's port if any port will do
NO_PORT = -1  # a listener's port if it need not listen


class Host(Protocol):
    """Required interface of a Mininet node."""

    @property
    def pid(self) -> int:
        """PID of a process in the host's namespaces."""

    def popen(self, command: list[str], /, **streams: Any) -> subprocess.Popen[bytes]:
        """Start a process in the host's namespaces."""


@dataclass(frozen=True)
class Program:
    """A command line on a host; its output goes to `log` in the replicate's folder."""

    host: str
    command: list[str]
    log: str
    # Prefix each line of stdout with the clock in ns; write stderr to a file of its own.
    stamped: bool = False
    # Runs until it is killed, like a web server; other programs must end with status 0.
    lasting: bool = False

    def begun(self, origin_ns: int) -> Program:
        """Return the program as it is started; `origin_ns` is the replicate's 0 s."""
        return self


@dataclass(frozen=True)
class Timed(Program):
    """A program that is ended with the run, after which any exit status is accepted."""

    until_s: float = 0.0
    ending: int = signal.SIGTERM


@dataclass(frozen=True)
class OnClock(Program):
    """A program that acts at times on the replicate's clock."""

    arguments: Sequence[str] = ()  # follow the monotonic clock at the replicate's 0 s, in ns

    def begun(self, origin_ns: int) -> Program:
        """Return the program with that clock and its arguments."""
        return replace(self, command=[*self.command, str(origin_ns), *self.arguments])


@dataclass(frozen=True)
class Flow:
    """Two programs and the connection between them; the sender sends the data."""

    name: str
    algorithm: str
    port: int
    listener: Program
    caller: Program
    # The data connection's port on the sender; None if the kernel chooses it.
    source_port: int | None = None
    # The seed draws the caller's start from this window; None: soon after the flow before it.
    start_window_s: tuple[float, float] | None = None
    # A bulk flow: no window or buffer may limit it.
    bulk: bool = True
    # "tcp"; "udp", with the program's own congestion control; or `ANY`: any program, whose traffic
    # is counted at the receiver's interface.
    protocol: str = "tcp"
    # Bytes that the receiving program reads at a time; it need not wake up for fewer.
    receive_block_bytes: int | None = None


@dataclass(frozen=True)
class UserPrograms(Flow):
    """User programs beside other traffic, or of which the caller must end by itself."""

    # Their addresses of sender and receiver; None: the hosts' own, which no other traffic has.
    addresses: tuple[str, str] | None = None
    completes: bool = False


@dataclass(frozen=True)
class Timeline:
    """Time origin of a replicate's tables, and start times of its flows."""

    origin_ns: int  # CLOCK_MONOTONIC at 0 s of every table, when sampling begins
    started_s: dict[str, float]  # start of each flow's caller, by flow name


SYS_PIDFD_GETFD = 438  # asm-generic/unistd.h; the same number on every architecture
# Time for a program to end after its signal, before it is killed.
PATIENCE_S = 1.0
# Why a program fails on some paths. iperf3 gives up after nread_read_timeout (src/net.c).
CAUSES = {
    "iperf3": " (iperf3's control connection shares the path, and gives up after 10 s without an "
    "answer: use a smaller buffer, fewer flows, less loss or a higher rate)",
    "python3": " (it opens its connections over the path: use less loss, a larger buffer or fewer "
    "flows)",
}


@dataclass
class Process:
    """A running program."""

    program: Program
    popen: subprocess.Popen[bytes]
    messages: Path  # file with its error messages
    signalled: bool = False  # it has received the signal to end

    @property
    def end_s(self) -> float:
        """Return when a `Timed` program is to receive its signal; infinity if never."""
        if not isinstance(self.program, Timed) or self.signalled or self.popen.poll() is not None:
            return math.inf
        return self.program.until_s

    def end_if_due(self, now_s: Callable[[], float]) -> None:
        """Signal a `Timed` program to end with the run; kill it if it does not."""
        if not isinstance(self.program, Timed) or self.popen.poll() is not None:
            return
        late_s = now_s() - self.program.until_s
        if late_s >= (PATIENCE_S if self.signalled else 0.0):
            self.send(signal.SIGKILL if self.signalled else self.program.ending)
            self.signalled = True

    def send(self, number: int) -> None:
        """Send a signal to the process, or to its process group if it leads one."""
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(self.popen.pid) == self.popen.pid:
                os.killpg(self.popen.pid, number)
            else:
                self.popen.send_signal(number)

    @property
    def ended(self) -> bool:
        """Return whether the program has ended or need not end."""
        return self.program.lasting or self.popen.poll() is not None

    def violation(self, limit_s: float) -> str | None:
        """Return why the program failed; None if it did not."""
        name, status = f"{self.program.command[0]} on {self.program.host}", self.popen.poll()
        cause = CAUSES.get(self.program.command[0], "")
        if self.signalled:
            return None
        if status is None and not self.program.lasting:
            return f"{name} must end within {limit_s:g} s, found it still running{cause}"
        if status not in (None, 0):
            output = last_lines(self.messages)
            # Neither a scheme's error nor a refusal of its numbers has to do with the path.
            cause = "" if output.startswith(("schemes/", "the scheme's ")) else cause
            return f"{name} must exit with 0, found {status}: {output}{cause}"
        if status == 0 and self.program.lasting:
            return f"{name} must run until the end, found that it ended"
        return None


class ExitWatcher:
    """Waits for a timeout or for the end of a program, without polling each program.

    Readable descriptors in `others` end a wait, too.
    """

    def __init__(self, *others: int) -> None:
        self._running: dict[int, Process] = {}
        self._others = others
        self._waiter = Waiter(*others)
        self._descriptors = contextlib.ExitStack()

    def close(self) -> None:
        """Close the descriptors."""
        self._descriptors.close()

    def watch(self, process: Process) -> None:
        """Watch a further process, unless it runs until it is killed."""
        if process.program.lasting:
            return
        pidfd = os.pidfd_open(process.popen.pid)
        self._descriptors.callback(os.close, pidfd)
        self._running[pidfd] = process
        self._waiter = Waiter(*self._running, *self._others)

    @property
    def all_ended(self) -> bool:
        """Return whether `wait` has seen the end of all watched processes."""
        return not self._running

    def wait(self, limit_ns: int) -> bool:
        """Wait at most `limit_ns` until a watched process ends; return False after a timeout."""
        ready = self._waiter.wait(limit_ns)
        for pidfd in self._running.keys() & set(ready):
            self._running.pop(pidfd).popen.wait()
            self._waiter = Waiter(*self._running, *self._others)
        return bool(ready)


@contextlib.contextmanager
def running(hosts: Mapping[str, Host], program: Program, folder: Path) -> Iterator[Process]:
    """Start a program on its host; end it after the block and complete its log."""
    path = folder / program.log
    with contextlib.ExitStack() as stack:
        if program.stamped:
            messages = path.with_suffix(".err")
            out: Any = subprocess.PIPE
            errors: Any = stack.enter_context(messages.open("wb"))
        else:
            messages = path
            out = stack.enter_context(path.open("wb"))
            errors = subprocess.STDOUT
        popen = hosts[program.host].popen(
            program.command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors
        )
        stamper = threading.Thread(target=_stamp_lines, args=(popen.stdout, path))
        if program.stamped:
            stamper.start()
        process = Process(program, popen, messages)
        try:
            yield process
        finally:
            if isinstance(program, Timed):
                process.send(signal.SIGKILL)
            if popen.poll() is None:
                popen.send_signal(signal.SIGKILL)
            popen.wait()
            if program.stamped:
                stamper.join()


def last_lines(path: Path) -> str:
    """Return a program's error message: the `error` of iperf3's JSON, or else the last line.

    It begins with the place in a scheme, if there is one.
    """
    lines = [line.strip() for line in path.read_text(errors="replace").split("\n")]
    output = [line for line in lines if line]
    errors = [line for line in output if line.startswith('"error"')]
    traced = [line.replace('"', "") for line in output if line.startswith('File "')]
    places = [line[line.rindex("schemes/") :] for line in traced if "/schemes/" in line]
    return ": ".join([*places[-1:], (errors or output or ["nothing"])[-1]])


def _stamp_lines(pipe: Any, path: Path) -> None:
    """Copy lines from `pipe` to `path`, each prefixed with CLOCK_MONOTONIC in ns."""
    with path.open("w") as out:
        for line in pipe:
            out.write(f"{time.monotonic_ns()} {line.decode(errors='replace')}")


def receive_blocks(pid: int, sender_port: int, block_bytes: int) -> bool:
    """Set SO_RCVLOWAT of the connection from `sender_port`: wake its program for whole blocks only.

    In virtual time computing takes no time, so a bulk receiver would wake up for every packet. The
    program counts whole blocks, so the results do not change, but the wake-ups are most of the CPU
    time of a fast flow. Return whether the process has such a connection. Raises OSError if the
    process has ended.
    """
    pidfd = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            # A descriptor may be closed after the folder is listed.
            if not entry.is_socket():
                continue
            copy = ctypes.CDLL(None, use_errno=True).syscall(
                SYS_PIDFD_GETFD, pidfd, int(entry.name), 0
            )
            if copy < 0:
                continue
            with socket.socket(fileno=copy) as connection, contextlib.suppress(OSError):
                # The name of a Unix socket is no address with a port.
                internet = connection.family in (socket.AF_INET, socket.AF_INET6)
                if internet and connection.getpeername()[1] == sender_port:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, block_bytes)
                    return True
    finally:
        os.close(pidfd)
    return False


# First words of a command that can be preloaded; the module has a function `main(arguments)`.
PYTHON = ("python3", "-m")
LOAD_LIMIT_S = 60.0


@dataclass
class Loaded:
    """A preloaded program, whose arguments are still to come."""

    module: str
    popen: subprocess.Popen[bytes]
    control: socket.socket

    @classmethod
    def start(cls, host: Host, module: str) -> Loaded:
        """Start to load a program."""
        control, stdin = socket.socketpair()
        command = [*PYTHON, preloaded_program.__name__, module]
        with stdin:
            popen = host.popen(command, stdin=stdin, stdout=sys.stderr, stderr=sys.stderr)
        return cls(module, popen, control)

    def require(self) -> None:
        """Wait until the program is loaded."""
        readable = select.select([self.control], [], [], LOAD_LIMIT_S)[0]
        if not readable or self.control.recv(len(READY)) != READY:
            raise LosslabError(
                f"{self.module} must be loaded within {LOAD_LIMIT_S:g} s, found it is not"
            )

    def begin(self, arguments: Sequence[str], **streams: Any) -> subprocess.Popen[bytes]:
        """Run the program; `streams` are stdin, stdout and stderr, as of `subprocess.Popen`."""
        numbers, opened = list[int](), list[int]()
        for stream in (streams[name] for name in ("stdin", "stdout", "stderr")):
            if stream == subprocess.STDOUT:
                numbers.append(numbers[1])
            elif stream == subprocess.DEVNULL:
                opened.append(os.open(os.devnull, os.O_RDWR))
                numbers.append(opened[-1])
            elif stream == subprocess.PIPE:
                read_end, write_end = os.pipe()
                self.popen.stdout = os.fdopen(read_end, "rb")
                opened.append(write_end)
                numbers.append(write_end)
            else:
                numbers.append(stream.fileno())
        socket.send_fds(self.control, [GO], numbers)
        for number in opened:
            os.close(number)
        self.control.sendall(json.dumps(list(arguments)).encode())
        self.control.close()
        return self.popen

    def end(self) -> None:
        """Kill the program."""
        self.control.close()
        self.popen.kill()
        self.popen.wait()


@dataclass
class ReadyHost:
    """A host with preloaded programs, each of which can run once."""

    host: Host
    loaded: list[Loaded] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """PID of a process in the host's namespaces."""
        return self.host.pid

    def popen(self, command: list[str], /, **streams: Any) -> subprocess.Popen[bytes]:
        """Run a preloaded program if there is one for the command; else start a process."""
        for program in self.loaded:
            if tuple(command[:3]) == (*PYTHON, program.module):
                self.loaded.remove(program)
                return program.begin(command[3:], **streams)
        return self.host.popen(command, **streams)


def of_flows(flows: Sequence[Flow]) -> list[tuple[str, str]]:
    """List host and module of the flows' Python programs."""
    programs = [program for flow in flows for program in (flow.listener, flow.caller)]
    return [(p.host, p.command[2]) for p in programs if tuple(p.command[:2]) == PYTHON]


@contextlib.contextmanager
def preloaded(
    nodes: Mapping[str, Host], programs: Sequence[tuple[str, str]]
) -> Iterator[Mapping[str, Host]]:
    """Preload programs, given by host and module, and kill them after the block."""
    ready = {name: ReadyHost(node) for name, node in nodes.items()}
    with contextlib.ExitStack() as stack:
        for name, module in programs:
            program = Loaded.start(nodes[name], module)
            stack.callback(program.end)
            ready[name].loaded.append(program)
        for host in ready.values():
            for program in host.loaded:
                program.require()
        yield ready
