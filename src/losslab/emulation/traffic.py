"""Traffic of a replicate: run the flows with the probes, and write logs and tables."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from losslab.emulation import netns
from losslab.emulation.flows import ANY, ANY_PORT, Flow, Host, Timeline
from losslab.emulation.probes import tcp
from losslab.emulation.probes.ping import DURING_INTERVAL_S, EchoProbe, write_csv
from losslab.emulation.probes.queue import QueueProbe, QueueSample
from losslab.emulation.programs import ExitWatcher, Process, last_lines, receive_blocks, running
from losslab.emulation.timers import wait_for_whole_second
from losslab.emulation.topology import ALGORITHM_SYSCTL, RECEIVER_ADDRESS, bottleneck, interface
from losslab.errors import LosslabError

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan, Start

POLL_INTERVAL_S = 0.01
# Rounding error of times in seconds.
ROUNDING_S = 1e-6
# Time limit after the run. It exceeds 15 retransmission timeouts of a lost control message at the
# minimum RTO with exponential backoff; a run that needs longer hangs.
GRACE_S = 120.0
LISTEN_TIMEOUT_S = 30.0
ARRIVAL_COLUMNS = "t_s,packets,bytes,tcp_segments,udp_datagrams"


class Session(Protocol):
    """Something that happens during the traffic."""

    @property
    def complete(self) -> bool:
        """Whether the traffic may end: all of it has happened."""

    def running(self, origin_ns: int) -> contextlib.AbstractContextManager[None]:
        """Begin, given the origin of the samples' time; end after the block."""


@dataclass(frozen=True)
class Run:
    """Samples taken during the traffic, and violations of its programs."""

    timeline: Timeline
    last_samples: list[tcp.TcpSample]  # last sample of every connection of the sender
    queue: list[QueueSample]
    replies: list[tuple[float, float]]  # ping: (s, RTT in ms)
    violations: list[str]


def run(
    plan: Plan, hosts: Mapping[str, Host], folder: Path, sessions: Sequence[Session] = ()
) -> Run:
    """Run all flows of a plan, and sessions beside them; write logs and samples to `folder`."""
    sender, router = hosts["sender"], hosts[bottleneck().host]
    flows, limit_s = plan.flows, plan.duration_s + GRACE_S
    with contextlib.ExitStack() as stack:
        listeners = {
            flow.name: stack.enter_context(running(hosts, flow.listener, folder))
            for flow in plan.programs
        }
        processes = list(listeners.values())
        watcher = stack.enter_context(contextlib.closing(ExitWatcher()))
        for process in processes:
            watcher.watch(process)
        for flow in plan.programs:
            _wait_until_listening(hosts[flow.listener.host].pid, flow, listeners[flow.name])
        with netns.inside(sender.pid):
            tcp_probe = stack.enter_context(contextlib.closing(tcp.TcpProbe()))
            echo_probe = stack.enter_context(contextlib.closing(EchoProbe(RECEIVER_ADDRESS)))
        with netns.inside(router.pid):
            queue_probe = stack.enter_context(contextlib.closing(QueueProbe(bottleneck().name)))
        wait_for_whole_second()
        time.sleep(plan.start_jitter_s)
        log = _SampleLog(tcp_probe, queue_probe, echo_probe, plan.sample_interval_s)
        for session in sessions:
            stack.enter_context(session.running(log.origin_ns))
        if any(flow.protocol == ANY for flow in flows):
            name = interface("receiver", "r2").name
            log.arrivals = Path(f"/proc/{hosts['receiver'].pid}/net"), name
        background = plan.background.caller(log.origin_ns) if plan.background else None
        waiting = list(plan.starts)
        unset = [flow for flow in flows if flow.receive_block_bytes]
        due_s = _due_s(waiting, 0.0)
        started_s: dict[str, float] = {}
        # Read the clock once per iteration: a clock read costs as much as a part of a sample.
        while (now_s := log.now_s()) <= limit_s:
            if waiting and now_s >= due_s and log.connected(flows[: len(started_s)]):
                flow = waiting.pop(0).flow
                _set_algorithm(sender, flow.algorithm)
                started_s[flow.name] = log.now_s()
                processes.append(stack.enter_context(running(hosts, flow.caller, folder)))
                watcher.watch(processes[-1])
                due_s = _due_s(waiting, log.now_s())
            for process in processes:
                process.end_if_due(log.now_s)
            if background is not None:
                processes.append(stack.enter_context(running(hosts, background, folder)))
                watcher.watch(processes[-1])
                background = None
            if not waiting and watcher.all_ended and all(each.complete for each in sessions):
                break
            # With background flows, the foreground flow starts exactly at the time drawn for it.
            wake_s = due_s if plan.background is not None and not started_s else math.inf
            watcher.wait(log.sample(now_s, wake_s))
            unset = [f for f in unset if not _receives_blocks(f, listeners[f.name], log)]
        _set_algorithm(sender, plan.hosts["sender"].sysctls[ALGORITHM_SYSCTL])
        replies = echo_probe.replies()
        violations = [found for p in processes if (found := p.violation(limit_s))]
    log.write(folder)
    write_csv(replies, folder / "ping.csv")
    return Run(
        timeline=Timeline(log.origin_ns, started_s),
        last_samples=list(log.last.values()),
        queue=log.queue,
        replies=[(t, rtt) for t, rtt in replies if t >= plan.warmup_s],
        violations=violations,
    )


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
    with netns.inside(sender.pid):
        if netns.read_sysctl(ALGORITHM_SYSCTL) != algorithm:
            netns.write_sysctl(ALGORITHM_SYSCTL, algorithm)


