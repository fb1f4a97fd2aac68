"""Result of a replicate: metrics from its logs and counters, and violations."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import accounting, checks, goodput, hosts, probes
from losslab.emulation.plan import Plan
from losslab.emulation.programs import ANY, Flow
from losslab.emulation.topology import ALGORITHM_SYSCTL
from losslab.emulation.traffic import Run
from losslab.emulation.userprograms import CONNECTIONS
from losslab.errors import HostError, LosslabError
from losslab.study import features
from losslab.study.axes import OWN

if TYPE_CHECKING:
    from losslab.emulation.realtime import Watch
    from losslab.emulation.schedule_runner import ScheduleRunner


@dataclass(frozen=True)
class Observations:
    """State of the hosts and samples of a replicate."""

    idle: list[tuple[float, float]]  # pings on the idle path: (s, RTT in ms)
    before: dict[str, Any]  # state before the traffic, from `hosts.read_back`
    run: Run
    noted: dict[str, Any]  # entries of mechanisms, from their `attached`
    after: dict[str, Any]  # state after the traffic
    sessions: Sequence[ScheduleRunner] = ()  # runners of path schedules
    # Counts between the two states, if the states themselves are no longer available.
    counted: accounting.Traffic | None = None


def summarise(
    plan: Plan, observations: Observations, folder: Path, watch: Watch | None
) -> dict[str, Any]:
    """Return a replicate's result; write queue.csv and the app's tables to its folder.

    The result has `summary` (metrics), `reasons` (violations; empty if valid), `observed` (state
    and counts) and `plan`. `watch` has monitored the machine, in real time.
    """
    run, background = observations.run, features.background()
    violations = hosts.deviations(plan.hosts, observations.before)
    violations += [
        f"after the traffic: {r}" for r in hosts.deviations(plan.hosts_at_end, observations.after)
    ]
    violations += [*run.deviations, *run.violations]
    # A failed program may leave no output; its violation explains more than a parser's error.
    summary = (
        {} if run.violations else features.apps()[plan.app].collect(plan, folder, run.timeline)
    )
    goodputs = [] if run.violations else features.apps()[plan.app].goodputs(summary, plan)
    background_results = None
    if plan.background is not None and not run.violations:
        background_results = background.collect(
            plan.background, summary, plan, folder, run.timeline, real_time=watch is not None
        )
        summary |= background_results.summary
        window_s = plan.duration_s - plan.warmup_s
        goodputs.append(goodput.Goodput(background_results.first_mbit, window_s))
        violations += background_results.violations
    results = [each.note(plan, observations, folder) for each in plan.path_spec.mechanisms]
    waiting = next((each.waiting for each in results if each.waiting is not None), run.queue)
    probes.write_csv(folder / "queue.csv", probes.QUEUE_COLUMNS, (each.row() for each in waiting))
    deltas = accounting.CounterDeltas(observations.before, observations.after)
    counted = observations.counted or accounting.traffic(
        deltas,
        plan.back_router,
        {name: count for each in results for name, count in each.counts.items()},
        duplicating=any("duplicates" in each.explains for each in plan.path_spec.mechanisms),
        lossy_sender=plan.lossy_sender,
    )
    if plan.background is not None and observations.counted is None:
        counted = background.of_all_links(counted, plan.background, deltas)
    phases = plan.parts["changes"].phases if "changes" in plan.parts else []
    tcp_flows = [flow for flow in plan.flows if flow.protocol == "tcp"]
    evidence = checks.Evidence(
        path_spec=plan.path_spec,
        rtt_ms=min((rtt for _, rtt in observations.idle), default=None),
        goodputs=_sampled(goodputs, plan, folder),
        flows=[
            *(_flow_evidence(flow, run.last_samples) for flow in tcp_flows),
            *_programs_evidence(plan, folder),
            *(background_results.evidence if background_results else []),
        ],
        traffic=counted,
        max_rate_mbit=max(
            (phase.values["rate_mbit"] for phase in phases), default=plan.path_spec.rate_mbit
        ),
        real_time=watch is not None,
        idle_ms=[rtt for _, rtt in observations.idle],
        accurate_ecn=bool(tcp_flows)
        and all(
            any(
                s.accurate_ecn
                for s in run.last_samples
                if flow.source_port in (None, s.source_port)
            )
            for flow in tcp_flows
        ),
        bypassed=deltas.bypassed,
        queue=run.queue,
        delivered_bytes=_delivered_bytes(tcp_flows, plan, folder) if not run.violations else {},
        # A path schedule's changes of the rate fill it, too.
        buckets=1 + sum(len(session.boundaries) for session in observations.sessions),
    )
    violations += checks.violations(evidence)
    changed: dict[str, Any] = {}
    samples = (observations.before, observations.after, run.queue)
    for session in observations.sessions:
        violations += session.check(
            *samples, run.replies, evidence.rtt_tolerance_ms, evidence.bucket_bytes
        )
        if tcp_flows and not run.violations:
            changed |= session.summary(*samples, tcp_flows[0].source_port, folder)
    machine: dict[str, Any] = {}
    if watch is not None:
        found = watch.findings(plan.path_spec, evidence.rtt_ms, run.replies, run.queue)
        violations += found.violations(plan.path_spec)
        machine = {f"machine_{name}": value for name, value in asdict(found).items()}
    summary |= {
        "retransmits": summary.get("retransmits", counted.retransmits),
        "rtt_ms": evidence.rtt_ms,
        # Pings bypass a trace-driven link, so they say nothing about its queue.
        "rtt_loaded_ms": None
        if plan.path_spec.by_trace
        else _mean([rtt for _, rtt in run.replies]),
        **_random_loss(counted, plan),
        # A trace-driven link has the bottleneck's queue.
        "bottleneck_drops": counted.bottleneck_drops + counted.link_drops,
        "sender_drops": counted.sender_drops,
        # With offloads on, links count aggregates and queues packets.
        "unexplained_packets": counted.unexplained if plan.path_spec.single_packets else None,
        "rwnd_limited_percent": 100 * evidence.flows[0].window_limited_share
        if evidence.flows
        else None,
        **(background.link_metrics(plan.background, counted, deltas) if plan.background else {}),
        **_of_first_flow(tcp_flows, plan, folder),
        **_queue_summary(waiting, plan),
        **plan.path_spec.summary(counted),
        **changed,
        **{name: value for each in results for name, value in each.summary.items()},
        **machine,
    }
    return {
        "summary": summary,
        "reasons": violations,
        "observed": {
            "state": observations.after,
            "traffic": counted.to_json(),
            "flows": [asdict(flow) for flow in evidence.flows],
            "started_s": run.timeline.started_s,
            "link_begin_ms": None,
            "trace_sha256": {},
            **{name: value for each in results for name, value in each.observed.items()},
            "commands": {
                program.log.removesuffix(".log"): program.command
                for flow in plan.flows
                for program in (flow.listener, flow.caller)
            },
            **({"without": ["netem", "fq"]} if plan.path_spec.bare else {}),
        },
        "plan": plan.to_json(),
    }


def _sampled(
    goodputs: Sequence[goodput.Goodput], plan: Plan, folder: Path
) -> list[goodput.Goodput]:
    """Return goodputs with the time that they cover: at most that of the samples."""
    samples = next(iter(goodput.Deliveries.read_all(folder / "tcp.csv").values()), None)
    seconds = samples.sampled_s(plan.warmup_s, plan.duration_s) if samples else 0.0
    return [
        replace(each, seconds=min(each.seconds, seconds)) if each.in_window and seconds else each
        for each in goodputs
    ]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _delivered_bytes(flows: list[Flow], plan: Plan, folder: Path) -> dict[str, int]:
    samples = goodput.Deliveries.read_all(folder / "tcp.csv")
    return {
        flow.name: samples[flow.source_port].until(plan.duration_s)
        if flow.source_port in samples
        else 0
        for flow in flows
    }


def _random_loss(counted: accounting.Traffic, plan: Plan) -> dict[str, float | None]:
    """Return the packets offered to the emulated random loss, and those that it dropped."""
    offered: int | None = counted.loss_offered
    lost: int | None = counted.loss_drops
    percent: float | None = counted.loss_measured_percent
    if plan.lossy_sender:
        lost = counted.sender_losses
        offered = counted.sent + lost
        percent = 100 * lost / offered if offered else None
    elif plan.path_spec.loss_at_sender_percent:
        offered = lost = percent = None
    return {
        "loss_offered_packets": offered,
        "loss_packets": lost,
        "loss_measured_percent": percent,
    }


def _of_first_flow(flows: list[Flow], plan: Plan, folder: Path) -> dict[str, float | None]:
    """Return the first flow's cwnd statistics; empty without TCP or with an unknown port."""
    if not flows or flows[0].source_port is None:
        return {}
    rows = goodput.read_rows(folder / "tcp.csv")
    return goodput.cwnd_statistics(rows, flows[0].source_port, plan.warmup_s, plan.duration_s)


