"""Traffic of a replicate: run the flows with the probes, and write logs and tables."""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from losslab.emulation import probes
from losslab.emulation.capture import StateLog
from losslab.emulation.hosts import inside, read_sysctl, write_sysctl
from losslab.emulation.plan import Plan, Start
from losslab.emulation.probes import (
    RECORD_FILE,
    QueueSample,
    Record,
    TcpSample,
    queue_samples,
    tcp_samples,
)
from losslab.emulation.programs import (
    ANY,
    ANY_PORT,
    NO_PORT,
    ExitWatcher,
    Flow,
    Host,
    Process,
    Timeline,
    last_lines,
    receive_blocks,
    running,
    wait_for_whole_second,
)
from losslab.emulation.topology import ALGORITHM_SYSCTL, RECEIVER_ADDRESS, at_version, bottleneck
from losslab.emulation.userprograms import UserProgramsProbe, prefix_of
from losslab.errors import LosslabError
from losslab.study.axes import NONE, OWN

POLL_INTERVAL_S = 0.01
# Rounding error of times in seconds.
ROUNDING_S = 1e-6
# Time limit after the run. It exceeds 15 retransmission timeouts of a lost control message at the
# minimum RTO with exponential backoff; a run that needs longer hangs.
GRACE_S = 120.0
LISTEN_TIMEOUT_S = 30.0
# Samples of so many seconds wait in the memory of the kernel.
READ_INTERVAL_S = 5.0
# Listening sockets in /proc/net: state (net/tcp_states.h) by file. 0A is TCP_LISTEN; 07, TCP_CLOSE,
# is a bound UDP socket. A dual-stack socket is in tcp6 or udp6 alone.
LISTENING = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
# Ends of hexadecimal addresses that only their own host can reach: 127.0.0.0/8 and ::1.
LOOPBACK = ("7F", "0000000000000000000000001000000")


class Session(Protocol):
    """Something that happens during the traffic."""

    @property
    def complete(self) -> bool:
        """Return whether all of it has happened, so that the traffic may end."""

    def running(self, origin_ns: int) -> contextlib.AbstractContextManager[None]:
        """Begin, given the origin of the samples' time; end after the block."""


@dataclass(frozen=True)
class Run:
    """Samples taken during the traffic, and violations of its programs."""

    timeline: Timeline
    last_samples: list[TcpSample]  # last sample of every connection of the sender
    queue: list[QueueSample]
    replies: list[tuple[float, float]]  # ping: (s, RTT in ms)
    violations: list[str]
    # Deviations of the state that the programs left, which `run` has corrected since.
    deviations: list[str] = field(default_factory=list)


def run(
    plan: Plan,
    hosts: Mapping[str, Host],
    folder: Path,
    sessions: Sequence[Session] = (),
    state: StateLog | None = None,
) -> Run:
    """Run all flows of a plan, and sessions beside them; write logs and samples to `folder`.

    The log of the `state` is read while they run.
    """
    sender, flows, limit_s = hosts["sender"], plan.flows, plan.duration_s + GRACE_S
    with contextlib.ExitStack() as stack:
        own = [flow for flow in flows if flow.protocol == ANY]
        programs = stack.enter_context(closing(UserProgramsProbe(hosts, own))) if own else None
        listeners = _listeners(plan, hosts, folder, stack)
        processes = list(listeners.values())
        wakes = programs.descriptors if programs else []
        watcher = stack.enter_context(closing(ExitWatcher(*wakes)))
        for process in processes:
            watcher.watch(process)
        log = _sampling(plan, hosts, programs, processes, stack)
        if state is not None:
            log.state, state.origin_ns = state, log.origin_ns
        for session in sessions:
            stack.enter_context(session.running(log.origin_ns))
        background = (
            plan.background.callers(log.origin_ns, plan.warmup_s) if plan.background else []
        )
        waiting = list(plan.starts)
        unset = [flow for flow in flows if flow.receive_block_bytes]
        due_s = _due_s(waiting, 0.0)
        started, started_s = list[Flow](), dict[str, float]()
        # Read the clock once per iteration: a clock read costs as much as a part of a sample.
        while (now_s := log.now_s()) <= limit_s:
            if waiting and now_s >= due_s and log.connected(started):
                flow = waiting.pop(0).flow
                started.append(flow)
                _set_algorithm(sender, flow.algorithm)
                started_s[flow.name] = log.now_s()
                caller = flow.caller.begun(log.origin_ns)
                processes.append(stack.enter_context(running(hosts, caller, folder)))
                watcher.watch(processes[-1])
                due_s = _due_s(waiting, log.now_s())
            for process in processes:
                process.end_if_due(log.now_s)
            while background:
                processes.append(stack.enter_context(running(hosts, background.pop(0), folder)))
                watcher.watch(processes[-1])
            if not waiting and watcher.all_ended and all(each.complete for each in sessions):
                break
            wakes_s = [each.end_s for each in processes]
            # With background flows, the foreground flow starts exactly at the time drawn for it.
            if plan.background is not None and not started_s:
                wakes_s.append(due_s)
            log.watched = bool(waiting or unset)
            if watcher.wait(log.sample(now_s, min(wakes_s))):
                log.take_between()
            unset = [f for f in unset if not _receives_blocks(f, listeners[f.name], log)]
        deviations = _changed_algorithm(sender, flows) if programs else []
        _set_algorithm(sender, plan.hosts["sender"].sysctls[ALGORITHM_SYSCTL])
        replies = log.finish()
        violations = [found for p in processes if (found := p.violation(limit_s))] + log.violations
    log.write(folder)
    probes.write_replies(replies, folder / "ping.csv")
    return Run(
        timeline=Timeline(log.origin_ns, started_s),
        last_samples=list(log.last.values()),
        queue=log.queue,
        replies=[(t, rtt) for t, rtt in replies if t >= plan.warmup_s],
        violations=violations,
        deviations=deviations,
    )


