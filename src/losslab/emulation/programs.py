"""Programs that run on hosts: start them, know how they end, and end them."""

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
from losslab.emulation.waits import Waiter

SYS_PIDFD_GETFD = 438  # asm-generic/unistd.h; the same number on every architecture
# What a program has to end in that is told to.
PATIENCE_S = 1.0


@dataclass
class Process:
    """A program that was started on its host."""

    program: Program
    popen: subprocess.Popen[bytes]
    words: Path  # what it says when it fails
    told: bool = False  # to end

    def end_if_due(self, now_s: Callable[[], float]) -> None:
        """Tell it to end with the run, if it is one of those; and end it, if it does not."""
        if not isinstance(self.program, Timed) or self.popen.poll() is not None:
            return
        late_s = now_s() - self.program.until_s
        if late_s >= (PATIENCE_S if self.told else 0.0):
            self.send(signal.SIGKILL if self.told else self.program.ending)
            self.told = True

    def send(self, number: int) -> None:
        """Send a signal to it and, where it leads them, all that it started."""
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(self.popen.pid) == self.popen.pid:
                os.killpg(self.popen.pid, number)
            else:
                self.popen.send_signal(number)

    @property
    def ended(self) -> bool:
        """Tell whether it is not waited for."""
        return self.program.lasting or self.popen.poll() is not None

    def reason(self, limit_s: float) -> str | None:
        """Say how it failed; None when it ended well."""
        name, status = f"{self.program.command[0]} on {self.program.host}", self.popen.poll()
        if self.told:
            return None
        if status is None and not self.program.lasting:
            return f"{name} must end within {limit_s:g} s, found it still running"
        if status not in (None, 0):
            return f"{name} must exit with 0, found {status}: {last_words(self.words)}"
        if status == 0 and self.program.lasting:
            return f"{name} must serve until the end, found that it ended"
        return None


class Ends:
    """Waits for time or for the end of a program, whatever comes first.

    Who asked each program at each sample whether it has ended would ask in vain.
    """

    def __init__(self) -> None:
        self._at_work: dict[int, Process] = {}
        self._waiter = Waiter()
        self._descriptors = contextlib.ExitStack()

    def close(self) -> None:
        """Watch no more."""
        self._descriptors.close()

    def watch(self, process: Process) -> None:
        """Wait for this one, too, unless nobody waits for it."""
        if process.program.lasting:
            return
        pidfd = os.pidfd_open(process.popen.pid)
        self._descriptors.callback(os.close, pidfd)
        self._at_work[pidfd] = process
        self._waiter = Waiter(*self._at_work)

    @property
    def all_ended(self) -> bool:
        """Tell whether those that were watched have ended, as far as `wait` has seen."""
        return not self._at_work

    def wait(self, limit_ns: int) -> None:
        """Wait until a program ends, or so long."""
        for pidfd in self._waiter.wait(limit_ns):
            self._at_work.pop(pidfd).popen.wait()
            self._waiter = Waiter(*self._at_work)


@contextlib.contextmanager
def running(hosts: Mapping[str, Host], program: Program, folder: Path) -> Iterator[Process]:
    """Start a program on its host; at the end of the block it is gone and its log is whole."""
    path = folder / program.log
    with contextlib.ExitStack() as stack:
        if program.stamped:
            words = path.with_suffix(".err")
            out: Any = subprocess.PIPE
            errors: Any = stack.enter_context(words.open("wb"))
        else:
            words = path
            out = stack.enter_context(path.open("wb"))
            errors = subprocess.STDOUT
        popen = hosts[program.host].popen(
            program.command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors
        )
        stamper = threading.Thread(target=_stamp_lines, args=(popen.stdout, path))
        if program.stamped:
            stamper.start()
        process = Process(program, popen, words)
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


def last_words(path: Path) -> str:
    """Return what a program says of its failure: in iperf3's JSON by name, else at the end."""
    lines = path.read_text(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    named = [line for line in said if line.startswith('"error"')]
    return (named or said or ["nothing"])[-1]


def _stamp_lines(pipe: Any, path: Path) -> None:
    """Copy lines from `pipe` to `path`, each behind the monotonic clock's nanoseconds."""
    with path.open("w") as out:
        for line in pipe:
            out.write(f"{time.monotonic_ns()} {line.decode(errors='replace')}")


def receive_blocks(pid: int, sender_port: int, block_bytes: int) -> bool:
    """Let a connection from `sender_port` wake its program for whole blocks, by SO_RCVLOWAT.

    A processor without cost, as virtual time has it, runs a bulk receiver once per packet. That
    changes nothing that is measured, since the program counts whole blocks, but is most of what a
    fast flow costs the host. Returns whether the process has such a connection;
    OSError if it is gone.
    """
    pidfd = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            # A descriptor may be closed between listing and looking.
            if not entry.is_socket():
                continue
            copy = ctypes.CDLL(None, use_errno=True).syscall(
                SYS_PIDFD_GETFD, pidfd, int(entry.name), 0
            )
            if copy < 0:
                continue
            with socket.socket(fileno=copy) as connection, contextlib.suppress(OSError):
                if connection.getpeername()[1] == sender_port:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, block_bytes)
                    return True
    finally:
        os.close(pidfd)
    return False
