"""Measure one replicate where the hosts are: configure, read back, run the app and probes, collect.

Runs inside the guest (virtual backend); standard library and Mininet only.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from losslab import checks, netns
from losslab.apps import ffmpeg, iperf3
from losslab.condition import Condition, derived_seed
from losslab.configuration import configuration_reasons, configure, read_back, require_algorithm
from losslab.errors import LosslabError
from losslab.probes import ping, tcp
from losslab.probes.queue import COLUMNS as QUEUE_COLUMNS
from losslab.probes.queue import QueueProbe
from losslab.shaping import bottleneck
from losslab.topology import RECEIVER_ADDRESS, emulated_hosts

APPS: dict[str, ModuleType] = {"iperf3": iperf3, "ffmpeg": ffmpeg}

# A compromise: sampling at this rate takes about as long as the rest of a slow flow.
SAMPLE_INTERVAL_S = 0.02
POLL_INTERVAL_S = 0.01
# Flows of different replicates must not start in phase with the bottleneck and the probes.
START_JITTER_S = 0.1
# Past the longest chain of retransmission timeouts that 15 retries of a lost control message make
# at the minimum RTO; a run that needs more has hung.
GRACE_S = 120.0
LISTEN_TIMEOUT_S = 30.0
SETTLE_S = 0.5
SETTLE_TRIES = 20


class Clock(Protocol):
    """The clock that a cell's events are planned on."""

    def __call__(self) -> float:
        """Return seconds."""


class Host(Protocol):
    """What a cell needs of a Mininet node."""

    pid: int

    def popen(self, *args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start a process in the host's namespaces."""


def measure(
    condition: Condition,
    seed: int,
    folder: Path,
    video: Path | None = None,
    host_class: type | None = None,
    disposable: bool = False,
) -> dict[str, Any]:
    """Run one replicate and leave its raw files in `folder`.

    Args:
        condition: What to measure.
        seed: Decides every random draw.
        folder: An existing, empty folder.
        video: The stream that the ffmpeg app sends.
        host_class: The class of Mininet's hosts, as for `topology.emulated_hosts`.
        disposable: Leave the hosts to the guest's power-off.

    Returns:
        `summary`, `reasons` (why the replicate is invalid; empty when valid) and `observed`
        (what was read back and counted).
    """
    app = APPS[condition.app]
    require_algorithm(condition.algorithm)
    with emulated_hosts(host_class, disposable) as hosts:
        pids = {name: host.pid for name, host in hosts.items()}
        configure(pids, condition, seed)
        idle = _ping_idle(hosts["sender"], folder)
        before = read_back(pids, condition)
        reasons = configuration_reasons(before, condition, seed)
        run = _run_traffic(app, hosts, condition, seed, folder, video)
        after = _settled(pids, condition)
        reasons += [
            f"after the traffic: {r}" for r in configuration_reasons(after, condition, seed)
        ]
    summary = app.collect(condition, folder, run["start_ns"])
    traffic = checks.traffic(before, after)
    evidence = checks.Evidence(
        condition=condition,
        bulk=app.BULK,
        rtt_ms=min((rtt for _, rtt in idle), default=None),
        goodput_mbit=summary.get("goodput_mbit", summary.get("throughput_mbit", 0.0)),
        algorithms=sorted({s.algorithm for s in run["last_samples"]}),
        limited_share=_limited_share(run["last_samples"]),
        traffic=traffic,
    )
    reasons += run["reasons"] + checks.reasons(evidence)
    loaded = [rtt for _, rtt in run["ping"]]
    summary |= {
        "retransmits": summary.get("retransmits", traffic.retransmits),
        "rtt_ms": evidence.rtt_ms,
        "rtt_loaded_ms": sum(loaded) / len(loaded) if loaded else None,
        "loss_measured_percent": traffic.loss_measured_percent,
        "bottleneck_drops": traffic.bottleneck_drops,
    }
    return {
        "summary": summary,
        "reasons": reasons,
        "observed": {
            "state": after,
            "traffic": asdict(traffic),
            "flow": {
                "algorithms": evidence.algorithms,
                "limited_share": evidence.limited_share,
            },
            "commands": {
                "receiver": app.receiver_command(condition),
                "sender": app.sender_command(condition, video),
            },
        },
    }


def _limited_share(samples: list[tcp.TcpSample]) -> float:
    """Share of the busiest flow's busy time in which a window or buffer held it back."""
    flow = max(samples, key=lambda s: s.busy_s, default=None)
    if flow is None or flow.busy_s == 0:
        return 0.0
    return (flow.rwnd_limited_s + flow.sndbuf_limited_s) / flow.busy_s


def _ping_idle(sender: Host, folder: Path) -> list[tuple[float, float]]:
    """Measure the round-trip time of the empty path."""
    command = ping.command(RECEIVER_ADDRESS, ping.BEFORE_INTERVAL_S, ping.BEFORE_COUNT)
    process = sender.popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = process.communicate(timeout=60)[0].decode()
    (folder / "ping_idle.log").write_text(text)
    return ping.parse(text, ping.BEFORE_INTERVAL_S)


def _stamp_lines(pipe: Any, path: Path) -> None:
    """Copy lines from `pipe` to `path`, each behind the monotonic clock's nanoseconds."""
    with path.open("w") as out:
        for line in pipe:
            out.write(f"{time.monotonic_ns()} {line.decode(errors='replace')}")


def _listening(pid: int, port: int) -> bool:
    """Tell whether a TCP socket listens on `port` in the namespace of `pid`."""
    with netns.inside(pid):
        lines = Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]
    # Columns: number, local address:port, remote, state; 0A is TCP_LISTEN (net/tcp_states.h).
    return any(
        fields[3] == "0A" and int(fields[1].split(":")[1], 16) == port
        for fields in map(str.split, lines)
    )