def _listeners(
    plan: Plan, hosts: Mapping[str, Host], folder: Path, stack: contextlib.ExitStack
) -> dict[str, Process]:
    """Start the programs that listen, and return them by flow when they do."""
    listeners, waiting = dict[str, Process](), list[Flow]()
    for flow in plan.programs:
        pid = hosts[flow.listener.host].pid
        # Any port will do, except those of a pair of programs that listens already.
        others = set(_listening(pid, flow)) if flow.port == ANY_PORT and listeners else set()
        listeners[flow.name] = stack.enter_context(running(hosts, flow.listener, folder))
        if flow.port == ANY_PORT:
            _wait_until_listening(pid, flow, listeners[flow.name], others)
        elif flow.port != NO_PORT:
            waiting.append(flow)
    for flow in waiting:
        pid = hosts[flow.listener.host].pid
        _wait_until_listening(pid, flow, listeners[flow.name], set())
    return listeners


def _sampling(
    plan: Plan,
    hosts: Mapping[str, Host],
    programs: UserProgramsProbe | None,
    processes: Sequence[Process],
    stack: contextlib.ExitStack,
) -> _SampleLog:
    """Open the probes, wait for the traffic's start, and begin to sample.

    User programs are sampled by their probe: their connections belong to both ends.
    """
    # The kernel records the connections of IPv4 only.
    version = plan.path_spec.sizes.ip_version
    recorded = RECORD_FILE.exists() and not programs and version == 4
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    records = []
    with inside(hosts["sender"].pid):
        tcp_probe = programs or stack.enter_context(closing(probes.TcpProbe(family)))
        address = at_version(RECEIVER_ADDRESS, version)
        echo_probe = stack.enter_context(closing(probes.EchoProbe(address)))
        if recorded:
            records.append(stack.enter_context(closing(Record())))
    with inside(hosts[bottleneck().host].pid):
        queue_probe = stack.enter_context(closing(probes.QueueProbe(bottleneck().name)))
        if recorded:
            records.append(stack.enter_context(closing(Record())))
    wait_for_whole_second()
    time.sleep(plan.start_jitter_s)
    opened = (tcp_probe, queue_probe, echo_probe)
    return _SampleLog(*opened, plan.sample_interval_s, processes, records)


def _receives_blocks(flow: Flow, listener: Process, log: _SampleLog) -> bool:
    """Set a flow's receive low-water mark once it has sent a block; return whether it is set.

    The program's first messages on the connection are shorter than a block. With the mark set
    earlier, the receiver would never wake up for them.
    """
    assert flow.source_port is not None
    assert flow.receive_block_bytes is not None
    sample = log.last.get(flow.source_port)
    return (
        not listener.ended
        and sample is not None
        and sample.bytes_acked > flow.receive_block_bytes
        and receive_blocks(listener.popen.pid, flow.source_port, flow.receive_block_bytes)
    )


