"""Child processes with time limits; errors quote the output of a program that fails.

`emulation.hosts` runs the programs of the emulated hosts.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from losslab import interrupts
from losslab.errors import LosslabError

# Limit of short queries: they take a second or two, R on a busy machine ten.
ASK_LIMIT_S = 60.0
# Limit of long work: a kernel takes ten minutes to compile on one core, an hour on a busy one.
WORK_LIMIT_S = 4 * 3600.0
# Grace period after SIGTERM, in which mmdebstrap, for example, removes its mounts.
PATIENCE_S = 10.0
QUOTED_LINES = 30
NOT_RUN = 127
MS_PER_S = 1000


class Process(subprocess.Popen[bytes]):
    """Child process whose end can be waited for after a signal.

    Popen holds a lock while it asks for the status. An exception raised by a signal at that moment
    would leave the lock held, and a later wait would never return.
    """

    def poll(self) -> int | None:
        """Return its status; None while it runs."""
        with interrupts.held():
            return super().poll()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its status; TimeoutExpired as of `Running.wait`."""
        if self.poll() is None:
            watched = os.pidfd_open(self.pid)
            try:
                ready = select.poll()
                ready.register(watched, select.POLLIN)
                ready.poll(None if timeout is None else max(0.0, timeout) * MS_PER_S)
            finally:
                os.close(watched)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status


TimeoutExpired = subprocess.TimeoutExpired


class Running(Protocol):
    """Running program: a `Process`, or a fork of a snapshot."""

    @property
    def pid(self) -> int:
        """Process ID, which is also its process group."""

    @property
    def returncode(self) -> int | None:
        """Exit status after its end was seen; None before."""

    def poll(self) -> int | None:
        """Return its status; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; TimeoutExpired if it runs after `timeout` seconds."""


@dataclass(frozen=True)
class Done:
    """Exit status and output of a program."""

    status: int | None  # None: time limit exceeded; NOT_RUN: not found, as in a shell
    out: str
    err: str

    @property
    def good(self) -> bool:
        """Return whether it succeeded."""
        return self.status == 0

    @property
    def last_line(self) -> str:
        """Last line of its error output, or else of its output."""
        return (self.err.strip().splitlines() or self.out.strip().splitlines() or ["nothing"])[-1]


def attempt(
    command: Sequence[str | Path],
    *,
    limit_s: float = ASK_LIMIT_S,
    text: str | None = None,
    cwd: Path | None = None,
    more: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Done:
    """Run a program to its end and return its status and output; a failure raises nothing.

    Standard input is `text`, or else empty. `more` has environment variables in addition to this
    process's. Output that is appended to `log` is not returned.
    """
    with contextlib.ExitStack() as stack:
        target: int | IO[str] = subprocess.PIPE
        if log is not None:
            target = stack.enter_context(log.open("a"))
            print("$", *command, file=target, flush=True)
        try:
            process = _start(
                command,
                stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
                stdout=target, stderr=target, cwd=cwd, env=os.environ | dict(more or {}),
            )  # fmt: skip
        except OSError as error:
            return Done(NOT_RUN, "", f"{command[0]} must be installed ({error.strerror})")
        with process:
            try:
                words = None if text is None else text.encode()
                outputs = process.communicate(words, timeout=limit_s)
            except subprocess.TimeoutExpired:
                return Done(None, "", f"no end in {limit_s:g} s")
            finally:
                end(process, PATIENCE_S)
        out, err = ((each or b"").decode(errors="replace") for each in outputs)
        return Done(process.returncode, out, err)


def _start(command: Sequence[str | Path], **how: Any) -> Process:
    """Start a program as Popen does; end it if a signal arrives during the start."""
    process = None
    try:
        with interrupts.held():
            process = Process(list(map(str, command)), **how)
    except BaseException:
        if process is not None:
            end(process)
        raise
    return process


def run(
    command: Sequence[str | Path],
    *,
    limit_s: float = WORK_LIMIT_S,
    log: Path | None = None,
    **how: Any,
) -> str:
    """Run a program that must succeed and return its output; arguments as in `attempt`.

    Raises LosslabError with its last lines otherwise.
    """
    done = attempt(command, limit_s=limit_s, log=log, **how)
    if done.good:
        return done.out
    name = " ".join(map(str, command))
    if done.status in (None, NOT_RUN):
        hint = "run `make setup`" if done.status == NOT_RUN else ""
        raise LosslabError(f"`{name}` must succeed, found: {done.err}", hint=hint)
    words = done.err.strip() or done.out.strip()
    if log is not None:
        words = log.read_text(errors="replace").strip()
    quoted = "\n".join(words.splitlines()[-QUOTED_LINES:])
    raise LosslabError(f"`{name}` must succeed, found status {done.status}:\n{quoted}")


def spawn(
    command: Sequence[str | Path],
    *,
    ending: signal.Signals = signal.SIGKILL,
    cpu: int | None = None,
    raise_limits: Sequence[str] = (),
    console: IO[bytes] | None = None,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> Process:
    """Start a program in its own session that ends when this process ends.

    Programs of util-linux set it up between fork and exec. If Python did, its module locks would be
    held around the fork, and a signal at that moment would be raised where Python ignores it.

    The program receives `ending` when this process ends in any way (setpriv(1)), and is bound to
    `cpu`. `raise_limits` names limits of prlimit(1) to raise to their hard limits. Its output goes
    to the file `console`, and it has no input; by default it has this process's terminal.
    `variables` is its whole environment.
    """
    tied = ["setpriv", "--pdeathsig", ending.name.removeprefix("SIG"), "--"]
    bound = [] if cpu is None else ["taskset", "--cpu-list", str(cpu)]
    if raise_limits:
        bound += ["prlimit", *(f"--{name}={_hard_limit(name)}:" for name in raise_limits), "--"]
    try:
        return _start(
            [*tied, *bound, *command],
            stdin=None if console is None else subprocess.DEVNULL,
            stdout=console,
            stderr=None if console is None else subprocess.STDOUT,
            cwd=cwd, env=variables, pass_fds=pass_fds,
            # One signal then ends all its processes, and Ctrl-C reaches this process alone.
            start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise LosslabError(
            f"setpriv of util-linux must be installed, found: {error}", hint="run `make setup`"
        ) from error


def _hard_limit(name: str) -> str:
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    return "unlimited" if hard == resource.RLIM_INFINITY else str(hard)


def wait(process: Running, limit_s: float) -> int | None:
    """Wait for a program's end; return its status, or None while it runs."""
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None


def end(process: Running, patience_s: float = 0.0) -> None:
    """End a running program; with `patience_s`, send SIGTERM first so that it can clean up."""
    if process.poll() is None and patience_s:
        os.kill(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience_s)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def end_session(process: Running, patience_s: float = 0.0) -> None:
    """End a program of `spawn`, or a guest, with all processes of its session."""
    if patience_s:
        end(process, patience_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