def _queue_summary(samples: Sequence[probes.QueueSample], plan: Plan) -> dict[str, float | None]:
    backlog = sorted(
        s.backlog_packets for s in samples if plan.warmup_s <= s.t_s <= plan.duration_s
    )
    return {
        "queue_mean_packets": _mean([float(packets) for packets in backlog]),
        "queue_p95_packets": goodput.quantile(backlog, 0.95),
        "queue_max_packets": backlog[-1] if backlog else None,
    }


def _flow_evidence(flow: Flow, samples: list[probes.TcpSample]) -> checks.FlowEvidence:
    connections = [s for s in samples if flow.source_port in (None, s.source_port)]
    busiest = max(connections, key=lambda s: s.busy_s, default=None)
    window, buffer = 0.0, 0.0
    if busiest is not None and busiest.busy_s > 0:
        window = busiest.rwnd_limited_s / busiest.busy_s
        buffer = busiest.sndbuf_limited_s / busiest.busy_s
    return checks.FlowEvidence(
        name=flow.name,
        wanted=flow.algorithm,
        found=sorted({s.algorithm for s in connections}),
        window_limited_share=window,
        buffer_limited_share=buffer,
        bulk=flow.bulk,
    )


def _programs_evidence(plan: Plan, folder: Path) -> Iterator[checks.FlowEvidence]:
    """Yield the evidence of user programs, from the sender's connections that carried data.

    The receiver's connections are recorded, but have no part in the measured direction. In a future
    (see `emulation.cut`), connections began with the algorithm of the past, the hosts' default.
    """
    flows = [flow for flow in plan.flows if flow.protocol == ANY]
    if not flows:
        return
    rows = [
        row
        for row in goodput.read_rows(folder / CONNECTIONS)
        if row["host"] == "sender" and row["sent_bytes"] != "0"
    ]
    if not rows:
        return  # UDP
    wanted, default = flows[0].algorithm, plan.hosts["sender"].sysctls[ALGORITHM_SYSCTL]
    past = set() if wanted in (OWN, default) else {default}
    busiest = max(rows, key=lambda row: float(row["busy_s"] or 0))
    busy_s = float(busiest["busy_s"] or 0)
    shares = [
        float(busiest[column]) / busy_s if busy_s > 0 else 0.0
        for column in ("rwnd_limited_s", "sndbuf_limited_s")
    ]
    yield checks.FlowEvidence(
        name=flows[0].name,
        wanted=wanted,
        found=sorted({name for row in rows for name in row["algorithm"].split()} - past),
        window_limited_share=shares[0],
        buffer_limited_share=shares[1],
        bulk=flows[0].bulk,
    )


def write_result(result: dict[str, Any], path: Path) -> None:
    """Write a result as JSON with sorted keys, so that equal results have equal bytes."""
    path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")


def write_failure(error: BaseException, path: Path) -> None:
    """Write an error in place of a result: `kind` is host, refused or crashed."""
    if isinstance(error, LosslabError):
        kind = "host" if isinstance(error, HostError) else "refused"
        write_result({"error": str(error), "kind": kind}, path)
        return
    traceback.print_exception(error)
    message = "".join(traceback.format_exception_only(error)).strip()
    write_result({"error": message, "kind": "crashed"}, path)