def _due_s(waiting: list[Start], now_s: float) -> float:
    if not waiting:
        return 0.0
    at_s = waiting[0].at_s
    return now_s + waiting[0].after_s if at_s is None else at_s


def _set_algorithm(sender: Host, algorithm: str) -> None:
    """Set the congestion control of new sockets on the sender.

    `iperf3 --congestion` sets it too late: a socket keeps the pacing that it was created with.
    """
    if algorithm == OWN:
        return
    with inside(sender.pid):
        if read_sysctl(ALGORITHM_SYSCTL) != algorithm:
            write_sysctl(ALGORITHM_SYSCTL, algorithm)


def _changed_algorithm(sender: Host, flows: list[Flow]) -> list[str]:
    """Return whether user programs changed the congestion control of new sockets."""
    with inside(sender.pid):
        found, expected = read_sysctl(ALGORITHM_SYSCTL), flows[-1].algorithm
    if expected in (OWN, found):
        return []
    return [
        f"after the traffic: sysctl {ALGORITHM_SYSCTL} on sender must be {expected}, found "
        f"{found}: a program changed it; the algorithm {OWN} lets programs choose"
    ]


def _wait_until_listening(
    pid: int, flow: Flow, listener: Process, others: Set[tuple[str, int]]
) -> None:
    """Wait until a listener has a socket that is not among the `others`, which were there before.

    A program that ends with status 0 may have left a daemon.
    """
    port = "any port" if flow.port == ANY_PORT else f"port {flow.port}"
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while not _listening(pid, flow) - others:
        status = listener.popen.poll()
        if status or time.monotonic() > deadline:
            found = f"that it ended with status {status}" if status else "no such socket"
            raise LosslabError(
                f"{flow.name} must listen on {port} of {flow.listener.host} within "
                f"{LISTEN_TIMEOUT_S:g} s, found {found}; last line of its log: "
                f"{last_lines(listener.messages)}",
                hint=_listener_hint(flow) if flow.port == ANY_PORT else "",
            )
        time.sleep(POLL_INTERVAL_S)


def _listener_hint(flow: Flow) -> str:
    """Return what to change if a user program does not listen."""
    axis = f"{prefix_of(flow)}listens".replace("-", "_")
    caller, variable = flow.caller.host, f"${flow.caller.host.upper()}"
    if variable in flow.listener.command[-1].rpartition("|| exit; ")[2]:
        return f"it names {variable}: if it is the client, set {axis} to {caller}"
    return f"set {axis} to the host whose command listens on a port, or to {NONE}"


def _listening(pid: int, flow: Flow) -> set[tuple[str, int]]:
    """Return protocol and port of the sockets at which a flow's listener may be reached."""
    with inside(pid):
        return {
            (protocol, port)
            for protocol, state in LISTENING.items()
            if flow.protocol in (ANY, protocol.removesuffix("6"))
            for port in listening_ports(Path(f"/proc/thread-self/net/{protocol}"), state)
            if flow.port in (ANY_PORT, port)
        }


def listening_ports(table: Path, state: str) -> list[int]:
    """Return the ports of the sockets that another host can reach, from a file of /proc/net."""
    # Columns: number, local address:port, remote, state.
    lines = table.read_text().splitlines()[1:] if table.exists() else []
    sockets = [(*fields[1].split(":"), fields[3]) for fields in map(str.split, lines)]
    return [
        int(port, 16)
        for address, port, found in sockets
        if found == state and not address.endswith(LOOPBACK)
    ]


