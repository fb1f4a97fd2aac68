"""Result of a replicate: metrics from its logs and counters, and violations."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from losslab.emulation import accounting, checks, goodput, hosts, probes
from losslab.emulation.app import apps
from losslab.emulation.connections import CONNECTIONS, prefix_of
from losslab.emulation.flows import outcome as background
from losslab.emulation.flows.outcome import BackgroundResults
from losslab.emulation.mechanism import MechanismResult
from losslab.emulation.plan import Plan
from losslab.emulation.programs import ANY, Flow
from losslab.emulation.schedule_runner import ScheduleRunner
from losslab.emulation.topology import ALGORITHM_SYSCTL, interface
from losslab.emulation.traffic import Run
from losslab.errors import HostError, LosslabError
from losslab.study.axes import OWN

# Bytes of acknowledgements as a share of the data that they acknowledge, at most: TCP has one of 66
# bytes for two segments of 1514, and QUIC fewer.
ACKNOWLEDGING_SHARE = 0.04


@dataclass(frozen=True)
class Observations:
    """State of the hosts and samples of a replicate."""

    idle: list[tuple[float, float]]  # pings on the idle path: (s, RTT in ms)
    before: dict[str, Any]  # state before the traffic, from `hosts.read_back`
    run: Run
    noted: dict[str, Any]  # entries of mechanisms, from their `attached`
    after: dict[str, Any]  # state after the traffic
    sessions: Sequence[ScheduleRunner] = ()  # runners of path schedules


@dataclass(frozen=True)
class Part:
    """Part of a replicate's result, from one contributor."""

    summary: Mapping[str, Any] = field(default_factory=dict)  # metrics
    reasons: Sequence[str] = ()  # violations
    observed: Mapping[str, Any] = field(default_factory=dict)  # state and counts


class Watch(AbstractContextManager[object], Protocol):
    """Monitor of the machine in real time, while the block lasts."""

    def contribute(self, measured: Measured) -> Part:
        """Return the metrics and violations of a replicate."""


