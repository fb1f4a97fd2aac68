"""Queueing delay of a run: the time that a packet waits at the bottleneck, from its own records."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.emulation import mechanism
from losslab.emulation.goodput import quantile, read_rows
from losslab.emulation.link.forward import LOG
from losslab.emulation.link.tracelink import percentile_95
from losslab.emulation.shaping import SINGLE_QUEUES
from losslab.study.axes import NONE
from losslab.study.condition import NO_TRACE, Condition
from losslab.study.schedule import Phase

# Apps with a single data flow, which has the whole queue, however the queue separates flows.
ONE_FLOW = ("iperf3", "ffmpeg", "datagram", "quic")


@dataclass(frozen=True)
class QueueingDelay:
    """Queueing delay in ms.

    Behind a trace-driven link, it is that of each packet that the link sent. Otherwise it is the
    delay of a packet that arrives at the time of a sample, between the warm-up and the end.
    """

    mean_ms: float
    p95_ms: float


def known(condition: Condition) -> bool:
    """Return whether the backlog of the bottleneck determines the delay of a packet.

    It does not if packets of several flows wait in queues of their own, if the backlog includes
    packets on the netem link (htb-netem), or if packets wait at a second bottleneck, too.
    """
    its = condition
    alone = its.app in ONE_FLOW and its.competitor == NONE and its.flows == NONE
    one_queue = its.queue in SINGLE_QUEUES or alone
    return its.shaper == "tbf" and its.second_rate_mbit == 0 and one_queue


def phases(condition: Condition, seed: int) -> Sequence[Phase]:
    """List the phases of a run's path schedule; a single one without a schedule."""
    for each in mechanism.of(condition):
        if (change_plan := each.plan(condition, seed).get("changes")) is not None:
            found: list[Phase] = change_plan.phases
            return found
    return [Phase(0.0, condition.duration_s, {"rate_mbit": condition.rate_mbit})]


def delay_ms(t_s: float, backlog_bytes: float, its: Sequence[Phase]) -> float:
    """Return the time until a bottleneck has sent what waits at `t_s`, at the rates of its phases.

    The last rate holds after the last phase, too.
    """
    now_s, bits = t_s, 8.0 * backlog_bytes
    for phase in its[:-1]:
        rate, left_s = phase.values["rate_mbit"] * 1e6, phase.end_s - now_s
        if left_s <= 0:
            continue
        if bits <= rate * left_s:
            return 1e3 * (now_s + bits / rate - t_s)
        now_s, bits = phase.end_s, bits - rate * left_s
    return 1e3 * (now_s + bits / (its[-1].values["rate_mbit"] * 1e6) - t_s)


def of_run(folder: Path, manifest: Mapping[str, Any]) -> QueueingDelay | None:
    """Return the queueing delay of a run; None if it cannot be known."""
    condition = Condition.from_json(manifest["cell"])
    if condition.trace != NO_TRACE:
        return _behind_trace(folder / LOG, manifest, condition)
    table = folder / "queue.csv"
    if not known(condition) or not table.is_file():
        return None
    its = phases(condition, manifest["seed"])
    delays = sorted(
        delay_ms(t_s, int(row["backlog_bytes"]), its)
        for row in read_rows(table)
        if condition.warmup_s <= (t_s := float(row["t_s"])) <= condition.duration_s
    )
    p95_ms = quantile(delays, 0.95)
    return None if p95_ms is None else QueueingDelay(statistics.fmean(delays), p95_ms)


def _behind_trace(
    log: Path, manifest: Mapping[str, Any], condition: Condition
) -> QueueingDelay | None:
    begin_ms = manifest.get("observed", {}).get("link_begin_ms")
    if begin_ms is None or not log.is_file():
        return None
    end_ms = begin_ms + 1e3 * condition.duration_s
    events = (line.split() for line in log.read_text().splitlines())
    delays = [
        int(delay)
        for at_ms, kind, _, *rest in events
        for delay in rest[:1]
        if kind == "-" and begin_ms <= int(at_ms) <= end_ms
    ]
    if not delays:
        return None
    return QueueingDelay(statistics.fmean(delays), percentile_95(delays))
