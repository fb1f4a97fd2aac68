"""Snapshots: booted guests that are forked.

losslab's kernels can fork themselves (containers/kernel/patches/0005 and 0013). A guest boots,
makes hosts and links, and waits: the base snapshot, which is the same for all cells. A fork of it
is set up for a cell except for what depends on the seed, and waits: the cell's snapshot. Each job
runs in a fork of that, with its own seed. A fork behaves exactly as the guest itself would.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol

from losslab import interrupts, processes
from losslab.errors import HostError, LosslabError

# Maximum length of a reply: a word and four numbers.
REPLY_BYTES = 256
# Time limit for a snapshot's kernel to fork, on a busy machine.
REPLY_LIMIT_S = 20.0
POLL_S = 0.1
# Memory is released in holes of files. Smaller ones would make more system calls of a fork than
# they save copying.
BLOCK_BYTES, HOLE_BYTES = 2**20, 2**14
PUNCH_HOLE, KEEP_SIZE = 0x02, 0x01  # linux/falloc.h


class Snapshot:
    """A booted guest that can be forked, by several threads at once."""

    def __init__(self, control: socket.socket, console: Path) -> None:
        """Connect to a snapshot by a socket whose other end it has; its folder has `console`."""
        self._control, self._console = control, console
        self.folder = console.parent
        self.forks_cpu_s = 0.0  # CPU time of the forks that have ended
        self._ended: dict[int, tuple[int, float]] = {}
        self._gone, self._lock = False, threading.Lock()  # of all that reads from the socket

    @property
    def alive(self) -> bool:
        """Return whether the snapshot still runs."""
        with self._lock:
            return self._record_ends()

    def ready(self, limit_s: float) -> bool:
        """Wait until it waits for requests; return False if it ends or takes too long."""
        deadline = time.monotonic() + limit_s
        while not self._gone and time.monotonic() < deadline:
            interrupts.heed()
            if self._next(POLL_S) is not None:
                return True
        return False

    def fork(self, seed: int, folder: Path, control: int | None = None) -> Fork:
        """Fork the snapshot for a job in `folder`; raise HostError if there is no room for it.

        A fork that has a cut is then controlled over the socket `control`.
        """
        return Fork(self, self._fork(f"{seed} -", folder, control))

    def fork_future(
        self, folder: Path, cpu: int, orders: Sequence[str] = (), control: int | None = None
    ) -> Fork:
        """Fork a guest at its cut; the fork continues as the guest would have done.

        `folder` has the same files as the guest's, and `cpu` is the host's. `orders` are what its
        kernel does first (`snapshot_order`, kernel patch 0015). `control` is as of `fork`.
        """
        return Fork(self, self._fork(f"- {cpu}", folder, control, orders))

    def fork_snapshot(self, folder: Path, cpu: int, control: int) -> int:
        """Fork the snapshot into another one; return its PID, which is also its process group.

        It runs on the host's `cpu` and is controlled over the socket `control`. Raises HostError if
        there is no room for another process.
        """
        return self._fork(f"- {cpu}", folder, control)

    def _fork(
        self, options: str, folder: Path, control: int | None, orders: Sequence[str] = ()
    ) -> int:
        with (folder / self._console.name).open("ab") as out:
            out.write(self._console.read_bytes())
        request = f"{options} ".encode() + os.fsencode(folder.resolve())
        if orders:
            request += b"\0" + "\n".join(orders).encode()
        with self._lock:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(self._control, [request], [] if control is None else [control])
            deadline = time.monotonic() + REPLY_LIMIT_S
            while (reply := self._next(max(0.0, deadline - time.monotonic()))) is not None:
                if reply[0] == "started":
                    self._ended.pop(int(reply[1]), None)  # of a killed fork
                    return int(reply[1])
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
        while True:
            with self._lock:
                runs, left_s = self._record_ends(), deadline - time.monotonic()
                if pid in self._ended:
                    return self._ended.pop(pid)
                if not runs or (left_s <= 0 and limit_s is None):
                    self._gone = True
                    return -signal.SIGKILL, 0.0  # forks end with the snapshot
            if left_s <= 0:
                return None
            # Another thread may receive the reply meanwhile, and record it.
            select.select([self._control], [], [], min(left_s, POLL_S))

    def _record_ends(self) -> bool:
        """Record the replies that have arrived; return whether the snapshot still runs."""
        while (reply := self._next(0.0)) is not None:
            self._record_end(reply)
        return not self._gone

    def _record_end(self, reply: list[str]) -> None:
        if reply[0] == "ended":
            status = os.waitstatus_to_exitcode(int(reply[2]))
            self._ended[int(reply[1])] = status, float(reply[3]) + float(reply[4])
            self.forks_cpu_s += self._ended[int(reply[1])][1]

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


class Base(Protocol):
    """Base snapshot, of this process or another one."""

    def fork_snapshot(self, folder: Path, cpu: int, control: int) -> int:
        """Fork it, as `Snapshot.fork_snapshot`."""


Spawn = Callable[[list[str], list[int], IO[bytes]], processes.Process]
# Returns the error of a snapshot that is not ready, given exit status and console.
Refuse = Callable[[int | None, str], LosslabError]


@contextlib.contextmanager
def booted(spawn: Spawn, console: Path, limit_s: float, refuse: Refuse) -> Iterator[Snapshot]:
    """Boot a snapshot for the length of the block; end it and all its forks afterwards.

    `spawn` starts its kernel, given arguments for its command line, descriptors that must stay open
    in it, and its console, a file in its folder. `refuse` returns the error of a failed boot.
    """
    own_end, guest_end = control_sockets()
    with own_end:
        with guest_end, console.open("wb") as out:
            descriptor = guest_end.fileno()
            process = spawn([f"snapshot={descriptor}"], [descriptor], out)
        snapshot = Snapshot(own_end, console)
        try:
            if not snapshot.ready(limit_s):
                status = processes.wait(process, POLL_S)
                raise refuse(status, console.read_text(errors="replace"))
            release_zeros(process.pid)
            yield snapshot
        finally:
            processes.end_session(process)


@contextlib.contextmanager
def forked(
    base: Base, console: Path, cpu: int, limit_s: float, refuse: Refuse
) -> Iterator[Snapshot]:
    """Fork a base snapshot into another one for the length of the block.

    It runs on the host's `cpu`; the other arguments are those of `booted`.
    """
    own_end, guest_end = control_sockets()
    with own_end:
        with guest_end:
            pid = base.fork_snapshot(console.parent, cpu, guest_end.fileno())
        snapshot = Snapshot(own_end, console)
        try:
            if not snapshot.ready(limit_s):
                text = console.read_text(errors="replace")
                # Its status is not known here: killed, unless its kernel says otherwise.
                killed = not snapshot.alive and "Kernel panic" not in text
                raise refuse(-signal.SIGKILL if killed else None, text)
            release_zeros(pid)
            yield snapshot
        finally:
            # If it has ended, another process may have its PID.
            if snapshot.alive:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)


def control_sockets() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets: a snapshot's, and its guest's."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


BASE, CELL = "base", "cell"  # kinds of snapshots


class Snapshots:
    """Keeps at most one base snapshot and one of a cell; ends them after the block.

    Attributes:
        may_share: Whether to use base snapshots of other processes; False after a failure.
    """

    def __init__(self) -> None:
        # By kind: the purpose, the snapshot, and what ends it.
        self._kept: dict[str, tuple[object, Snapshot, contextlib.ExitStack]] = {}
        self.may_share = True

    def get(
        self, kind: str, purpose: object, start: Callable[[], AbstractContextManager[Snapshot]]
    ) -> tuple[Snapshot, float]:
        """Return the snapshot of a kind for a purpose, and the wall time spent on starting it.

        Kinds are BASE and CELL. A snapshot that has ended, or was for another purpose, is replaced.
        """
        kept = self._kept.get(kind)
        if kept is not None and kept[0] == purpose and kept[1].alive:
            return kept[1], 0.0
        self._drop(kind)
        begin, stack = time.monotonic(), contextlib.ExitStack()
        snapshot = stack.enter_context(start())
        self._kept[kind] = purpose, snapshot, stack
        return snapshot, time.monotonic() - begin

    def _drop(self, kind: str) -> None:
        if kept := self._kept.pop(kind, None):
            kept[2].close()

    def drop(self) -> None:
        """End the snapshots; the next job boots new ones."""
        self.may_share = False
        self._drop(CELL)
        self._drop(BASE)

    def __enter__(self) -> Snapshots:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()


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
            ended = self._snapshot.ended(self.pid, limit_s)
            if ended is not None:
                self.returncode, self.cpu_s = ended
        return self.returncode


def release_zeros(pid: int) -> None:
    """Release the zeros in the memory file of a waiting snapshot.

    A hole in the file reads as zeros, so nothing changes for the snapshot and its forks, but forks
    do not copy it. Where the file cannot be found or has no holes, its memory stays as it is.
    """
    with contextlib.suppress(OSError):
        # The largest unnamed file that the process has open.
        files = [p for p in Path(f"/proc/{pid}/fd").iterdir() if "(deleted)" in os.readlink(p)]
        for path in sorted(files, key=lambda path: path.stat().st_size)[-1:]:
            with path.open("r+b", buffering=0) as memory:
                _punch(memory.fileno())


def _punch(descriptor: int) -> None:
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    zeros, size = bytes(HOLE_BYTES), os.fstat(descriptor).st_size
    for at in range(0, size, BLOCK_BYTES):
        if os.lseek(descriptor, at, os.SEEK_DATA) >= at + BLOCK_BYTES:
            continue
        block = os.pread(descriptor, BLOCK_BYTES, at)
        holes = [n for n in range(0, len(block), HOLE_BYTES) if block.startswith(zeros, n)]
        for n in holes:
            if fallocate(descriptor, PUNCH_HOLE | KEEP_SIZE, at + n, HOLE_BYTES):
                raise OSError(ctypes.get_errno(), "fallocate")