@dataclass
class Measured:
    """A measured replicate, with what several contributors need."""

    plan: Plan
    seen: Observations
    folder: Path  # of its raw files
    watch: Watch | None  # has monitored the machine, in real time

    @property
    def run(self) -> Run:
        """The samples of its traffic."""
        return self.seen.run

    @property
    def failed(self) -> bool:
        """Return whether a program failed, and may have left no output."""
        return bool(self.run.violations)

    @cached_property
    def app(self) -> dict[str, Any]:
        """The app's metrics; empty if a program failed."""
        app = apps()[self.plan.app]
        return {} if self.failed else app.collect(self.plan, self.folder, self.run.timeline)

    @cached_property
    def background(self) -> BackgroundResults | None:
        """The results of the background flows, if there are any."""
        if self.plan.background is None or self.failed:
            return None
        return background.collect(
            self.plan.background, self.app, self.plan, self.folder, self.run.timeline,
            real_time=self.watch is not None,
        )  # fmt: skip

    @cached_property
    def mechanisms(self) -> list[MechanismResult]:
        """The results of the path's mechanisms."""
        return [e.note(self.plan, self.seen, self.folder) for e in self.plan.path_spec.mechanisms]

    @cached_property
    def deltas(self) -> accounting.CounterDeltas:
        """The increases of the hosts' counters."""
        return accounting.CounterDeltas(self.seen.before, self.seen.after)

    @cached_property
    def counted(self) -> accounting.Traffic:
        """The packet accounting."""
        counted = accounting.traffic(
            self.deltas,
            self.plan.back_router,
            {name: count for each in self.mechanisms for name, count in each.counts.items()},
            duplicating=any("duplicates" in e.explains for e in self.plan.path_spec.mechanisms),
            lossy_sender=self.plan.lossy_sender,
        )
        its = self.plan.background
        return background.of_all_links(counted, its, self.deltas) if its else counted

    @cached_property
    def tcp_flows(self) -> list[Flow]:
        """The app's flows over the kernel's TCP."""
        return [flow for flow in self.plan.flows if flow.protocol == "tcp"]

    @cached_property
    def deliveries(self) -> dict[int, goodput.Deliveries]:
        """The deliveries of the sender's data connections, by source port."""
        return goodput.Deliveries.read_all(self.folder / "tcp.csv", self.plan.data_ports)

    @cached_property
    def waiting(self) -> Sequence[probes.QueueSample]:
        """The samples of the bottleneck's queue."""
        found = (each.waiting for each in self.mechanisms)
        return next((each for each in found if each is not None), self.run.queue)

    @cached_property
    def evidence(self) -> checks.Evidence:
        """The input of the checks."""
        plan, flows = self.plan, self.tcp_flows
        phases = plan.parts["changes"].phases if "changes" in plan.parts else []
        samples = self.run.last_samples
        connections = [
            [s for s in samples if flow.source_port in (None, s.source_port)] for flow in flows
        ]
        delivered = {} if self.failed else {flow.name: self._delivered(flow) for flow in flows}
        return checks.Evidence(
            path_spec=plan.path_spec,
            rtt_ms=min((rtt for _, rtt in self.seen.idle), default=None),
            goodputs=self._goodputs(),
            flows=[
                *map(_flow_evidence, flows, connections),
                *_programs_evidence(plan, self.folder),
                *(self.background.evidence if self.background else []),
            ],
            traffic=self.counted,
            max_rate_mbit=max(
                (phase.values["rate_mbit"] for phase in phases), default=plan.path_spec.rate_mbit
            ),
            real_time=self.watch is not None,
            idle_ms=[rtt for _, rtt in self.seen.idle],
            accurate_ecn=bool(flows) and all(any(s.accurate_ecn for s in c) for c in connections),
            bypassed=self.deltas.bypassed,
            queue=self.run.queue,
            delivered_bytes=delivered,
            # A path schedule's changes of the rate fill it, too.
            rates=plan.rates,
            buckets=1 + sum(len(session.boundaries) for session in self.seen.sessions),
        )

    def _delivered(self, flow: Flow) -> int:
        connection = self.deliveries.get(flow.source_port or 0)
        return connection.until(self.plan.duration_s) if connection else 0

    def _goodputs(self) -> list[goodput.Goodput]:
        """List the goodputs with the time that they cover: at most that of the samples."""
        if self.failed:
            return []
        plan, window = self.plan, (self.plan.warmup_s, self.plan.duration_s)
        goodputs = apps()[plan.app].goodputs(self.app, plan)
        if self.background:
            window_s = window[1] - window[0]
            goodputs = [*goodputs, goodput.Goodput(self.background.first_mbit, window_s)]
        samples = next(iter(self.deliveries.values()), None)
        seconds = samples.sampled_s(*window) if samples else 0.0
        return [
            replace(g, seconds=min(g.seconds, seconds)) if g.in_window and seconds else g
            for g in goodputs
        ]


def summarise(
    plan: Plan, observations: Observations, folder: Path, watch: Watch | None
) -> dict[str, Any]:
    """Return a replicate's result; write queue.csv and the app's tables to its folder.

    The result has `summary` (metrics), `reasons` (violations; empty if valid), `observed` (state
    and counts) and `plan`.
    """
    measured = Measured(plan, observations, folder, watch)
    parts = [contribute(measured) for contribute in CONTRIBUTORS]
    reasons = [reason for part in parts for reason in part.reasons]
    return {
        "summary": _finite((entry for part in parts for entry in part.summary.items()), reasons),
        "observed": _finite((entry for part in parts for entry in part.observed.items()), reasons),
        "reasons": reasons,
        "plan": plan.to_json(),
    }


def _finite(entries: Iterable[tuple[str, Any]], reasons: list[str]) -> dict[str, Any]:
    """Return entries of a result; one with NaN or an infinity becomes None, and a violation.

    A user's own app or mechanism can compute such a number. Readers refuse files that have one.
    """
    result = dict(entries)
    for name, value in result.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            reasons.append(f"{name} must have finite numbers, found {value!r:.80}")
            result[name] = None
    return result


