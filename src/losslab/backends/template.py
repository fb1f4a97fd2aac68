"""Guests that wait, ready for a job, and the copies of them that do it.

A kernel of ours can be copied as it stands (containers/kernel/patches/0005): a guest boots once,
with everything that no seed decides, and waits; each job gets a copy of it, with a random generator
of its own, which is what the guest itself would have become had it gone on.
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

# An answer has three numbers and two words.
ANSWER_BYTES = 256
# For a waiting kernel to fork, on a busy machine.
ANSWER_LIMIT_S = 20.0
POLL_S = 0.1


class Copy:
    """A guest that was started as a copy; a `processes.Running`."""

    def __init__(self, template: Template, pid: int) -> None:
        self._template, self.pid = template, pid
        self.returncode: int | None = None
        self.cpu_s: float | None = None  # of its kernel and processes, once it has ended

    def poll(self) -> int | None:
        """Return its status; None while it runs."""
        return self._status(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; without a limit it must have been killed."""
        status = self._status(timeout)
        if status is None:
            raise processes.TimeoutExpired(f"guest {self.pid}", timeout or 0.0)
        return status

    def _status(self, limit_s: float | None) -> int | None:
        if self.returncode is None:
            found = self._template.ended(self.pid, limit_s)
            if found is not None:
                self.returncode, self.cpu_s = found
        return self.returncode


class Template:
    """A guest that waits for jobs."""

    def __init__(self, control: socket.socket, console: Path, boot_s: float) -> None:
        """Talk to it over the other end of its kernel's `snapshot=`.

        `console` has its output until it waited, which took `boot_s` of wall time.
        """
        self._control, self._console, self.boot_s = control, console, boot_s
        self.folder = console.parent
        self._ended: dict[int, tuple[int, float]] = {}
        self._gone = False

    @property
    def waits(self) -> bool:
        """Tell whether it is still there."""
        while (words := self._next(0.0)) is not None:
            self._note(words)
        return not self._gone

    def copy(self, seed: int, folder: Path, console: Path) -> Copy:
        """Start a copy whose random generator has `seed` and whose job lies in `folder`.

        Its output follows the template's in `console`, which lies there, too. HostError: there is
        no room for another process.
        """
        with console.open("ab") as out:
            out.write(self._console.read_bytes())
        request = f"{seed} ".encode() + os.fsencode(folder.resolve())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._control.send(request)
        deadline = time.monotonic() + ANSWER_LIMIT_S
        while (words := self._next(max(0.0, deadline - time.monotonic()))) is not None:
            if words[0] == "started":
                # A process of the snapshot that was killed may have had this number before.
                self._ended.pop(int(words[1]), None)
                return Copy(self, int(words[1]))
            if words[0] == "failed":
                break
            self._note(words)
        raise HostError(
            "a guest that waits must start a copy of itself, found: "
            + (os.strerror(int(words[1])) if words else "no answer"),
            hint="free memory or processes, and start again",
        )

    def ended(self, pid: int, limit_s: float | None) -> tuple[int, float] | None:
        """Return the status of a copy and its seconds of CPU time; None if it runs after `limit_s`.

        Without a limit it has been killed: if the template does not report that within
        ANSWER_LIMIT_S, it is lost itself.
        """
        deadline = time.monotonic() + (ANSWER_LIMIT_S if limit_s is None else limit_s)
        while pid not in self._ended:
            words = self._next(max(0.0, deadline - time.monotonic()))
            if words is None and (self._gone or limit_s is None):
                self._gone = True
                return -signal.SIGKILL, 0.0  # copies end with it
            if words is None:
                return None
            self._note(words)
        return self._ended.pop(pid)

    def _note(self, words: list[str]) -> None:
        """Remember which copy ended, and how."""
        if words[0] == "ended":
            status = os.waitstatus_to_exitcode(int(words[2]))
            self._ended[int(words[1])] = (status, float(words[3]) + float(words[4]))

    def _next(self, limit_s: float) -> list[str] | None:
        """Return the words of the next answer; None where there is none in time, or ever."""
        if self._gone or not select.select([self._control], [], [], limit_s)[0]:
            return None
        try:
            answer = self._control.recv(ANSWER_BYTES)
        except ConnectionResetError:
            answer = b""
        self._gone = not answer
        return answer.decode().split() or None


Spawn = Callable[[list[str], list[int], IO[bytes]], processes.Process]


@contextlib.contextmanager
def waiting(
    spawn: Spawn, console: Path, limit_s: float, refuse: Callable[[int | None, str], LosslabError]
) -> Iterator[Template]:
    """Boot a guest until it waits; it is gone after the block, with all its copies.

    Args:
        spawn: Starts its kernel, given words for its command line, descriptors that must stay open
            in it, and its console.
        console: The file of its output.
        limit_s: Of wall time.
        refuse: Explains one that does not come to wait, from its status and console.
    """
    begin = time.monotonic()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs, console.open("wb") as out:
            number = theirs.fileno()
            process = spawn([f"snapshot={number}"], [number], out)
        try:
            ready = False
            while not ready and time.monotonic() - begin < limit_s:
                interrupts.heed()
                if select.select([ours], [], [], POLL_S)[0]:
                    if not ours.recv(ANSWER_BYTES):
                        break  # it ended
                    ready = True
            if not ready:
                status = processes.wait(process, POLL_S)
                raise refuse(status, console.read_text(errors="replace"))
            yield Template(ours, console, time.monotonic() - begin)
        finally:
            processes.end_session(process)


class Templates:
    """The guest that waits for the jobs of a cell: at most one, and gone at the end."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._for: object = None
        self._template: Template | None = None

    def get(
        self, purpose: object, boot: Callable[[], AbstractContextManager[Template]]
    ) -> tuple[Template, float]:
        """Return the snapshot for a purpose, and the wall time that booting it took now."""
        if self._template is not None and self._for == purpose and self._template.waits:
            return self._template, 0.0
        self.drop()
        self._template = self._stack.enter_context(boot())
        self._for = purpose
        return self._template, self._template.boot_s

    def drop(self) -> None:
        """End it: the next job gets one that is booted anew."""
        self._template = None
        self._stack.close()

    def __enter__(self) -> Templates:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()
