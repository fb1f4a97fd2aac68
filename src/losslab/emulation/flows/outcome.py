"""Results of background flows: metrics, flows.csv and the checks of each flow."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.accounting import CounterDeltas, Traffic
from losslab.emulation.app import apps
from losslab.emulation.checks import FlowEvidence
from losslab.emulation.flows.plan import ENTRY, LAST, SECOND, BackgroundFlows, PlannedFlow
from losslab.emulation.goodput import Deliveries, jain_index, median, quantile, read_report
from losslab.study.background import BOTTLENECKS

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.emulation.programs import Timeline


COLUMNS = (
    "name", "algorithm", "direction", "source_port", "rtt_ms", "start_s", "end_s", "size_bytes",
    "how", "goodput_mbit", "received_bytes", "retransmits", "fct_s",
)  # fmt: skip
# A bulk flow with less than this fraction of an equal share is starved (losslab's own limit).
STARVED_SHARE = 0.1
# Two flows share fairly when one has at most twice the other's goodput, a Jain index of 0.9. This
# is delta-fair convergence (Bansal et al., SIGCOMM 2001) with delta = 1/3, for any number of flows.
FAIR_JAIN = 0.9
FAIR_WINDOW_S = 1.0
# In a shorter window, shares depend on the phases of the flows' sawtooths.
MIN_WINDOW_S = 0.5


@dataclass(frozen=True)
class FlowRecord:
    """One background flow of a replicate: plan, both ends' reports, and samples."""

    planned: PlannedFlow
    sent: Mapping[str, Any]  # the sender's report
    received: Mapping[str, Any]  # the receiver's report
    start_s: float
    end_s: float
    deliveries: Deliveries | None  # of its connection, from samples

    @property
    def finished(self) -> bool:
        """Return whether all of its bytes arrived."""
        return self.sent.get("how") == self.received.get("how") == "finished"

    @property
    def acked_bytes(self) -> int:
        """Return the acknowledged bytes of data at its end; 0 if it did not start."""
        return acked_bytes(self.sent) if "how" in self.sent else 0

    def acked_until(self, t_s: float) -> int:
        """Return the bytes of data that were acknowledged by a time, selectively ones included.

        The kernel's final count holds from the flow's end on, because samples may have missed that
        end. It has no selectively acknowledged bytes, of which a flow that was stopped may have
        some: they were delivered, as in the samples before.
        """
        sampled = self.deliveries.until(t_s) if self.deliveries else 0
        # Samples count the SYN and a FIN, too, and a short last packet as a full one.
        sampled = min(max(0, sampled - 1), int(self.sent.get("told_bytes", sampled)))
        return max(self.acked_bytes, sampled) if t_s >= self.end_s else sampled

    def marked_mbit(self, plan: Plan, seconds: float) -> float:
        """Return the rate of the bytes that were acknowledged after the warm-up, of an upload."""
        if self.end_s <= plan.warmup_s:  # before the program took its mark
            return 0.0
        octets = self.acked_bytes - max(0, int(self.sent.get("marked_bytes", 0)) - 1)
        return octets * 8 / 1e6 / seconds

    def carried_mbit(self, plan: Plan) -> float:
        """Return the goodput averaged from the end of the warm-up to the run's end."""
        seconds = plan.duration_s - plan.warmup_s
        if self.planned.upload:
            return self.marked_mbit(plan, seconds)
        if self.planned.size_bytes is None:
            return in_window(self.deliveries, plan)
        octets = self.acked_until(plan.duration_s) - self.acked_until(plan.warmup_s)
        return octets * 8 / 1e6 / seconds

    def goodput_mbit(self, plan: Plan) -> float | None:
        """Return the goodput of its time in the window; None if that is short, or with a size."""
        begin_s, end_s = max(self.start_s, plan.warmup_s), min(self.end_s, plan.duration_s)
        if self.planned.size_bytes is not None or end_s - begin_s < MIN_WINDOW_S:
            return None
        if self.planned.upload:
            return self.marked_mbit(plan, end_s - begin_s)
        return mbit(self.deliveries, begin_s, end_s)

    @property
    def fct_s(self) -> float | None:
        """Return the flow completion time, connect to last byte read; None if unfinished."""
        sized = self.planned.size_bytes is not None and self.finished
        return seconds_between(self.sent, self.received, "ended_ns") if sized else None

    def row(self, plan: Plan) -> str:
        """Format as a line of the table."""
        planned, rate_mbit, fct_s = self.planned, self.goodput_mbit(plan), self.fct_s
        values = (
            planned.name, planned.algorithm, "back" if planned.upload else "data",
            planned.source_port, f"{planned.rtt_ms:g}", f"{self.start_s:.6f}",
            f"{self.end_s:.6f}", planned.size_bytes,
            self.sent.get("how", "not started"), None if rate_mbit is None else f"{rate_mbit:.6f}",
            self.received.get("bytes", 0), self.sent.get("retransmits"),
            None if fct_s is None else f"{fct_s:.6f}",
        )  # fmt: skip
        return ",".join("" if value is None else str(value) for value in values)


