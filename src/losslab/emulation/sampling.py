"""Samples of the sender's connections and of the bottleneck's queue during the traffic.

One of three samplers takes them at regular intervals: `KernelSampler` reads the kernel's own
record, `NetlinkSampler` asks the kernel over netlink, and `ProgramsSampler` does so at both ends of
user programs. `SampleLog` says when, and sends the pings.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Protocol

from losslab.emulation import probes
from losslab.emulation.capture import StateLog
from losslab.emulation.connections import ProgramsProbe
from losslab.emulation.probes import QueueSample, Record, TcpSample, queue_samples, tcp_samples
from losslab.emulation.programs import Flow, Process
from losslab.emulation.topology import bottleneck

# Rounding error of times in seconds.
ROUNDING_S = 1e-6
# Samples of so many seconds wait in the memory of the kernel.
READ_INTERVAL_S = 5.0


@dataclass
class Samples:
    """Samples taken so far, and violations of how they were taken."""

    last: dict[int, TcpSample] = field(default_factory=dict)  # of each connection, by source port
    queue: list[QueueSample] = field(default_factory=list)
    tcp_rows: list[str] = field(default_factory=list)  # of tcp.csv
    violations: list[str] = field(default_factory=list)
    # Source ports of connections that are left out: those over which the sender receives.
    left_out: Set[int] = frozenset()
    _rows_last: dict[int, TcpSample] = field(default_factory=dict)  # of tcp.csv, by source port

    def note(self, sample: TcpSample) -> None:
        """Note a connection's state, without a row of tcp.csv."""
        if sample.source_port not in self.left_out:
            self.last[sample.source_port] = sample

    def add(self, t_s: float, sample: TcpSample) -> None:
        """Add a sample of a connection, whose delivered bytes never fall.

        Without SACK, TCP forgets at a timeout which packets arrived behind a gap (tcp_enter_loss,
        net/ipv4/tcp_input.c).
        """
        if sample.source_port in self.left_out:
            return
        before = self._rows_last.get(sample.source_port, sample)
        same_connection = before.bytes_acked <= sample.bytes_acked
        if same_connection and before.delivered_bytes > sample.delivered_bytes:
            sample = replace(sample, delivered_bytes=before.delivered_bytes)
        self._rows_last[sample.source_port] = sample
        self.tcp_rows.append(sample.row(t_s))
        self.note(sample)

    def write(self, folder: Path) -> None:
        """Write tcp.csv."""
        probes.write_csv(folder / "tcp.csv", probes.TCP_COLUMNS, self.tcp_rows)


class Sampler(Protocol):
    """Source of samples. All times in s count from the origin."""

    # Whether to take a sample at every interval, even if nothing waits for a connection's state.
    every_interval: ClassVar[bool]
    samples: Samples

    def begin(self, origin_ns: int, interval_s: float) -> None:
        """Begin, given the monotonic clock at the origin."""

    def take(self, now_s: float, watched: bool) -> None:
        """Take a sample; with `watched`, something waits for a connection's state."""

    def take_between(self) -> None:
        """Sample now: a program of user programs, or a connection, has begun or ended."""

    def finish(self, end_s: float) -> None:
        """Take what is left; `end_s` is the last time at which a sample could be due."""

    def write(self, folder: Path) -> None:
        """Write the tables of the samples."""


class KernelSampler:
    """Sampler of the record that the kernel keeps at its own regular intervals.

    It reads connections over netlink, too, but only while the traffic's course depends on them.
    """

    every_interval: ClassVar[bool] = False

    def __init__(self, tcp_probe: probes.TcpProbe, tcp: Record, queue: Record) -> None:
        self.samples = Samples()
        self._tcp_probe, self._tcp, self._queue = tcp_probe, tcp, queue
        self._origin_ns, self._interval_s = 0, 0.0
        self._read_due_s = READ_INTERVAL_S

    def begin(self, origin_ns: int, interval_s: float) -> None:
        """Let the kernel begin its record."""
        self._origin_ns, self._interval_s = origin_ns, interval_s
        times = f"{origin_ns} {round(interval_s * 1e9)}"
        self._tcp.begin(f"tcp {times}")
        self._queue.begin(f"queue {times} {bottleneck().name}")

    def take(self, now_s: float, watched: bool) -> None:
        """Read the record before it is full, and the connections if something waits for them."""
        if now_s >= self._read_due_s:
            self._read()
            self._read_due_s += READ_INTERVAL_S
        if watched:
            for sample in self._tcp_probe.sample():
                self.samples.note(sample)

    def take_between(self) -> None:
        """Do nothing: the kernel samples all connections."""

    def finish(self, end_s: float) -> None:
        """Read the rest of the record."""
        self._read()
        if len(self.samples.queue) < math.floor(end_s / self._interval_s):
            self.samples.violations.append(
                f"the kernel must sample the queue every {self._interval_s:g} s, found "
                f"{len(self.samples.queue)} samples in {end_s:.3f} s"
            )

    def write(self, folder: Path) -> None:
        """Write tcp.csv."""
        self.samples.write(folder)

    def _read(self) -> None:
        for ns, sample in tcp_samples(self._tcp.read()):
            self.samples.add((ns - self._origin_ns) / 1e9, sample)
        self.samples.queue += queue_samples(self._queue.read(), self._origin_ns)
        if self._tcp.full or self._queue.full:
            self.samples.violations = [
                f"the kernel's record must hold {READ_INTERVAL_S:g} s of samples, found it full"
            ]