def _hosts(m: Measured) -> Part:
    after = hosts.deviations(m.plan.hosts_at_end, m.seen.after)
    reasons = [
        *hosts.deviations(m.plan.hosts, m.seen.before),
        *(f"after the traffic: {each}" for each in after),
        *m.run.deviations,
    ]
    bare = {"without": ["netem", "fq"]} if m.plan.path_spec.bare else {}
    return Part(reasons=reasons, observed={"state": m.seen.after} | bare)


def _app(m: Measured) -> Part:
    programs = [program for flow in m.plan.flows for program in (flow.listener, flow.caller)]
    observed = {
        "started_s": m.run.timeline.started_s,
        "commands": {p.log.removesuffix(".log"): p.command for p in programs},
    }
    app = apps()[m.plan.app]
    found = [] if m.failed else app.violations(m.plan, m.folder)
    return Part(m.app, [*m.run.violations, *found, *_direction(m)], observed)


def _background(m: Measured) -> Part:
    if m.plan.background is None:
        return Part()
    found, links = m.background, background.link_metrics(m.plan.background, m.counted, m.deltas)
    return Part(found.summary | links, found.violations) if found else Part(links)


def _mechanisms(m: Measured) -> Part:
    observed: dict[str, Any] = {"link_begin_ms": None, "trace_sha256": {}}
    return Part(
        {k: v for its in m.plan.path_spec.mechanisms for k, v in its.summary(m.counted).items()}
        | {name: value for each in m.mechanisms for name, value in each.summary.items()},
        observed=observed
        | {name: value for each in m.mechanisms for name, value in each.observed.items()},
    )


def _queue(m: Measured) -> Part:
    rows = (each.row() for each in m.waiting)
    probes.write_csv(m.folder / "queue.csv", probes.QUEUE_COLUMNS, rows)
    inside = (s for s in m.waiting if m.plan.warmup_s <= s.t_s <= m.plan.duration_s)
    backlog = sorted(sample.backlog_packets for sample in inside)
    return Part(
        {
            "queue_mean_packets": _mean(backlog),
            "queue_p95_packets": goodput.quantile(backlog, 0.95),
            "queue_max_packets": backlog[-1] if backlog else None,
            # A trace-driven link has the bottleneck's queue.
            "bottleneck_drops": m.counted.bottleneck_drops - _late_drops(m),
        }
    )


def _late_drops(m: Measured) -> int:
    """Return the bottleneck's drops after the last sample before the end of the run.

    0 if the flows end with the run: then no more than the packets under way come after it.
    """
    if m.plan.ends_on_time or not m.waiting:
        return 0
    until_end = [sample.drops for sample in m.waiting if sample.t_s <= m.plan.duration_s]
    return m.waiting[-1].drops - (until_end or [m.waiting[0].drops])[-1]


def _path(m: Measured) -> Part:
    """Contribute the checks, round-trip times and packet counts."""
    path, evidence, counted = m.plan.path_spec, m.evidence, m.counted
    summary = {
        "retransmits": m.app.get("retransmits", counted.retransmits),
        "rtt_ms": evidence.rtt_ms,
        # Pings bypass a trace-driven link, so they say nothing about its queue.
        "rtt_loaded_ms": None if path.by_trace else _mean([rtt for _, rtt in m.run.replies]),
        "sender_drops": counted.sender_drops,
        # With offloads on, links count aggregates and queues packets.
        "unexplained_packets": counted.unexplained if path.single_packets else None,
        **_random_loss(counted, m.plan),
    }
    observed = {
        "traffic": counted.to_json(), "flows": [asdict(flow) for flow in evidence.flows],
        **{name: its for each in path.mechanisms for name, its in each.observed(evidence).items()},
    }  # fmt: skip
    return Part(summary, checks.violations(evidence), observed)


def _first_flow(m: Measured) -> Part:
    flows = m.evidence.flows
    if m.plan.background and m.plan.flows[0].protocol == ANY:  # its flows have evidence, too
        flows = [flow for flow in flows if flow.name == m.plan.flows[0].name]
    limited = {"rwnd_limited_percent": 100 * flows[0].window_limited_share if flows else None}
    if not m.tcp_flows or m.tcp_flows[0].source_port is None:
        return Part(limited)
    rows = goodput.read_rows(m.folder / "tcp.csv")
    port, window = m.tcp_flows[0].source_port, (m.plan.warmup_s, m.plan.duration_s)
    return Part(limited | goodput.cwnd_statistics(rows, port, *window))