def acked_bytes(sent: Mapping[str, Any]) -> int:
    """Return the acknowledged bytes of data, given a sender's report."""
    # The kernel counts the SYN, too, and a FIN after the last byte.
    return min(max(0, int(sent["acked_bytes"]) - 1), int(sent["told_bytes"]))


def seconds_between(
    sent: Mapping[str, Any], received: Mapping[str, Any], event: str
) -> float | None:
    """Return the time from a flow's connect to an event of its receiver; None without it."""
    if "started_ns" not in sent or event not in received:
        return None
    return float(received[event] - sent["started_ns"]) / 1e9


def mbit(deliveries: Deliveries | None, begin_s: float, end_s: float) -> float | None:
    """Return the goodput in a window; None if the window is too short."""
    if end_s - begin_s < MIN_WINDOW_S:
        return None
    return deliveries.sampled_mbit(begin_s, end_s) if deliveries else 0.0


def in_window(deliveries: Deliveries | None, plan: Plan) -> float:
    """Return the goodput between the warm-up and the configured end; 0 without a connection."""
    if deliveries is None:
        return 0.0
    if any(flow.protocol == "tcp" for flow in plan.flows):
        return deliveries.mbit(plan.warmup_s, plan.duration_s)
    # Before the first background flow there are no samples, because no connection is open.
    octets = deliveries.until(plan.duration_s) - deliveries.until(plan.warmup_s)
    return octets * 8 / 1e6 / (plan.duration_s - plan.warmup_s)


def shares(
    records: Sequence[FlowRecord], samples: Mapping[int, Deliveries], plan: Plan, timeline: Timeline
) -> dict[str, float | None]:
    """Compare all bulk flows, including the foreground flow, while all of them run."""
    bulk = [record for record in records if record.planned.bulk]
    flows = [record.deliveries for record in bulk]
    starts_s = [record.start_s for record in bulk]
    first = next((f for f in plan.flows if f.bulk and f.protocol == "tcp"), None)
    if first is not None and first.source_port is not None:
        flows.insert(0, samples.get(first.source_port))
        setup_s = apps()[plan.app].setup_rtts * plan.path_spec.rtt_ms / 1e3
        starts_s.append(timeline.started_s[first.name] + setup_s)
    if len(flows) < 2:
        return {}
    last_start_s = max(starts_s)
    end_s = min([*(record.end_s for record in bulk), plan.duration_s])
    rates = [mbit(its, max(last_start_s, plan.warmup_s), end_s) for its in flows]
    shares = [rate for rate in rates if rate is not None]
    if len(shares) < len(flows):
        return {}
    equal = statistics.fmean(shares)
    return {
        "flow_goodput_min_mbit": min(shares),
        "flow_goodput_median_mbit": median(shares),
        "flow_goodput_max_mbit": max(shares),
        "jain_index": jain_index(shares),
        "starved_flows": sum(share < STARVED_SHARE * equal for share in shares) if equal else None,
        "time_to_fairness_s": _time_to_fairness(flows, last_start_s, end_s),
        **({"share_of_fair": shares[0] / equal if equal else None} if first else {}),
    }


