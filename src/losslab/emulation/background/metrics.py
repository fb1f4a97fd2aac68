"""Metrics of many flows: goodput, fairness and flow completion time (FCT)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from losslab.emulation.background.plan import Stream
from losslab.emulation.goodput import Deliveries, jain_index, quantile
from losslab.study import features

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.emulation.programs import Timeline

COLUMNS = (
    "name", "algorithm", "source_port", "rtt_ms", "start_s", "end_s", "size_bytes", "how",
    "goodput_mbit", "received_bytes", "retransmits", "fct_s",
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
    """One background flow of a replicate: plan, both ends' reports, and goodput."""

    stream: Stream
    sent: Mapping[str, Any]  # the sender's report
    received: Mapping[str, Any]  # the receiver's report
    start_s: float
    end_s: float
    goodput_mbit: float | None

    @property
    def finished(self) -> bool:
        """Return whether all of its bytes arrived."""
        return self.sent.get("how") == self.received.get("how") == "finished"

    @property
    def acked_bytes(self) -> int:
        """Return the acknowledged bytes of data at its end; 0 if it did not start."""
        if "how" not in self.sent:
            return 0
        # The kernel counts the SYN, too, and a FIN after the last byte.
        return min(max(0, int(self.sent["acked_bytes"]) - 1), int(self.sent["told_bytes"]))

    @property
    def fct_s(self) -> float | None:
        """Return the flow completion time, connect to last byte read; None if unfinished."""
        if self.stream.size_bytes is None or not self.finished:
            return None
        return float(self.received["ended_ns"] - self.sent["started_ns"]) / 1e9

    def row(self) -> str:
        """Format as a line of the table."""
        stream, fct = self.stream, self.fct_s
        values = (
            stream.name, stream.algorithm, stream.source_port, f"{stream.rtt_ms:g}",
            f"{self.start_s:.6f}", f"{self.end_s:.6f}", stream.size_bytes,
            self.sent.get("how", "not started"),
            None if self.goodput_mbit is None else f"{self.goodput_mbit:.6f}",
            self.received.get("bytes", 0), self.sent.get("retransmits"),
            None if fct is None else f"{fct:.6f}",
        )  # fmt: skip
        return ",".join("" if value is None else str(value) for value in values)


def mbit(its: Deliveries | None, begin_s: float, end_s: float) -> float | None:
    """Return the goodput in a window; None if the window is too short."""
    if end_s - begin_s < MIN_WINDOW_S:
        return None
    if its is None:
        return 0.0
    return its.sampled_mbit(begin_s, end_s)


def carried(record: FlowRecord, samples: Mapping[int, Deliveries], plan: Plan) -> float:
    """Return a flow's goodput in Mbit/s, averaged from the end of the warm-up to the run's end."""
    its = samples.get(record.stream.source_port)
    if record.stream.size_bytes is None:
        return in_window(its, plan)
    octets = acked_until(record, its, plan.duration_s) - acked_until(record, its, plan.warmup_s)
    return octets * 8 / 1e6 / (plan.duration_s - plan.warmup_s)


def in_window(its: Deliveries | None, plan: Plan) -> float:
    """Return the goodput between the warm-up and the configured end; 0 without a connection."""
    if its is None:
        return 0.0
    if any(flow.protocol == "tcp" for flow in plan.flows):
        return its.mbit(plan.warmup_s, plan.duration_s)
    # Before the first background flow there are no samples, because no connection is open.
    octets = its.until(plan.duration_s) - its.until(plan.warmup_s)
    return octets * 8 / 1e6 / (plan.duration_s - plan.warmup_s)


def acked_until(record: FlowRecord, its: Deliveries | None, t_s: float) -> int:
    """Return the bytes of a flow that were acknowledged by a time.

    The kernel's final count holds from the flow's end on. Samples may have missed that end.
    """
    if t_s >= record.end_s:
        return record.acked_bytes
    return 0 if its is None else its.until(t_s)


def shares(
    records: Sequence[FlowRecord], samples: Mapping[int, Deliveries], plan: Plan, timeline: Timeline
) -> dict[str, float | None]:
    """Compare all bulk flows, including the foreground flow, while all of them run."""
    bulk = [record for record in records if record.stream.bulk]
    first = next((f for f in plan.flows if f.bulk and f.protocol == "tcp"), None)
    ports = [record.stream.source_port for record in bulk]
    starts, ends = [record.start_s for record in bulk], [record.end_s for record in bulk]
    if first is not None and first.source_port is not None:
        ports.insert(0, first.source_port)
        setup_s = features.apps()[plan.app].setup_rtts * plan.path_spec.rtt_ms / 1e3
        starts.append(timeline.started_s[first.name] + setup_s)
    if len(ports) < 2:
        return {}
    last_start_s, end_s = max(starts), min([*ends, plan.duration_s])
    begin_s = max(last_start_s, plan.warmup_s)
    rates = [mbit(samples.get(port), begin_s, end_s) for port in ports]
    shares = [rate for rate in rates if rate is not None]
    if len(shares) < len(ports):
        return {}
    equal = statistics.fmean(shares)
    return {
        "flow_goodput_min_mbit": min(shares),
        "flow_goodput_median_mbit": statistics.median(shares),
        "flow_goodput_max_mbit": max(shares),
        "jain_index": jain_index(shares),
        "starved_flows": sum(share < STARVED_SHARE * equal for share in shares) if equal else None,
        "time_to_fairness_s": _time_to_fairness(ports, samples, last_start_s, end_s),
        **({"share_of_fair": shares[0] / equal if equal else None} if first else {}),
    }


def _time_to_fairness(
    ports: Sequence[int], samples: Mapping[int, Deliveries], start_s: float, end_s: float
) -> float | None:
    """Return the time from the last start to the end of the first fair second; None if none is."""
    for number in range(int((end_s - start_s) / FAIR_WINDOW_S)):
        window = start_s + number * FAIR_WINDOW_S, start_s + (number + 1) * FAIR_WINDOW_S
        rates = [mbit(samples.get(port), *window) or 0.0 for port in ports]
        if (index := jain_index(rates)) is not None and index >= FAIR_JAIN:
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
        "fct_median_s": quantile(times, 0.5),
        "fct_p95_s": quantile(times, 0.95),
        "fct_p99_s": quantile(times, 0.99),
    }