def _schedule(m: Measured) -> Part:
    reasons: list[str] = []
    summary: dict[str, Any] = {}
    samples = (m.seen.before, m.seen.after, m.run.queue)
    tolerances = (m.evidence.rtt_tolerance_ms, m.plan.path_spec.bucket_bytes)
    for session in m.seen.sessions:
        reasons += session.check(*samples, m.run.replies, *tolerances)
        if m.tcp_flows and not m.failed:
            summary |= session.summary(
                *samples, m.tcp_flows[0].source_port, m.folder, m.plan.data_ports
            )
    return Part(summary, reasons)


def _machine(m: Measured) -> Part:
    return m.watch.contribute(m) if m.watch else Part()


# The violations of a result are in this order. An app's tables must be there before the background
# flows are summarised.
CONTRIBUTORS: tuple[Callable[[Measured], Part], ...] = (
    _hosts, _app, _background, _queue, _path, _first_flow, _schedule, _mechanisms, _machine,
)  # fmt: skip


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


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


def _limited(connections: Iterable[Sequence[float]]) -> tuple[float, float]:
    """Return the shares of the busiest connection's time in which window and buffer limited it.

    Each connection has its busy time, and the times limited by the receive window and send buffer.
    """
    busy_s, window_s, buffer_s = max(connections, key=lambda times: times[0], default=(0, 0, 0))
    return (window_s / busy_s, buffer_s / busy_s) if busy_s > 0 else (0.0, 0.0)


def _flow_evidence(flow: Flow, connections: Sequence[probes.TcpSample]) -> checks.FlowEvidence:
    times = [(s.busy_s, s.rwnd_limited_s, s.sndbuf_limited_s) for s in connections]
    found = sorted({s.algorithm for s in connections})
    return checks.FlowEvidence(flow.name, flow.algorithm, found, *_limited(times), flow.bulk)


def _programs_evidence(plan: Plan, folder: Path) -> Iterator[checks.FlowEvidence]:
    """Yield the evidence of user programs, from the sender's connections that carried data.

    The receiver's connections are recorded, but have no part in the measured direction. In a future
    (see `emulation.measure`), connections began with the algorithm of the past, the hosts' default.
    """
    default = plan.hosts["sender"].sysctls[ALGORITHM_SYSCTL]
    columns = ("busy_s", "rwnd_limited_s", "sndbuf_limited_s")
    for flow in (flow for flow in plan.flows if flow.protocol == ANY):
        rows = goodput.read_rows(folder / f"{prefix_of(flow)}{CONNECTIONS}")
        rows = [row for row in rows if row["host"] == "sender" and row["sent_bytes"] != "0"]
        if not rows:  # UDP has none
            continue
        past = set() if flow.algorithm in (OWN, default) else {default}
        limited = _limited([[float(row[name] or 0) for name in columns] for row in rows])
        used = sorted({name for row in rows for name in row["algorithm"].split()} - past)
        yield checks.FlowEvidence(flow.name, flow.algorithm, used, *limited, flow.bulk)


def _direction(m: Measured) -> Iterator[str]:
    """Yield a violation if the data of user programs flow from the receiver to the sender."""
    forward, back = (
        m.deltas.link(interface(*end), "rx", "bytes")
        for end in (("receiver", "r2"), ("sender", "r1"))
    )
    programs = any(flow.protocol == ANY for flow in m.plan.flows)
    if m.plan.background and m.plan.background.back:
        return  # background flows send back, too
    if programs and not m.failed and forward < ACKNOWLEDGING_SHARE * back:
        yield (
            f"data must flow from the sender to the receiver, found {back} bytes that arrived at "
            f"the sender and {forward} at the receiver: the program that sends must be the "
            "sender's; exchange both commands, and set listens to the host of the server"
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
