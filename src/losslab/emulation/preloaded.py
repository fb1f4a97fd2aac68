"""Preloaded programs: Python programs of hosts that are started in the snapshot.

Loading the interpreter and a program's modules takes half a second of CPU time in a guest. The
snapshot does it once for all replicates; each program then waits for its arguments and standard
streams. Standard library only.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from losslab.errors import LosslabError

if TYPE_CHECKING:
    from losslab.emulation.flows import Flow, Host

# First words of a command that can be preloaded; the module has a function `main(arguments)`.
PYTHON = ("python3", "-m")
READY, GO = b"r", b"g"
LOAD_LIMIT_S = 60.0
STREAMS = 3


@dataclass
class Loaded:
    """A preloaded program that waits for its arguments."""

    module: str
    popen: subprocess.Popen[bytes]
    control: socket.socket

    def require(self) -> None:
        """Wait until the program is loaded."""
        readable = select.select([self.control], [], [], LOAD_LIMIT_S)[0]
        if not readable or self.control.recv(len(READY)) != READY:
            raise LosslabError(
                f"{self.module} must be loaded within {LOAD_LIMIT_S:g} s, found it is not"
            )

    def begin(self, arguments: Sequence[str], **streams: Any) -> subprocess.Popen[bytes]:
        """Run the program; `streams` are stdin, stdout and stderr, as of `subprocess.Popen`."""
        with contextlib.ExitStack() as stack:
            numbers = [
                self._descriptor(streams[name], stack) for name in ("stdin", "stdout", "stderr")
            ]
            if streams["stderr"] == subprocess.STDOUT:
                numbers[2] = numbers[1]
            socket.send_fds(self.control, [GO], numbers)
        self.control.sendall(json.dumps(list(arguments)).encode())
        self.control.close()
        return self.popen

    def _descriptor(self, stream: Any, stack: contextlib.ExitStack) -> int:
        """Open a stream and return its descriptor; a pipe becomes `popen.stdout`."""
        if stream == subprocess.STDOUT:
            return -1
        if stream == subprocess.DEVNULL:
            number = os.open(os.devnull, os.O_RDWR)
        elif stream == subprocess.PIPE:
            ours, number = os.pipe()
            self.popen.stdout = os.fdopen(ours, "rb")
        else:
            return int(stream.fileno())
        stack.callback(os.close, number)
        return number

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
        for each in self.loaded:
            if tuple(command[:3]) == (*PYTHON, each.module):
                self.loaded.remove(each)
                return each.begin(command[3:], **streams)
        return self.host.popen(command, **streams)


def of_flows(flows: Sequence[Flow]) -> list[tuple[str, str]]:
    """List host and module of the flows' Python programs."""
    programs = [program for flow in flows for program in (flow.listener, flow.caller)]
    return [(p.host, p.command[2]) for p in programs if tuple(p.command[:2]) == PYTHON]


@contextlib.contextmanager
def hosts(
    nodes: Mapping[str, Host], programs: Sequence[tuple[str, str]]
) -> Iterator[Mapping[str, Host]]:
    """Preload programs, given by host and module, and kill them after the block."""
    ready = {name: ReadyHost(node) for name, node in nodes.items()}
    with contextlib.ExitStack() as stack:
        for name, module in programs:
            each = _load(nodes[name], module)
            stack.callback(each.end)
            ready[name].loaded.append(each)
        for host in ready.values():
            for each in host.loaded:
                each.require()
        yield ready


def _load(host: Host, module: str) -> Loaded:
    ours, theirs = socket.socketpair()
    with theirs:
        popen = host.popen(
            [*PYTHON, __name__, module], stdin=theirs, stdout=sys.stderr, stderr=sys.stderr
        )
    return Loaded(module, popen, ours)


def main(name: str) -> int:
    """Load a module, wait for streams and arguments, and run the module's `main`."""
    module = importlib.import_module(name)
    # Collections read the clock; otherwise, one more import could make one happen in the traffic.
    gc.disable()
    # A duplicate, because standard input is replaced below.
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as control:
        control.sendall(READY)
        message, numbers, _, _ = socket.recv_fds(control, len(GO), STREAMS)
        if message != GO:  # the parent has ended
            return 0
        text = b""
        while part := control.recv(65_536):
            text += part
    for target, number in enumerate(numbers):
        os.dup2(number, target)
    for number in numbers:
        os.close(number)
    sys.stdout.reconfigure(line_buffering=False)  # type: ignore[union-attr]  # a file now
    sys.argv = [name, *json.loads(text)]
    status: int = module.main(sys.argv[1:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