def _time_to_fairness(
    flows: Sequence[Deliveries | None], start_s: float, end_s: float
) -> float | None:
    """Return the time from the last start to the end of the first fair second; None if none is."""
    for number in range(int((end_s - start_s) / FAIR_WINDOW_S)):
        window = start_s + number * FAIR_WINDOW_S, start_s + (number + 1) * FAIR_WINDOW_S
        index = jain_index([mbit(its, *window) or 0.0 for its in flows])
        if index is not None and index >= FAIR_JAIN:
            return window[1] - start_s
    return None


def completion(sized: Sequence[FlowRecord]) -> dict[str, float | None]:
    """Summarise the completion times of flows with a size."""
    if not sized:
        return {}
    times = sorted(fct for record in sized if (fct := record.fct_s) is not None)
    return {
        "short_flows": len(sized),
        "short_unfinished": len(sized) - len(times),
        "fct_mean_s": statistics.fmean(times) if times else None,
        "fct_median_s": median(times),
        "fct_p95_s": quantile(times, 0.95),
        "fct_p99_s": quantile(times, 0.99),
    }


def of_labels(records: Sequence[FlowRecord], plan: Plan) -> dict[str, float | None]:
    """Summarise the flows of each label."""
    summary: dict[str, float | None] = {}
    for label in sorted({record.planned.label for record in records}):
        members = [record for record in records if record.planned.label == label]
        after = [record for record in members if record.start_s >= plan.warmup_s]
        sized = completion([record for record in after if record.planned.size_bytes is not None])
        names = ("short_unfinished", "fct_mean_s", "fct_median_s", "fct_p95_s")
        own = {
            "goodput_mbit": sum(record.carried_mbit(plan) for record in members),
            **{name: sized[name] for name in names if sized},
        }
        if any("first_ns" in record.received for record in records):
            times = ((r, seconds_between(r.sent, r.received, "first_ns")) for r in after)
            own["first_byte_median_s"] = median(
                s for r, s in times if s is not None and r.start_s + s <= plan.duration_s
            )
        summary |= {f"flows_{label}_{name}": value for name, value in own.items()}
    return summary


TABLE = "flows.csv"
# Tolerance of start times: clock reads, and other events that are due at the same time.
START_TOLERANCE_S = 0.001
# The kernel counts whole microseconds; if only a time stamp gives the RTT, as of a segment that was
# sent twice, whole milliseconds.
RTT_ROUNDING_MS, STAMP_ROUNDING_MS = 0.001, 1.0


@dataclass(frozen=True)
class BackgroundResults:
    """Summary, evidence and violations of a replicate's background flows."""

    summary: dict[str, Any]
    # Goodput over the first bottleneck; with two bottlenecks the total may be higher.
    first_mbit: float
    evidence: list[FlowEvidence]
    violations: list[str]