@contextlib.contextmanager
def _process(host: Host, command: list[str], **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process on a host; at the end of the block it is gone."""
    process = host.popen(command, stdin=subprocess.DEVNULL, **streams)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


def _run_traffic(
    app: ModuleType,
    hosts: dict[str, Host],
    condition: Condition,
    seed: int,
    folder: Path,
    video: Path | None,
) -> dict[str, Any]:
    """Run receiver, sender and probes; write their logs and tables into `folder`."""
    sender, receiver, router = hosts["sender"], hosts["receiver"], hosts[bottleneck().host]
    jitter_s = random.Random(derived_seed(seed, "start")).uniform(0, START_JITTER_S)
    reasons: list[str] = []
    stamped = app is ffmpeg
    with contextlib.ExitStack() as stack:
        receiver_log = folder / "receiver.log"
        sender_log = stack.enter_context((folder / "sender.log").open("wb"))
        errors_log = stack.enter_context((folder / "receiver.err").open("wb"))
        out = subprocess.PIPE if stamped else stack.enter_context(receiver_log.open("wb"))
        server = stack.enter_context(
            _process(receiver, app.receiver_command(condition), stdout=out, stderr=errors_log)
        )
        stamper = None
        if stamped:
            stamper = threading.Thread(target=_stamp_lines, args=(server.stdout, receiver_log))
            stamper.start()
        _wait_until(lambda: _listening(receiver.pid, app.PORT), LISTEN_TIMEOUT_S, app.__name__)
        with netns.inside(sender.pid):
            tcp_probe = tcp.TcpProbe(app.PORT)
            stack.callback(tcp_probe.close)
        with netns.inside(router.pid):
            queue_probe = QueueProbe(bottleneck().name)
            stack.callback(queue_probe.close)
        time.sleep(jitter_s)
        count = int((condition.duration_s + GRACE_S) / ping.DURING_INTERVAL_S)
        pinger = sender.popen(
            ping.command(RECEIVER_ADDRESS, ping.DURING_INTERVAL_S, count),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        start_ns = time.monotonic_ns()
        client = stack.enter_context(
            _process(
                sender,
                app.sender_command(condition, video),
                stdout=sender_log,
                stderr=subprocess.STDOUT,
            )
        )
        last_samples, ended = _sample(tcp_probe, queue_probe, server, condition, folder, start_ns)
        pinger.send_signal(signal.SIGINT)
        ping_text = pinger.communicate(timeout=60)[0].decode()
        if not ended:
            reasons.append(
                f"the receiver must end within {condition.duration_s + GRACE_S:g} s of its start, "
                "found it still running"
            )
        else:
            try:
                client.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                reasons.append(f"the sender must end within {GRACE_S:g} s after the receiver")
        if stamper is not None:
            if not ended:
                server.kill()
            stamper.join()
        for name, process in (("sender", client), ("receiver", server)):
            if process.poll() not in (0, None):
                reasons.append(f"the {name} must exit with 0, found {process.returncode}")
    replies = ping.parse(ping_text, ping.DURING_INTERVAL_S)
    ping.write_csv(replies, folder / "ping.csv")
    return {
        "start_ns": start_ns,
        "last_samples": last_samples,
        "ping": [(t, rtt) for t, rtt in replies if t >= condition.warmup_s],
        "reasons": reasons,
    }


def _sample(
    tcp_probe: tcp.TcpProbe,
    queue_probe: QueueProbe,
    server: subprocess.Popen[bytes],
    condition: Condition,
    folder: Path,
    start_ns: int,
) -> tuple[list[tcp.TcpSample], bool]:
    """Sample flows and bottleneck every 20 ms until the receiver ends or the grace is over."""
    last: dict[int, tcp.TcpSample] = {}
    tcp_rows, queue_rows = [tcp.COLUMNS], [QUEUE_COLUMNS]
    step = 0
    while server.poll() is None:
        now_s = (time.monotonic_ns() - start_ns) / 1e9
        if now_s > condition.duration_s + GRACE_S:
            break
        for sample in tcp_probe.sample():
            tcp_rows.append(sample.row(now_s))
            last[sample.source_port] = sample
        queue_rows.append(queue_probe.row(now_s))
        step += 1
        time.sleep(max(0.0, step * SAMPLE_INTERVAL_S - (time.monotonic_ns() - start_ns) / 1e9))
    (folder / "tcp.csv").write_text("\n".join(tcp_rows) + "\n")
    (folder / "queue.csv").write_text("\n".join(queue_rows) + "\n")
    return list(last.values()), server.poll() is not None


def _wait_until(holds: Any, timeout_s: float, what: str) -> None:
    """Poll until `holds()`; an error after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise LosslabError(f"{what} must listen within {timeout_s:g} s, found it does not")
        time.sleep(POLL_INTERVAL_S)


def _settled(pids: dict[str, int], condition: Condition) -> dict[str, Any]:
    """Read everything back once no packet is in flight any more."""
    state: dict[str, Any] = {}
    for _ in range(SETTLE_TRIES):
        time.sleep(SETTLE_S + 4 * condition.rtt_ms / 1e3)
        state = read_back(pids, condition)
        backlog = sum(q.get("backlog", 0) for host in state.values() for q in host["qdiscs"])
        if backlog == 0:
            break
    return state


def write_result(result: dict[str, Any], path: Path) -> None:
    """Write a result as JSON with sorted keys, so that equal results are equal bytes."""
    path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
