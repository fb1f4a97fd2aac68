"""What became of the flows beside a cell's own: metrics, a table, and what must hold of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.accounts import Between, Traffic
from losslab.emulation.checks import FlowEvidence
from losslab.emulation.crowd import metrics
from losslab.emulation.crowd.metrics import Life
from losslab.emulation.crowd.network import ENTRY, LAST, SECOND
from losslab.emulation.crowd.plan import Crowd
from losslab.emulation.goodput import Deliveries, read_report
from losslab.study.crowd import WAYS

if TYPE_CHECKING:
    from losslab.emulation.flows import Timeline
    from losslab.emulation.plan import Plan

TABLE = "flows.csv"
# What the app of the cell's own flow calls its goodput; a page has none.
OWN = ("total_goodput_mbit", "throughput_mbit", "goodput_mbit")
# Each flow starts at its instant, but for a few looks at the clock and what is due with it.
START_TOLERANCE_S = 0.001
# The kernel counts whole microseconds.
RTT_ROUNDING_MS = 0.001


@dataclass(frozen=True)
class Found:
    """What all of them come to."""

    summary: dict[str, Any]
    # What passed the first bottleneck; all flows together may be more where there are two.
    first_mbit: float
    evidence: list[FlowEvidence]
    reasons: list[str]


def collect(
    crowd: Crowd,
    summary: Mapping[str, Any],
    plan: Plan,
    folder: Path,
    timeline: Timeline,
    *,
    real_time: bool = False,
) -> Found:
    """Turn the programs' reports and the sender's samples into flows.csv, metrics and evidence.

    In real time programs start when the machine lets them.
    """
    sent = read_report(folder / crowd.flow.caller.log)
    received = read_report(folder / crowd.flow.listener.log)
    samples = Deliveries.read_all(folder / "tcp.csv")
    lives = []
    for stream in crowd.streams:
        said = sent.get(str(stream.source_port), {})
        start_s, end_s = (
            (said[name] - timeline.origin_ns) / 1e9 if name in said else planned_s
            for name, planned_s in (("started_ns", stream.start_s), ("ended_ns", stream.end_s))
        )
        window = max(start_s, plan.warmup_s), min(end_s, plan.duration_s)
        rate = None
        if stream.size_bytes is None:
            rate = metrics.mbit(samples.get(stream.source_port), *window)
        read = received.get(str(stream.source_port), {})
        lives.append(Life(stream, said, read, start_s, end_s, rate))
    lines = [",".join(metrics.COLUMNS), *(life.row() for life in lives)]
    (folder / TABLE).write_text("\n".join(lines) + "\n")
    own = next((float(summary[name]) for name in OWN if name in summary), 0.0)
    over = dict.fromkeys(WAYS, 0.0)
    for life in lives:
        over[life.stream.over] += metrics.carried(life, samples, plan)
    beside, second = sum(over.values()), own + over["both"] + over["second"]
    sized = [life for life in lives if life.stream.size_bytes is not None]
    reasons = [reason for life in lives for reason in _reasons(life, plan)]
    if 0 < crowd.second_rate_mbit < second:
        reasons.append(
            "flows over the second bottleneck cannot be faster than its "
            f"{crowd.second_rate_mbit:g} Mbit/s, found {second:.1f}"
        )
    return Found(
        summary={
            "flows_goodput_mbit": beside,
            "total_goodput_mbit": own + beside,
            **metrics.shares(lives, samples, plan, timeline),
            **metrics.completion([life for life in sized if life.start_s >= plan.warmup_s]),
            "flows_retransmits": sum(life.sent.get("retransmits", 0) for life in lives),
        },
        first_mbit=own + over["both"] + over["first"],
        evidence=_evidence(lives),
        reasons=reasons if real_time else [*reasons, *_not_on_time(lives, plan, timeline)],
    )


def _reasons(life: Life, plan: Plan) -> Iterator[str]:
    """Say where a flow's bytes are not where they must be, and when its path was too short.

    Every byte that the sender's kernel counts as acknowledged was read by the receiver, which reads
    none that was not sent; of a flow that ended all were. Its own queue may have made all of its
    round trips longer; none is shorter, but for packets that come early and on a path that changes.
    """
    name = f"flow {life.stream.name}"
    if "how" not in life.sent:
        yield f"{name} must be started and ended, found it was not"
        return
    # The connection's SYN counts, too; its FIN is beyond what was told.
    acked = max(0, life.sent["acked_bytes"] - 1)
    told, read = life.sent["told_bytes"], life.received.get("bytes", 0)
    low = told if life.finished else min(acked, told)
    if not low <= read <= told or (life.finished and told != life.stream.size_bytes):
        yield (
            f"{name} must have been read from what is acknowledged to what was sent, {low} to "
            f"{told} bytes, found {read}"
        )
    found, least_ms = life.sent.get("min_rtt_ms"), life.stream.rtt_ms
    early_ms = plan.promise.below_ms + RTT_ROUNDING_MS
    if plan.promise.mean_rate_mbit is None and found is not None and found < least_ms - early_ms:
        yield f"{name} must have an RTT of {least_ms:g} ms at least, found {found:g} ms"


def _not_on_time(lives: Sequence[Life], plan: Plan, timeline: Timeline) -> Iterator[str]:
    """Say which flows, the cell's own among them, did not start when they were to."""
    first = plan.starts[0]
    instants = [(f"flow {life.stream.name}", life.stream.start_s, life.start_s) for life in lives]
    if first.at_s is not None and first.flow.name in timeline.started_s:
        instants.append((first.flow.name, first.at_s, timeline.started_s[first.flow.name]))
    for name, wanted_s, found_s in instants:
        if abs(found_s - wanted_s) > START_TOLERANCE_S:
            yield f"{name} must start at {wanted_s:.6f} s, found {found_s:.6f} s"