def collect(
    background: BackgroundFlows,
    summary: Mapping[str, Any],
    plan: Plan,
    folder: Path,
    timeline: Timeline,
    *,
    real_time: bool = False,
) -> BackgroundResults:
    """Turn the programs' reports and the sender's samples into flows.csv, metrics and evidence.

    In real time, start times depend on the host's scheduler and are not checked.
    """
    sent, received = dict[str, Any](), dict[str, Any]()
    for flow, _ in background.directions:
        sent |= read_report(folder / flow.caller.log)
        received |= read_report(folder / flow.listener.log)
    samples = Deliveries.read_all(folder / "tcp.csv", plan.data_ports)
    records = []
    for planned in (*background.streams, *background.back_streams):
        port = str(planned.source_port)
        report, deliveries = sent.get(port, {}), samples.get(planned.source_port)
        start_s, end_s = (
            (report[name] - timeline.origin_ns) / 1e9 if name in report else planned_s
            for name, planned_s in (("started_ns", planned.start_s), ("ended_ns", planned.end_s))
        )
        records.append(
            FlowRecord(planned, report, received.get(port, {}), start_s, end_s, deliveries)
        )
    lines = [",".join(COLUMNS), *(record.row(plan) for record in records)]
    (folder / TABLE).write_text("\n".join(lines) + "\n")
    foreground_mbit = _foreground_mbit(summary, samples, plan)
    over_mbit = dict.fromkeys(BOTTLENECKS, 0.0)
    downloads = [record for record in records if not record.planned.upload]
    uploads_mbit = sum(record.carried_mbit(plan) for record in records if record.planned.upload)
    for record in downloads:
        over_mbit[record.planned.over] += record.carried_mbit(plan)
    background_mbit = sum(over_mbit.values())
    second_mbit = foreground_mbit + over_mbit["both"] + over_mbit["second"]
    sized = [
        r for r in downloads if r.planned.size_bytes is not None and r.start_s >= plan.warmup_s
    ]
    violations = [violation for record in records for violation in _violations(record, plan)]
    # The first packet of a window began before it.
    packet_mbit = plan.path_spec.packet_bytes * 8 / 1e6 / (plan.duration_s - plan.warmup_s)
    if 0 < background.second_rate_mbit < second_mbit - packet_mbit:
        violations.append(
            f"flows over the second bottleneck must stay below its {background.second_rate_mbit:g} "
            f"Mbit/s, found {second_mbit:.1f}"
        )
    reverse_mbit = plan.path_spec.effect.reverse_rate_mbit
    if uploads_mbit - packet_mbit > reverse_mbit:
        violations.append(
            f"uploads must stay below the reverse path's {reverse_mbit:g} Mbit/s, "
            f"found {uploads_mbit:.3f}"
        )
    if not real_time:
        violations += _not_on_time(records, plan, timeline)
    return BackgroundResults(
        summary={
            "flows_goodput_mbit": background_mbit,
            "total_goodput_mbit": foreground_mbit + background_mbit,
            **({"upload_goodput_mbit": uploads_mbit} if background.back else {}),
            **shares(downloads, samples, plan, timeline),
            **completion(sized),
            **of_labels(records, plan),
            "flows_retransmits": sum(record.sent.get("retransmits", 0) for record in records),
        },
        first_mbit=foreground_mbit + over_mbit["both"] + over_mbit["first"],
        evidence=_evidence(records),
        violations=violations,
    )


def _foreground_mbit(
    summary: Mapping[str, Any], samples: Mapping[int, Deliveries], plan: Plan
) -> float:
    """Return the goodput of the app's own flows, in Mbit/s, in the window of the background flows.

    An app's own throughput may cover another time. A video's lasts until its last frame, which can
    arrive long after the configured end.
    """
    ports = [flow.source_port for flow in plan.flows if flow.protocol == "tcp"]
    if ports and None not in ports:
        return sum(in_window(samples.get(port), plan) for port in ports if port is not None)
    # losslab does not know the ports. User programs may end earlier.
    seconds = plan.duration_s - plan.warmup_s
    goodputs = apps()[plan.app].goodputs(summary, plan)
    return sum(goodput.mbit * (goodput.seconds / seconds) for goodput in goodputs)


def _violations(record: FlowRecord, plan: Plan) -> Iterator[str]:
    """Yield the violations of a flow's packet accounting and of its minimum RTT.

    The receiver must have read every byte that the sender's kernel counts as acknowledged, and none
    that was not sent; of a finished flow it must have read all. No RTT may be below the base RTT,
    except with early packets or a path schedule.
    """
    name = f"flow {record.planned.name}"
    if "how" not in record.sent:
        yield f"{name} must be started and ended, found it was not"
        return
    sent, read = record.sent["told_bytes"], record.received.get("bytes", 0)
    low = sent if record.finished else record.acked_bytes
    if not low <= read <= sent or (record.finished and sent != record.planned.size_bytes):
        yield (
            f"{name} must deliver at least the {low} acknowledged bytes and at most the {sent} "
            f"sent, found {read}"
        )
    rtt_ms, base_ms = record.sent.get("min_rtt_ms"), record.planned.rtt_ms
    stamped = rtt_ms is not None and float(rtt_ms).is_integer()
    effect = plan.path_spec.effect
    early_ms = effect.below_ms + (STAMP_ROUNDING_MS if stamped else RTT_ROUNDING_MS)
    constant = effect.mean_rate_mbit is None
    if constant and rtt_ms is not None and rtt_ms < base_ms - early_ms:
        yield f"{name} must have an RTT of at least {base_ms:g} ms, found {rtt_ms:g} ms"