def _wait_until_listening(pid: int, flow: Flow, listener: Process) -> None:
    port = "any port" if flow.port == ANY_PORT else f"port {flow.port}"
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while not _listening(pid, flow):
        if time.monotonic() > deadline:
            raise LosslabError(
                f"{flow.name} must listen on {port} of {flow.listener.host} within "
                f"{LISTEN_TIMEOUT_S:g} s, found no such socket; last line of its log: "
                f"{last_lines(listener.messages)}"
            )
        time.sleep(POLL_INTERVAL_S)


def _listening(pid: int, flow: Flow) -> bool:
    # Columns: number, local address:port, remote, state (net/tcp_states.h). 0A is TCP_LISTEN; 07,
    # TCP_CLOSE, is a bound UDP socket.
    waiting = {"tcp": "0A", "udp": "07"}
    for protocol in (flow.protocol,) if flow.protocol in waiting else tuple(waiting):
        with netns.inside(pid):
            lines = Path(f"/proc/thread-self/net/{protocol}").read_text().splitlines()[1:]
        for fields in map(str.split, lines):
            port = int(fields[1].split(":")[1], 16)
            if fields[3] == waiting[protocol] and flow.port in (ANY_PORT, port):
                return True
    return False


def _arrivals(net: Path, name: str) -> str:
    """Count packets, bytes, TCP segments and UDP datagrams received, for an arrivals.csv row."""
    lines = (net / "dev").read_text().splitlines()
    counters = next(line.split(":")[1] for line in lines if line.split(":")[0] == name)
    octets, packets, *_ = counters.split()
    counts = netns.read_counters(net, ("snmp",))
    return f"{packets},{octets},{counts['TcpInSegs']},{counts['UdpInDatagrams']}"


class _SampleLog:
    """Samples of the sender's connections and of the bottleneck's queue, at regular intervals."""

    def __init__(
        self,
        tcp_probe: tcp.TcpProbe,
        queue_probe: QueueProbe,
        echo_probe: EchoProbe,
        interval_s: float,
    ) -> None:
        self._interval_s = interval_s
        self._tcp_probe, self._queue_probe = tcp_probe, queue_probe
        self._echo_probe, self._echo_due_s = echo_probe, 0.0
        self.origin_ns = time.monotonic_ns()
        self.last: dict[int, tcp.TcpSample] = {}
        self.queue: list[QueueSample] = []
        self._tcp_rows = [tcp.COLUMNS]
        self.arrivals: tuple[Path, str] | None = None  # namespace and interface to count at
        self._arrival_rows = [ARRIVAL_COLUMNS]

    def now_s(self) -> float:
        """Return the time since the origin, in s."""
        return (time.monotonic_ns() - self.origin_ns) / 1e9

    def connected(self, flows: list[Flow]) -> bool:
        """Return whether all flows with a known source port have their data connections."""
        return all(flow.source_port is None or flow.source_port in self.last for flow in flows)

    def sample(self, now_s: float, wake_s: float) -> int:
        """Take a sample if one is due; return the time in ns until the next sample or `wake_s`."""
        if now_s >= len(self.queue) * self._interval_s - ROUNDING_S:
            self._take(now_s)
        next_s = min(len(self.queue) * self._interval_s, wake_s)
        return max(0, math.ceil((next_s - now_s) * 1e9))

    def _take(self, now_s: float) -> None:
        if now_s >= self._echo_due_s:
            # The kernel has timestamped the replies.
            self._echo_probe.receive()
            self._echo_probe.send(now_s)
            self._echo_due_s += DURING_INTERVAL_S
        for sample in self._tcp_probe.sample():
            self._tcp_rows.append(sample.row(now_s))
            self.last[sample.source_port] = sample
        if self.arrivals is not None:
            self._arrival_rows.append(f"{now_s:.6f},{_arrivals(*self.arrivals)}")
        self.queue.append(self._queue_probe.sample(now_s))

    def write(self, folder: Path) -> None:
        """Write tcp.csv, and arrivals.csv if arrivals are counted."""
        (folder / "tcp.csv").write_text("\n".join(self._tcp_rows) + "\n")
        if self.arrivals is not None:
            (folder / "arrivals.csv").write_text("\n".join(self._arrival_rows) + "\n")
