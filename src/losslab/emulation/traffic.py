"""Traffic of a replicate: run the flows with the probes, and write logs and tables."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from losslab.emulation import probes
from losslab.emulation.capture import StateLog
from losslab.emulation.connections import ProgramsProbe, prefix_of
from losslab.emulation.hosts import inside, read_sysctl, write_sysctl
from losslab.emulation.plan import Plan, Start
from losslab.emulation.probes import RECORD_FILE, QueueSample, Record, TcpSample
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
from losslab.emulation.sampling import (
    KernelSampler,
    NetlinkSampler,
    ProgramsSampler,
    SampleLog,
    Sampler,
)
from losslab.emulation.topology import ALGORITHM_SYSCTL, RECEIVER_ADDRESS, at_version, bottleneck
from losslab.errors import LosslabError
from losslab.study.axes import NONE, OWN

POLL_INTERVAL_S = 0.01
# Time limit after the run. It exceeds 15 retransmission timeouts of a lost control message at the
# minimum RTO with exponential backoff; a run that needs longer hangs.
GRACE_S = 120.0
LISTEN_TIMEOUT_S = 30.0
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
        pairs = [flow for flow in flows if flow.protocol == ANY]  # of user programs
        programs = stack.enter_context(closing(ProgramsProbe(hosts, pairs))) if pairs else None
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
            if not waiting and watcher.all_ended and all(session.complete for session in sessions):
                break
            wakes_s = [process.end_s for process in processes]
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
        violations = [text for p in processes if (text := p.violation(limit_s))]
        violations += log.samples.violations
    log.write(folder)
    probes.write_replies(replies, folder / "ping.csv")
    return Run(
        timeline=Timeline(log.origin_ns, started_s),
        last_samples=list(log.samples.last.values()),
        queue=log.samples.queue,
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
    programs: ProgramsProbe | None,
    processes: Sequence[Process],
    stack: contextlib.ExitStack,
) -> SampleLog:
    """Open the probes, wait for the traffic's start, and begin to sample.

    User programs have a sampler of their own: their connections belong to both ends. The kernel
    records the connections of IPv4 only.
    """
    version = plan.path_spec.sizes.ip_version
    recorded = RECORD_FILE.exists() and version == 4
    sampler: Sampler
    with inside(hosts["sender"].pid):
        if programs is None:
            family = socket.AF_INET if version == 4 else socket.AF_INET6
            tcp_probe = stack.enter_context(closing(probes.TcpProbe(family)))
        address = at_version(RECEIVER_ADDRESS, version)
        echo_probe = stack.enter_context(closing(probes.EchoProbe(address)))
        if programs is None and recorded:
            tcp_record = stack.enter_context(closing(Record()))
    with inside(hosts[bottleneck().host].pid):
        queue_probe = stack.enter_context(closing(probes.QueueProbe(bottleneck().name)))
        if programs is not None:
            sampler = ProgramsSampler(programs, queue_probe, processes)
        elif recorded:
            queue_record = stack.enter_context(closing(Record()))
            sampler = KernelSampler(tcp_probe, tcp_record, queue_record)
        else:
            sampler = NetlinkSampler(tcp_probe, queue_probe)
    if plan.background is not None and plan.background.back is not None:
        sampler.samples.left_out = {plan.background.back.port}
    wait_for_whole_second()
    time.sleep(plan.start_jitter_s)
    return SampleLog(sampler, echo_probe, plan.sample_interval_s)


def _receives_blocks(flow: Flow, listener: Process, log: SampleLog) -> bool:
    """Set a flow's receive low-water mark once it has sent a block; return whether it is set.

    The program's first messages on the connection are shorter than a block. With the mark set
    earlier, the receiver would never wake up for them.
    """
    assert flow.source_port is not None
    assert flow.receive_block_bytes is not None
    sample = log.samples.last.get(flow.source_port)
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
        algorithm, expected = read_sysctl(ALGORITHM_SYSCTL), flows[-1].algorithm
    if expected in (OWN, algorithm):
        return []
    return [
        f"after the traffic: sysctl {ALGORITHM_SYSCTL} on sender must be {expected}, found "
        f"{algorithm}: a program changed it; the algorithm {OWN} lets programs choose"
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
            state = f"that it ended with status {status}" if status else "no such socket"
            raise LosslabError(
                f"{flow.name} must listen on {port} of {flow.listener.host} within "
                f"{LISTEN_TIMEOUT_S:g} s, found {state}; last line of its log: "
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
        for address, port, socket_state in sockets
        if socket_state == state and not address.endswith(LOOPBACK)
    ]
