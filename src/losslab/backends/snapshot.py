"""Snapshots: booted guests that are forked for each job.

losslab's kernels can fork themselves (containers/kernel/patches/0005). A guest boots once and is
set up except for what depends on the seed; then it waits. Each job runs in a fork with its own
random seed. A fork behaves exactly as the guest itself would with that seed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from losslab import interrupts, processes
from losslab.errors import HostError, LosslabError

# Maximum length of a reply: a word and four numbers.
REPLY_BYTES = 256
# Time limit for a snapshot's kernel to fork, on a busy machine.
REPLY_LIMIT_S = 20.0
POLL_S = 0.1


class Fork:
    """A guest that was forked from a snapshot; a `processes.Running`."""

    def __init__(self, snapshot: Snapshot, pid: int) -> None:
        self._snapshot, self.pid = snapshot, pid
        self.returncode: int | None = None
        self.cpu_s: float | None = None  # CPU time of its kernel and processes, after its end

    def poll(self) -> int | None:
        """Return the exit status; None while the guest runs."""
        return self._status(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the guest's end; without a timeout, it must have been killed before."""
        status = self._status(timeout)
        if status is None:
            raise processes.TimeoutExpired(f"guest {self.pid}", timeout or 0.0)
        return status

    def _status(self, limit_s: float | None) -> int | None:
        if self.returncode is None:
            found = self._snapshot.ended(self.pid, limit_s)
            if found is not None:
                self.returncode, self.cpu_s = found
        return self.returncode


class Snapshot:
    """A booted guest that can be forked."""

    def __init__(self, control: socket.socket, console: Path, boot_s: float) -> None:
        """Connect to a snapshot.

        Args:
            control: Socket whose other end is the kernel's `snapshot=`.
            console: File with its output.
            boot_s: Wall time of booting it.
        """
        self._control, self._console, self.boot_s = control, console, boot_s
        self.folder = console.parent
        self._ended: dict[int, tuple[int, float]] = {}
        self._gone = False

    @property
    def alive(self) -> bool:
        """Return whether the snapshot still runs."""
        while (reply := self._next(0.0)) is not None:
            self._record_end(reply)
        return not self._gone

    def fork(self, seed: int, folder: Path, console: Path) -> Fork:
        """Fork the snapshot.

        Args:
            seed: Seed of the fork's random generator.
            folder: Folder of its job.
            console: File in that folder for its output, which follows the snapshot's.

        Raises:
            HostError: there is no room for another process.
        """
        with console.open("ab") as out:
            out.write(self._console.read_bytes())
        request = f"{seed} ".encode() + os.fsencode(folder.resolve())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._control.send(request)
        deadline = time.monotonic() + REPLY_LIMIT_S
        while (reply := self._next(max(0.0, deadline - time.monotonic()))) is not None:
            if reply[0] == "started":
                # A killed fork may have had this PID before.
                self._ended.pop(int(reply[1]), None)
                return Fork(self, int(reply[1]))
            if reply[0] == "failed":
                break
            self._record_end(reply)
        raise HostError(
            "the snapshot must fork a guest, found: "
            + (os.strerror(int(reply[1])) if reply else "no reply"),
            hint="free memory or processes, and start again",
        )

    def ended(self, pid: int, limit_s: float | None) -> tuple[int, float] | None:
        """Return a fork's exit status and CPU time in s; None if it still runs after `limit_s`.

        Without a limit, the fork must have been killed. If the snapshot does not report its end
        within REPLY_LIMIT_S, the snapshot itself is considered lost.
        """
        deadline = time.monotonic() + (REPLY_LIMIT_S if limit_s is None else limit_s)
        while pid not in self._ended:
            reply = self._next(max(0.0, deadline - time.monotonic()))
            if reply is None and (self._gone or limit_s is None):
                self._gone = True
                return -signal.SIGKILL, 0.0  # forks end with the snapshot
            if reply is None:
                return None
            self._record_end(reply)
        return self._ended.pop(pid)

    def _record_end(self, reply: list[str]) -> None:
        """Record the exit status and CPU time of a fork."""
        if reply[0] == "ended":
            status = os.waitstatus_to_exitcode(int(reply[2]))
            self._ended[int(reply[1])] = (status, float(reply[3]) + float(reply[4]))

    def _next(self, limit_s: float) -> list[str] | None:
        """Return the fields of the next reply; None after `limit_s` or the snapshot's end."""
        if self._gone or not select.select([self._control], [], [], limit_s)[0]:
            return None
        try:
            reply = self._control.recv(REPLY_BYTES)
        except ConnectionResetError:
            reply = b""
        self._gone = not reply
        return reply.decode().split() or None


Spawn = Callable[[list[str], list[int], IO[bytes]], processes.Process]


@contextlib.contextmanager
def booted(
    spawn: Spawn, console: Path, limit_s: float, refuse: Callable[[int | None, str], LosslabError]
) -> Iterator[Snapshot]:
    """Boot a snapshot for the length of the block; end it and all its forks afterwards.

    Args:
        spawn: Starts its kernel, given arguments for its command line, descriptors that must stay
            open in it, and its console.
        console: File for its output.
        limit_s: Wall time limit for booting.
        refuse: Returns the error of a failed boot, given exit status and console.
    """
    begin = time.monotonic()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs, console.open("wb") as out:
            descriptor = theirs.fileno()
            process = spawn([f"snapshot={descriptor}"], [descriptor], out)
        try:
            ready = False
            while not ready and time.monotonic() - begin < limit_s:
                interrupts.heed()
                if select.select([ours], [], [], POLL_S)[0]:
                    if not ours.recv(REPLY_BYTES):
                        break  # the guest has ended
                    ready = True
            if not ready:
                status = processes.wait(process, POLL_S)
                raise refuse(status, console.read_text(errors="replace"))
            yield Snapshot(ours, console, time.monotonic() - begin)
        finally:
            processes.end_session(process)


class Snapshots:
    """Keeps at most one snapshot for the jobs of a cell; ends it after the block."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._for: object = None
        self._snapshot: Snapshot | None = None

    def get(
        self, purpose: object, boot: Callable[[], AbstractContextManager[Snapshot]]
    ) -> tuple[Snapshot, float]:
        """Return the snapshot for a purpose, and the wall time spent on booting it now."""
        if self._snapshot is not None and self._for == purpose and self._snapshot.alive:
            return self._snapshot, 0.0
        self.drop()
        self._snapshot = self._stack.enter_context(boot())
        self._for = purpose
        return self._snapshot, self._snapshot.boot_s

    def drop(self) -> None:
        """End the snapshot; the next job boots a new one."""
        self._snapshot = None
        self._stack.close()

    def __enter__(self) -> Snapshots:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()