class NetlinkSampler:
    """Sampler that asks the kernel for the sender's connections and the queue at each interval."""

    every_interval: ClassVar[bool] = True

    def __init__(self, tcp_probe: probes.TcpProbe, queue_probe: probes.QueueProbe) -> None:
        self.samples = Samples()
        self._tcp_probe, self._queue_probe = tcp_probe, queue_probe

    def begin(self, origin_ns: int, interval_s: float) -> None:
        """Do nothing: each sample is asked for."""

    def take(self, now_s: float, watched: bool) -> None:
        """Sample connections and queue."""
        for sample in self._tcp_probe.sample():
            self.samples.add(now_s, sample)
        self.samples.queue.append(self._queue_probe.sample(now_s))

    def take_between(self) -> None:
        """Do nothing: the sample at the next interval suffices."""

    def finish(self, end_s: float) -> None:
        """Do nothing: all samples are taken."""

    def write(self, folder: Path) -> None:
        """Write tcp.csv."""
        self.samples.write(folder)


class ProgramsSampler:
    """Sampler of user programs: their connections at both ends, what has arrived, and the queue.

    It also samples when one of the programs, or a connection, begins or ends.
    """

    every_interval: ClassVar[bool] = True

    def __init__(
        self,
        programs_probe: ProgramsProbe,
        queue_probe: probes.QueueProbe,
        processes: Sequence[Process],
    ) -> None:
        self.samples = Samples()
        self._programs_probe, self._queue_probe = programs_probe, queue_probe
        self._processes, self._origin_ns = processes, 0

    def begin(self, origin_ns: int, interval_s: float) -> None:
        """Note the origin."""
        self._origin_ns = origin_ns

    def take(self, now_s: float, watched: bool) -> None:
        """Sample connections, arrivals and queue."""
        for sample in self._programs_probe.sample():
            self.samples.add(now_s, sample)
        self._programs_probe.count(now_s, self._processes)
        self.samples.queue.append(self._queue_probe.sample(now_s))

    def take_between(self) -> None:
        """Read the connections, and count what has arrived."""
        self._programs_probe.read_opened()
        self._programs_probe.count(seconds_since(self._origin_ns), self._processes)

    def finish(self, end_s: float) -> None:
        """Do nothing: all samples are taken."""

    def write(self, folder: Path) -> None:
        """Write tcp.csv, and the tables of each pair of programs."""
        self.samples.write(folder)
        self._programs_probe.write(folder)


class SampleLog:
    """Samples of a run, at regular intervals, and its pings; the origin is when it is created."""

    def __init__(self, sampler: Sampler, echo_probe: probes.EchoProbe, interval_s: float) -> None:
        self._sampler, self._interval_s = sampler, interval_s
        self._echo_probe, self._echo_due_s = echo_probe, 0.0
        self._due_s, self._woken_s = 0.0, 0.0
        self.state: StateLog | None = None
        self.watched = True  # something waits for a connection's state
        self.origin_ns = time.monotonic_ns()
        sampler.begin(self.origin_ns, interval_s)

    @property
    def samples(self) -> Samples:
        """Return the samples so far."""
        return self._sampler.samples

    def now_s(self) -> float:
        """Return the time since the origin, in s."""
        return seconds_since(self.origin_ns)

    def connected(self, flows: Sequence[Flow]) -> bool:
        """Return whether all flows with a known source port have their data connections."""
        ports = [flow.source_port for flow in flows if flow.source_port is not None]
        return all(port in self.samples.last for port in ports)

    def sample(self, now_s: float, wake_s: float) -> int:
        """Take a sample if one is due; return the time in ns until the next sample or `wake_s`."""
        self._woken_s = now_s
        if now_s >= self._due_s - ROUNDING_S:
            if now_s >= self._echo_due_s - ROUNDING_S:
                self._ping(now_s)
            self._sampler.take(now_s, self.watched)
            self._due_s = self._echo_due_s
            if self.watched or self._sampler.every_interval:
                number = math.floor((now_s + ROUNDING_S) / self._interval_s) + 1
                self._due_s = min(number * self._interval_s, self._due_s)
        next_s = min(self._due_s, wake_s)
        return max(0, math.ceil((next_s - now_s) * 1e9))

    def _ping(self, now_s: float) -> None:
        # The kernel has timestamped the replies.
        self._echo_probe.receive()
        self._echo_probe.send(now_s)
        if self.state is not None:
            self.state.read()
        self._echo_due_s += probes.DURING_INTERVAL_S

    def take_between(self) -> None:
        """Sample user programs now: one of them, or a connection, has begun or ended."""
        self._sampler.take_between()

    def finish(self) -> list[tuple[float, float]]:
        """Take what is left; return the replies to the pings."""
        replies = self._echo_probe.replies()
        self._sampler.finish(self._woken_s)
        return replies

    def write(self, folder: Path) -> None:
        """Write tcp.csv, and the tables of user programs."""
        self._sampler.write(folder)


def seconds_since(origin_ns: int) -> float:
    """Return the time since a reading of the monotonic clock."""
    return (time.monotonic_ns() - origin_ns) / 1e9
