"""What an app runs: programs on hosts, two to a flow. Pure data; `traffic` brings it to life."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass
from typing import Any, Protocol

ANY, ANY_PORT = "any", 0  # protocol, and port of a listener that listens on any


class Host(Protocol):
    """What is needed of a Mininet node."""

    @property
    def pid(self) -> int:
        """A process in its namespaces."""

    def popen(self, command: list[str], /, **streams: Any) -> subprocess.Popen[bytes]:
        """Start a process in the host's namespaces."""


@dataclass(frozen=True)
class Program:
    """A command line on a host; its words go to `log` in the replicate's folder."""

    host: str
    command: list[str]
    log: str
    # Every line of standard output behind the clock's nanoseconds; what it says on stderr apart.
    stamped: bool = False
    # Serves until it is ended, like a web server; others end by themselves with status 0.
    lasting: bool = False


@dataclass(frozen=True)
class Timed(Program):
    """One that is told to end when the run does, if it has not by then; any status will do then."""

    until_s: float = 0.0
    ending: int = signal.SIGTERM


@dataclass(frozen=True)
class Flow:
    """Two programs and the connection between them, whose data the sender sends."""

    name: str
    algorithm: str
    port: int
    listener: Program
    caller: Program
    # The data connection's port on the sender; None where the program leaves it to the kernel.
    source_port: int | None = None
    # The caller starts at an instant of this window that the seed draws; None: as soon as it may.
    start_window_s: tuple[float, float] | None = None
    # Wants all the path can carry: no window or buffer may hold it back.
    bulk: bool = True
    # Or "udp", whose congestion control is the program's own; or `ANY`: nothing is known of the
    # programs, and what arrives is counted at the receiver's link.
    protocol: str = "tcp"
    # What the receiving program reads at a time; it need not wake for less.
    receive_block_bytes: int | None = None


@dataclass(frozen=True)
class Timeline:
    """The instants of a replicate that its tables count from."""

    origin_ns: int  # the monotonic clock when the first caller was started: every table's 0 s
    started_s: dict[str, float]  # when each flow's caller was started, by the flow's name
