"""Measure one replicate where the hosts are: configure, read back, run the app, check, sum up.

Runs inside the guest, or in the engine image on the host; standard library and Mininet only.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import math
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from losslab.emulation import checks, netns, traffic
from losslab.emulation.apps import datagram, ffmpeg, iperf3, web
from losslab.emulation.flows import Flow
from losslab.emulation.hosts import configuration_reasons, configure, read_back, require_algorithms
from losslab.emulation.instants import wait_for_whole_second
from losslab.emulation.link import forward, tracelink, traces
from losslab.emulation.probes import ping, queue, tcp
from losslab.emulation.topology import RECEIVER_ADDRESS, emulated_hosts
from losslab.errors import HostError, LosslabError
from losslab.study.condition import DRAWN_TRACE, Condition, derived_seed

if TYPE_CHECKING:
    from losslab.emulation.realtime import Watch

APPS: dict[str, ModuleType] = {"iperf3": iperf3, "ffmpeg": ffmpeg, "web": web, "datagram": datagram}

SETTLE_S = 0.5
SETTLE_TRIES = 20


def measure(
    condition: Condition,
    seed: int,
    folder: Path,
    video: Path | None = None,
    trace: Path | None = None,
    host_class: type | None = None,
    disposable: bool = False,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Run one replicate and leave its raw files in `folder`.

    Args:
        condition: What to measure.
        seed: Decides every random draw.
        folder: An existing, empty folder; one that is drawn, the link's trace goes beside it.
        video: The stream that the ffmpeg app sends.
        trace: What drives the link of a condition with a trace that is a file.
        host_class: The class of Mininet's hosts, as for `topology.emulated_hosts`.
        disposable: Leave the hosts to the guest's power-off.
        watch: Time is the machine's own, and this sees whether it was good enough.

    Returns:
        `summary`, `reasons` (why the replicate is invalid; empty when valid) and `observed`
        (what was read back and counted).
    """
    # Collections would come after so many allocations, those of imports among them, and each looks
    # at the clock. The minute or so that this process has left makes too little garbage to matter.
    gc.disable()
    if condition.trace == DRAWN_TRACE:
        # Here, where Python and libm are the image's: others might draw another one.
        trace = folder.parent / "trace"
        trace.write_text(traces.write(traces.generate(derived_seed(seed, "trace"))))
    app = APPS[condition.app]
    flows: list[Flow] = app.flows(condition, video)
    require_algorithms({flow.algorithm for flow in flows})
    with emulated_hosts(host_class, disposable) as hosts:
        pids = {name: host.pid for name, host in hosts.items()}
        configure(pids, condition, seed)
        with watch or contextlib.nullcontext():
            wait_for_whole_second()
            idle = _ping_idle(pids["sender"], condition, folder)
            before = read_back(pids, condition)
            reasons = configuration_reasons(before, condition, seed)
            with forward.attached(hosts["r1"], condition, flows, trace, folder) as link_begin_ns:
                run = traffic.run(flows, hosts, condition, seed, folder)
        after = _settled(pids, condition)
        reasons += [
            f"after the traffic: {r}" for r in configuration_reasons(after, condition, seed)
        ]
    reasons += run.reasons
    # A program that failed left no result to collect; its reason says more than a parser would.
    summary = {} if run.reasons else app.collect(condition, folder, run.timeline)
    link = _link_summary(trace, condition, folder)
    waiting = run.queue
    if link_begin_ns is not None:
        waiting = _link_queue(run, link_begin_ns, folder)
    queue.write_csv(waiting, folder / "queue.csv")
    counted = checks.traffic(before, after, condition.path, link.get("link_drops", 0))
    evidence = checks.Evidence(
        condition=condition,
        rtt_ms=min((rtt for _, rtt in idle), default=None),
        goodput_mbit=summary.get("total_goodput_mbit", summary.get("throughput_mbit", 0.0)),
        flows=[_flow_evidence(flow, run.last_samples) for flow in flows if flow.protocol == "tcp"],
        traffic=counted,
        real_time=watch is not None,
    )
    reasons += checks.reasons(evidence)
    machine: dict[str, Any] = {}
    if watch is not None:
        found = watch.findings(condition, evidence.rtt_ms, run.replies, run.queue)
        reasons += found.reasons(condition)
        machine = {f"machine_{name}": value for name, value in found.to_json().items()}
    summary |= {
        "retransmits": summary.get("retransmits", counted.retransmits),
        "rtt_ms": evidence.rtt_ms,
        "rtt_loaded_ms": _mean([rtt for _, rtt in run.replies]),
        "loss_offered_packets": counted.loss_offered,
        "loss_packets": counted.loss_drops,
        "loss_measured_percent": counted.loss_measured_percent,
        "bottleneck_drops": counted.bottleneck_drops,
        "sender_drops": counted.sender_drops,
        "unexplained_packets": counted.unexplained,
        **_queue_summary(waiting, condition),
        **link,
        **machine,
    }
    return {
        "summary": summary,
        "reasons": reasons,
        "observed": {
            "state": after,
            "traffic": asdict(counted),
            "flows": [asdict(flow) for flow in evidence.flows],
            "trace_sha256": trace and hashlib.sha256(trace.read_bytes()).hexdigest(),
            "commands": {
                program.log.removesuffix(".log"): program.command
                for flow in flows
                for program in (flow.listener, flow.caller)
            },
            **({"without": ["netem", "fq"]} if condition.bare else {}),
        },
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _queue_summary(
    samples: list[queue.QueueSample], condition: Condition
) -> dict[str, float | None]:
    """Describe the bottleneck's backlog between the warm-up and the end."""
    backlog = sorted(
        s.backlog_packets for s in samples if condition.warmup_s <= s.t_s <= condition.duration_s
    )
    return {
        "queue_mean_packets": _mean([float(packets) for packets in backlog]),
        "queue_p95_packets": backlog[math.ceil(0.95 * len(backlog)) - 1] if backlog else None,
        "queue_max_packets": backlog[-1] if backlog else None,
    }


def _link_queue(run: traffic.Run, begin_ns: int, folder: Path) -> list[queue.QueueSample]:
    """Tell what waited in a trace-driven link whenever the bucket behind it was sampled.

    Args:
        run: Where the samples' times and their clock are.
        begin_ns: The monotonic clock at the 0 ms of the link's log.
        folder: Where the log is.
    """
    times = [sample.t_s for sample in run.queue]
    offset_ms = (run.timeline.origin_ns - begin_ns) / 1e6
    lines = (folder / forward.LOG).read_text().splitlines()
    states = tracelink.backlog(lines, [offset_ms + 1e3 * t_s for t_s in times])
    return [
        queue.QueueSample(t_s, state.packets, state.octets, state.drops)
        for t_s, state in zip(times, states, strict=True)
    ]


def _link_summary(trace: Path | None, condition: Condition, folder: Path) -> dict[str, Any]:
    """Describe what a trace-driven link did; empty where there is none."""
    if trace is None:
        return {}
    lines = (folder / forward.LOG).read_text().splitlines()
    # Drops count for the books whenever they were; the rest is about the time of the run.
    drops = sum(line.split()[1] == "d" for line in lines)
    books = {"link_drops": drops, **traces.describe(traces.parse(trace.read_text(), str(trace)))}
    found = tracelink.summarise(lines, condition.duration_s * 1e3)
    if found is None:
        return books
    return books | {
        "link_throughput_mbit": found.throughput_mbit,
        "queue_delay_p95_ms": found.queue_delay_p95_ms,
        "signal_delay_p95_ms": found.signal_delay_p95_ms,
        "power": found.power,
    }


def _flow_evidence(flow: Flow, samples: list[tcp.TcpSample]) -> checks.FlowEvidence:
    """Say what algorithm a flow's connections had and how long a window or buffer held it back."""
    own = [s for s in samples if flow.source_port in (None, s.source_port)]
    busiest = max(own, key=lambda s: s.busy_s, default=None)
    limited_share = 0.0
    if busiest is not None and busiest.busy_s > 0:
        limited_share = (busiest.rwnd_limited_s + busiest.sndbuf_limited_s) / busiest.busy_s
    return checks.FlowEvidence(
        name=flow.name,
        wanted=flow.algorithm,
        found=sorted({s.algorithm for s in own}),
        limited_share=limited_share if flow.bulk else 0.0,
    )


def _ping_idle(sender_pid: int, condition: Condition, folder: Path) -> list[tuple[float, float]]:
    """Measure the round-trip time of the empty path."""
    with netns.inside(sender_pid):
        probe = ping.EchoProbe(RECEIVER_ADDRESS)
    with contextlib.closing(probe):
        replies = ping.measure_idle(probe, condition.rtt_ms)
    ping.write_csv(replies, folder / "ping_idle.csv")
    return replies


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


def write_failure(error: BaseException, path: Path) -> None:
    """Write why there is no result: a refusal in its own words, or what crashed."""
    if isinstance(error, LosslabError):
        kind = "host" if isinstance(error, HostError) else "refused"
        write_result({"error": str(error), "kind": kind}, path)
        return
    traceback.print_exception(error)
    words = "".join(traceback.format_exception_only(error)).strip()
    write_result({"error": words, "kind": "crashed"}, path)