def _evidence(lives: Sequence[Life]) -> list[FlowEvidence]:
    """Say what algorithm each bulk flow had, and what held it back; of others together."""
    found, others = list[FlowEvidence](), dict[str, set[str]]()
    for life in lives:
        sent, wanted = life.sent, life.stream.algorithm
        had = {sent["algorithm"]} if "algorithm" in sent else set[str]()
        if not life.stream.bulk:
            others.setdefault(wanted, set()).update(had)
            continue
        busy_s = sent.get("busy_s", 0.0)
        window, buffer = (
            float(sent.get(name, 0.0) / busy_s) if busy_s else 0.0
            for name in ("rwnd_limited_s", "sndbuf_limited_s")
        )
        found.append(FlowEvidence(f"flow {life.stream.name}", wanted, [*had], window, buffer))
    for wanted, algorithms in sorted(others.items()):
        name = f"flows of a size or rate under {wanted}"
        found.append(FlowEvidence(name, wanted, sorted(algorithms), 0.0, 0.0, bulk=False))
    return found


def of_all_links(counted: Traffic, crowd: Crowd, between: Between) -> Traffic:
    """Add what further links carried to what the path's own did."""
    access = [end for end in crowd.network.ends if end.host == "sender"]
    back = counted.received_back + sum(between.link(end, "rx") for end in access)
    if SECOND not in crowd.network.links:
        return dataclasses.replace(counted, received_back=back)
    return dataclasses.replace(
        counted,
        received_back=back,
        sent=counted.sent + between.link(ENTRY[0], "tx"),
        received=counted.received + between.link(LAST[1], "rx"),
        bottleneck_drops=counted.bottleneck_drops + between.qdisc(SECOND[0]),
        loss_drops=counted.loss_drops + between.qdisc(LAST[0]),
        sender_drops=counted.sender_drops + between.qdisc(ENTRY[0]),
    )


def of_the_link(counted: Traffic) -> dict[str, float]:
    """Say what share of the packets that came to the bottleneck it had no room for."""
    offered = counted.received + counted.loss_drops + counted.bottleneck_drops
    return {"bottleneck_loss_percent": 100 * counted.bottleneck_drops / offered if offered else 0.0}


def second(crowd: Crowd, between: Between) -> dict[str, int]:
    """Count the packets for which a second bottleneck had no room, where there is one."""
    there = SECOND in crowd.network.links
    return {"second_bottleneck_drops": between.qdisc(SECOND[0])} if there else {}