def _not_on_time(records: Sequence[FlowRecord], plan: Plan, timeline: Timeline) -> Iterator[str]:
    """Yield the flows, including the foreground flow, that did not start on time."""
    first = plan.starts[0]
    starts_s = [
        (f"flow {record.planned.name}", record.planned.start_s, record.start_s)
        for record in records
    ]
    if first.at_s is not None and first.flow.name in timeline.started_s:
        starts_s.append((first.flow.name, first.at_s, timeline.started_s[first.flow.name]))
    for name, expected_s, found_s in starts_s:
        if abs(found_s - expected_s) > START_TOLERANCE_S:
            yield f"{name} must start at {expected_s:.6f} s, found {found_s:.6f} s"


def _evidence(records: Sequence[FlowRecord]) -> list[FlowEvidence]:
    """Return each bulk flow's algorithm and limits, and those of all other flows together."""
    evidence, limited = list[FlowEvidence](), dict[str, set[str]]()
    for record in records:
        sent, expected = record.sent, record.planned.algorithm
        used = {sent["algorithm"]} if "algorithm" in sent else set[str]()
        if not record.planned.bulk:
            limited.setdefault(expected, set()).update(used)
            continue
        busy_s = sent.get("busy_s", 0.0)
        window, buffer = (
            float(sent.get(name, 0.0) / busy_s) if busy_s else 0.0
            for name in ("rwnd_limited_s", "sndbuf_limited_s")
        )
        name = f"flow {record.planned.name}"
        evidence.append(FlowEvidence(name, expected, [*used], window, buffer))
    for expected, algorithms in sorted(limited.items()):
        name = f"flows of a size or rate under {expected}"
        evidence.append(FlowEvidence(name, expected, sorted(algorithms), 0.0, 0.0, bulk=False))
    return evidence


def of_all_links(counted: Traffic, background: BackgroundFlows, between: CounterDeltas) -> Traffic:
    """Add the packets of the extra links to those of the path."""
    access = [end for end in background.network.ends if end.host == "sender"]
    back = counted.received_back + sum(between.link(end, "rx") for end in access)
    if SECOND not in background.network.links:
        return replace(counted, received_back=back)
    return replace(
        counted,
        received_back=back,
        sent=counted.sent + between.link(ENTRY[0], "tx"),
        received=counted.received + between.link(LAST[1], "rx"),
        bottleneck_drops=counted.bottleneck_drops + between.qdisc(SECOND[0]),
        loss_drops=counted.loss_drops + between.qdisc(LAST[0]),
        sender_drops=counted.sender_drops + between.qdisc(ENTRY[0]),
        queued=counted.queued + between.queued(SECOND[0]) + between.queued(LAST[0]),
    )


def link_metrics(
    background: BackgroundFlows, counted: Traffic, between: CounterDeltas
) -> dict[str, float | None]:
    """Return the share of packets that the first buffer dropped, and the drops of the second."""
    dropped = counted.bottleneck_drops
    offered = counted.received - counted.duplicates + counted.loss_drops + dropped
    lost_percent = 100 * dropped / offered if offered else None
    metrics: dict[str, float | None] = {"bottleneck_loss_percent": lost_percent}
    if SECOND in background.network.links:
        metrics["second_bottleneck_drops"] = between.qdisc(SECOND[0])
    return metrics
