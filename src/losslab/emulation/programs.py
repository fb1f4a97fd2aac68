"""Programs on hosts: start them, wait for their end, and kill them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.emulation.flows import Host, Program, Timed
from losslab.emulation.timers import Waiter

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
            return f"{name} must exit with 0, found {status}: {last_lines(self.messages)}{cause}"
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
    """Return a program's error message: the `error` of iperf3's JSON, or else the last line."""
    lines = [line.strip() for line in path.read_text(errors="replace").split("\n")]
    output = [line for line in lines if line]
    errors = [line for line in output if line.startswith('"error"')]
    return (errors or output or ["nothing"])[-1]


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
