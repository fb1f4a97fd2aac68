"""Sum up a replicate: what its logs and counters say, and why it is not a number, if it is none."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import accounts, checks, goodput, hosts
from losslab.emulation.crowd import outcome as crowd
from losslab.emulation.flows import Flow
from losslab.emulation.plan import Plan
from losslab.emulation.probes import queue, tcp
from losslab.emulation.traffic import Run
from losslab.errors import HostError, LosslabError
from losslab.study import features

if TYPE_CHECKING:
    from losslab.emulation.changing import Changing
    from losslab.emulation.realtime import Watch


@dataclass(frozen=True)
class Seen:
    """What was read back and seen of a replicate."""

    idle: list[tuple[float, float]]  # pings on the idle path: (s, RTT in ms)
    before: dict[str, Any]  # as of `hosts.read_back`
    run: Run
    noted: dict[str, Any]  # by mechanisms, as of their `attached`
    after: dict[str, Any]
    sessions: Sequence[Changing] = ()  # of mechanisms that act meanwhile
    # Where both states are not known any more: what was counted between them.
    counted: accounts.Traffic | None = None


def sum_up(plan: Plan, seen: Seen, folder: Path, watch: Watch | None) -> dict[str, Any]:
    """Check a replicate, and describe it; add queue.csv and the app's tables to its folder.

    Returns `summary`, `reasons` (why the replicate is invalid; empty when valid), `observed` (what
    was read back and counted) and `plan`. `watch` saw the machine, in real time.
    """
    run = seen.run
    reasons = hosts.deviations(plan.hosts, seen.before)
    reasons += [f"after the traffic: {r}" for r in hosts.deviations(plan.hosts_at_end, seen.after)]
    reasons += run.reasons
    # A program that failed left no result to collect; its reason says more than a parser would.
    summary = {} if run.reasons else features.apps()[plan.app].collect(plan, folder, run.timeline)
    beside = None
    if plan.crowd is not None and not run.reasons:
        beside = crowd.collect(
            plan.crowd, summary, plan, folder, run.timeline, real_time=watch is not None
        )
        summary |= beside.summary
        reasons += beside.reasons
    notes = [each.note(plan, seen, folder) for each in plan.promise.mechanisms]
    waiting = next((its.waiting for its in notes if its.waiting is not None), run.queue)
    queue.write_csv(waiting, folder / "queue.csv")
    between = accounts.Between(seen.before, seen.after)
    counted = seen.counted or accounts.traffic(
        between,
        plan.back_router,
        {name: count for its in notes for name, count in its.counts.items()},
        duplicating=any("duplicates" in each.explains for each in plan.promise.mechanisms),
    )
    if plan.crowd is not None and seen.counted is None:
        counted = crowd.of_all_links(counted, plan.crowd, between)
    tcp_flows = [flow for flow in plan.flows if flow.protocol == "tcp"]
    evidence = checks.Evidence(
        promise=plan.promise,
        rtt_ms=min((rtt for _, rtt in seen.idle), default=None),
        goodput_mbit=beside.first_mbit
        if beside
        else summary.get("total_goodput_mbit", summary.get("throughput_mbit", 0.0)),
        flows=[
            *(_flow_evidence(flow, run.last_samples) for flow in tcp_flows),
            *(beside.evidence if beside else []),
        ],
        traffic=counted,
        real_time=watch is not None,
        idle_ms=[rtt for _, rtt in seen.idle],
        accurate_ecn=all(
            any(
                s.accurate_ecn
                for s in run.last_samples
                if flow.source_port in (None, s.source_port)
            )
            for flow in tcp_flows
        ),
        bypassed=between.bypassed,
        queue=run.queue,
    )
    reasons += checks.reasons(evidence)
    changed: dict[str, Any] = {}
    read = (seen.before, seen.after, run.queue)
    for session in seen.sessions:
        reasons += session.judge(*read, run.replies, evidence.rtt_tolerance_ms)
        if tcp_flows and not run.reasons:
            changed |= session.summary(*read, tcp_flows[0].source_port, folder)
    machine: dict[str, Any] = {}
    if watch is not None:
        found = watch.findings(plan.promise, evidence.rtt_ms, run.replies, run.queue)
        reasons += found.reasons(plan.promise)
        machine = {f"machine_{name}": value for name, value in asdict(found).items()}
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
        "rwnd_limited_percent": 100 * evidence.flows[0].window_limited_share
        if evidence.flows
        else None,
        **(crowd.of_the_link(counted) if beside else {}),
        **(crowd.second(plan.crowd, between) if plan.crowd else {}),
        **_of_first_flow(tcp_flows, plan, folder),
        **_queue_summary(waiting, plan),
        **plan.promise.summary(counted),
        **changed,
        **{name: value for its in notes for name, value in its.summary.items()},
        **machine,
    }
    return {
        "summary": summary,
        "reasons": reasons,
        "observed": {
            "state": seen.after,
            "traffic": counted.to_json(),
            "flows": [asdict(flow) for flow in evidence.flows],
            "started_s": run.timeline.started_s,
            "link_begin_ms": None,
            "trace_sha256": {},
            **{name: value for its in notes for name, value in its.observed.items()},
            "commands": {
                program.log.removesuffix(".log"): program.command
                for flow in plan.flows
                for program in (flow.listener, flow.caller)
            },
            **({"without": ["netem", "fq"]} if plan.promise.bare else {}),
        },
        "plan": plan.to_json(),
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _of_first_flow(flows: list[Flow], plan: Plan, folder: Path) -> dict[str, float | None]:
    """Describe the first flow's connection; empty where there is no TCP or its port is not ours."""
    if not flows or flows[0].source_port is None:
        return {}
    rows = goodput.read_rows(folder / "tcp.csv")
    return goodput.cwnd_statistics(rows, flows[0].source_port, plan.warmup_s, plan.duration_s)


def _queue_summary(samples: Sequence[queue.QueueSample], plan: Plan) -> dict[str, float | None]:
    """Describe the bottleneck's backlog between the warm-up and the end."""
    backlog = sorted(
        s.backlog_packets for s in samples if plan.warmup_s <= s.t_s <= plan.duration_s
    )
    return {
        "queue_mean_packets": _mean([float(packets) for packets in backlog]),
        "queue_p95_packets": goodput.quantile(backlog, 0.95),
        "queue_max_packets": backlog[-1] if backlog else None,
    }


def _flow_evidence(flow: Flow, samples: list[tcp.TcpSample]) -> checks.FlowEvidence:
    """Say what algorithm a flow's connections had and how long a window or buffer held it back."""
    own = [s for s in samples if flow.source_port in (None, s.source_port)]
    busiest = max(own, key=lambda s: s.busy_s, default=None)
    window, buffer = 0.0, 0.0
    if busiest is not None and busiest.busy_s > 0:
        window = busiest.rwnd_limited_s / busiest.busy_s
        buffer = busiest.sndbuf_limited_s / busiest.busy_s
    return checks.FlowEvidence(
        name=flow.name,
        wanted=flow.algorithm,
        found=sorted({s.algorithm for s in own}),
        window_limited_share=window,
        buffer_limited_share=buffer,
        bulk=flow.bulk,
    )


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