class _SampleLog:
    """Samples of the sender's connections and of the bottleneck's queue, at regular intervals.

    The kernel takes them if it keeps a record. Then the probes are read only while the traffic's
    course depends on a connection's state.
    """

    def __init__(
        self,
        tcp_probe: probes.TcpProbe | UserProgramsProbe,
        queue_probe: probes.QueueProbe,
        echo_probe: probes.EchoProbe,
        interval_s: float,
        processes: Sequence[Process],
        records: Sequence[Record],  # of TCP, of the queue; none if the kernel keeps none
    ) -> None:
        self._interval_s, self._processes = interval_s, processes
        self._tcp_probe, self._queue_probe = tcp_probe, queue_probe
        self._echo_probe, self._echo_due_s = echo_probe, 0.0
        self._due_s, self._read_due_s, self._woken_s = 0.0, READ_INTERVAL_S, 0.0
        self._records = records
        self.state: StateLog | None = None
        self.watched = True  # something waits for a connection's state
        self.origin_ns = time.monotonic_ns()
        self.last: dict[int, TcpSample] = {}
        self.queue: list[QueueSample] = []
        self.violations: list[str] = []
        self._tcp_rows: list[str] = []
        times = f"{self.origin_ns} {round(interval_s * 1e9)}"
        for record, order in zip(
            records, (f"tcp {times}", f"queue {times} {bottleneck().name}"), strict=False
        ):
            record.begin(order)

    def now_s(self) -> float:
        """Return the time since the origin, in s."""
        return (time.monotonic_ns() - self.origin_ns) / 1e9

    def connected(self, flows: list[Flow]) -> bool:
        """Return whether all flows with a known source port have their data connections."""
        return all(flow.source_port is None or flow.source_port in self.last for flow in flows)

    def sample(self, now_s: float, wake_s: float) -> int:
        """Take a sample if one is due; return the time in ns until the next sample or `wake_s`."""
        self._woken_s = now_s
        if now_s >= self._due_s - ROUNDING_S:
            self._take(now_s)
            self._due_s = self._echo_due_s
            if self.watched or not self._records:
                number = math.floor((now_s + ROUNDING_S) / self._interval_s) + 1
                self._due_s = min(number * self._interval_s, self._due_s)
        next_s = min(self._due_s, wake_s)
        return max(0, math.ceil((next_s - now_s) * 1e9))

    def _take(self, now_s: float) -> None:
        if now_s >= self._echo_due_s - ROUNDING_S:
            # The kernel has timestamped the replies.
            self._echo_probe.receive()
            self._echo_probe.send(now_s)
            if self.state is not None:
                self.state.read()
            self._echo_due_s += probes.DURING_INTERVAL_S
        if not self._records:
            for sample in self._tcp_probe.sample():
                self._note(now_s, sample)
            self._count_arrivals(now_s)
            self.queue.append(self._queue_probe.sample(now_s))
            return
        if now_s >= self._read_due_s:
            self._read_record()
            self._read_due_s += READ_INTERVAL_S
        if self.watched:
            self.last |= {each.source_port: each for each in self._tcp_probe.sample()}

    def _note(self, t_s: float, sample: TcpSample) -> None:
        self._tcp_rows.append(sample.row(t_s))
        self.last[sample.source_port] = sample

    def finish(self) -> list[tuple[float, float]]:
        """Read the rest of the kernel's record; return the replies to the pings."""
        replies = self._echo_probe.replies()
        if self._records:
            self._read_record()
            if len(self.queue) < math.floor(self._woken_s / self._interval_s):
                self.violations.append(
                    f"the kernel must sample the queue every {self._interval_s:g} s, found "
                    f"{len(self.queue)} samples in {self._woken_s:.3f} s"
                )
        return replies

    def _read_record(self) -> None:
        tcp, queue = self._records
        for ns, sample in tcp_samples(tcp.read()):
            self._note((ns - self.origin_ns) / 1e9, sample)
        self.queue += queue_samples(queue.read(), self.origin_ns)
        if tcp.full or queue.full:
            self.violations = [
                f"the kernel's record must hold {READ_INTERVAL_S:g} s of samples, found it full"
            ]

    def take_between(self) -> None:
        """Sample user programs now: one of them, or a connection, has begun or ended."""
        if isinstance(self._tcp_probe, UserProgramsProbe):
            self._tcp_probe.read_opened()
            self._count_arrivals(self.now_s())

    def _count_arrivals(self, now_s: float) -> None:
        if isinstance(self._tcp_probe, UserProgramsProbe):
            self._tcp_probe.count(now_s, self._processes)

    def write(self, folder: Path) -> None:
        """Write tcp.csv, and the tables of user programs."""
        probes.write_csv(folder / "tcp.csv", probes.TCP_COLUMNS, self._tcp_rows)
        if isinstance(self._tcp_probe, UserProgramsProbe):
            self._tcp_probe.write(folder)
