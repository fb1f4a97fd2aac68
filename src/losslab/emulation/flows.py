"""Flows and programs of an app: pure data, which `traffic` runs."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass
from typing import Any, Protocol

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


@dataclass(frozen=True)
class Timed(Program):
    """A program that is ended with the run, after which any exit status is accepted."""

    until_s: float = 0.0
    ending: int = signal.SIGTERM


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
class Timeline:
    """Time origin of a replicate's tables, and start times of its flows."""

    origin_ns: int  # CLOCK_MONOTONIC at 0 s of every table, when sampling begins
    started_s: dict[str, float]  # start of each flow's caller, by flow name
