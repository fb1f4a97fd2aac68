"""Cost estimates: a replicate's CPU time, which is its wall time on a core of its own.

A rough estimate suffices: it predicts how long a score or a campaign takes.
`python -m bench.duration --results results` compares it with `cpu_s` of host.json, and fits the
constants again.
"""

from __future__ import annotations

import math

from losslab.backends.base import CONTAINERNET, VIRTUAL
from losslab.emulation import droplist
from losslab.emulation.app import apps
from losslab.emulation.link.tracelink import MEAN_MBIT
from losslab.study import background, features, packetsizes
from losslab.study.condition import NO_TRACE, Condition
from losslab.study.design import Cell

# Times in seconds of one core of an Intel Xeon (family 6, model 207), by least squares on 2,246
# replicates of iperf3 in the quick campaign; for containers from `python -m bench.speed`. An
# AMD EPYC (family 25, model 17) is slower: 0.20, 0.012 and 3.1 are its constants of a replicate.
# Cost per cell besides its replicates: the start of a program and the set-up of its snapshot.
CELL_S = {VIRTUAL: 0.5, CONTAINERNET: 0.9}
# Fixed cost of a replicate, by backend. Apps declare their additional cost.
FIXED_S = {VIRTUAL: 0.15, CONTAINERNET: 0.18}
# Cost per second of a flow that keeps all hosts busy, which takes some 10 Mbit/s; and per gigabyte.
AWAKE_PER_S, AWAKE_MBIT = 0.0055, 10.0
PER_GB_S = 1.75
# Wall time of the start of the background flows' programs, per second of a flow, and per short
# flow, measured with 1 to 1,001 flows at 100 Mbit/s.
BACKGROUND_START_S, PER_FLOW_S, PER_SHORT_FLOW_S = 0.5, 0.001, 0.001
# Slowdown of two guests at once (measured on two cores: 1.03-1.06).
SIDE_BY_SIDE = 1.05
# Smallest number of listed losses that count as a loss rate.
LISTED_MIN = 20
# Algorithms whose window follows the loss, by the square-root law of Mathis et al. (1997).
LOSS_BASED = {
    "reno", "cubic", "bic", "cdg", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv",
    "scalable", "vegas", "veno", "westwood", "yeah",
}  # fmt: skip


def expected_mbit(condition: Condition) -> float:
    """Estimate the total throughput of a condition's flows in Mbit/s."""
    c = condition
    rate_mbit = c.rate_mbit if c.trace == NO_TRACE else min(c.rate_mbit, MEAN_MBIT)
    of_app_mbit = apps()[c.app].expected_mbit(c, rate_mbit)
    if of_app_mbit is not None:
        return of_app_mbit
    listed = droplist.parse(c.drop_list).get("data", ())
    # Few listed losses end before the run does.
    of_list = len(listed) / listed[-1] if len(listed) >= LISTED_MIN else 0.0
    loss = min(1.0, c.loss_percent / 100 + of_list)
    if loss == 0 or c.algorithm not in LOSS_BASED:
        return rate_mbit * (1 - loss)
    # rtt_ms is not 0: a bare path has no loss.
    window = max(1.0, math.sqrt(1.5 / loss))
    count = 1 + sum(group.count for group in background.parse(c.flows))
    segment_bits = 8 * packetsizes.of(c).segment_bytes
    return min(rate_mbit, count * window * segment_bits / (c.rtt_ms * 1000))


def replicate_s(condition: Condition, backend: str) -> float:
    """Estimate a replicate's wall time in seconds on a backend."""
    c = condition
    mbit = expected_mbit(c)
    app = apps()[c.app]
    per_s = app.per_s + AWAKE_PER_S * min(1.0, mbit / AWAKE_MBIT)
    per_gb_s = PER_GB_S + sum(feature.per_gb_s for feature in features.used_by(c))
    gigabytes = mbit * c.duration_s / 8000
    more_s, groups = app.start_s, background.parse(c.flows)
    if groups:
        bulk = sum(group.count for group in groups if not group.short)
        arrivals = sum(group.expected_arrivals(c.duration_s) for group in groups)
        more_s += (
            BACKGROUND_START_S + PER_FLOW_S * bulk * c.duration_s + PER_SHORT_FLOW_S * arrivals
        )
    return FIXED_S[backend] + per_s * c.duration_s + per_gb_s * gigabytes + more_s


def cell_s(cell: Cell) -> float:
    """Estimate the wall time in seconds of a cell that has its maximum number of replicates."""
    if cell.real_time:
        return cell.stopping.maximum * cell.condition.duration_s
    one_s = replicate_s(cell.condition, cell.backend)
    return CELL_S[cell.backend] + cell.stopping.maximum * one_s
