"""What a replicate costs: an estimate of its wall time on one core, from its condition alone.

It need not be right to the second: it sizes the workflow's batches and says how long a campaign
takes (`python -m bench.speed.campaign`, which compares it with what was measured).
"""

from __future__ import annotations

import math

from losslab.backends.base import CONTAINERNET, VIRTUAL
from losslab.emulation.link.traces import MEAN_MBIT
from losslab.study import crowd, features
from losslab.study.condition import NO_TRACE, Condition

# Seconds of one core of an AMD EPYC (family 25, model 17), by least squares on the replicates of
# the quick campaign; in containers as `python -m bench.speed` has it. What a cell costs besides
# them: a program, and a guest that boots.
CELL_S = {VIRTUAL: 1.4, CONTAINERNET: 6.0}
# A replicate that does nothing, by backend; what its app adds, the app declares.
FIXED_S = {VIRTUAL: 0.21, CONTAINERNET: 0.6}
# A second of a flow that keeps all hosts awake, which takes some 10 Mbit/s; and a gigabyte of it.
AWAKE_PER_S, AWAKE_MBIT = 0.014, 10.0
PER_GB_S = 1.85
# Two guests at once take so much longer than one (measured on two cores: 1.03-1.06).
SIDE_BY_SIDE = 1.05
# Programs of flows beside the cell's own, a second of one of them, and a short one
# (`python -m bench.speed --parts many-flows`).
FLOWS_START_S, PER_FLOW_S, PER_SHORT_FLOW_S = 0.5, 0.001, 0.001
SEGMENT_BITS = 1448 * 8
# Those whose window follows the loss, by the square-root law of Mathis et al. (1997).
LOSS_BASED = {"reno", "cubic", "htcp", "westwood", "illinois", "yeah", "vegas", "dctcp"}


def expected_mbit(condition: Condition) -> float:
    """Estimate how much a condition's flows carry together, in Mbit/s."""
    c = condition
    rate_mbit = c.rate_mbit if c.trace == NO_TRACE else min(c.rate_mbit, MEAN_MBIT)
    own = features.apps()[c.app].expected_mbit(c, rate_mbit)
    if own is not None:
        return own
    loss = c.loss_percent / 100
    if loss == 0 or c.algorithm not in LOSS_BASED:
        return rate_mbit * (1 - loss)
    # A bare path has no loss, so that there is a delay to divide by.
    window = max(1.0, math.sqrt(1.5 / loss))
    many = 1 + sum(group.count for group in crowd.parse(c.flows))
    return min(rate_mbit, many * window * SEGMENT_BITS / (c.rtt_ms * 1000))


def replicate_s(condition: Condition, backend: str) -> float:
    """Estimate a replicate's wall time in s on one of the backends known.NAMES."""
    c = condition
    mbit = expected_mbit(c)
    app = features.apps()[c.app]
    per_s = app.per_s + AWAKE_PER_S * min(1.0, mbit / AWAKE_MBIT)
    per_gb_s = PER_GB_S + sum(feature.per_gb_s for feature in features.used_by(c))
    gigabytes = mbit * c.duration_s / 8000
    flows_s = 0.0
    for group in crowd.parse(c.flows):
        bulk = 0 if group.short else group.count
        flows_s += PER_FLOW_S * bulk * c.duration_s
        flows_s += PER_SHORT_FLOW_S * crowd.expected_arrivals(group, c.duration_s)
    if c.flows != crowd.NO_FLOWS:
        flows_s += FLOWS_START_S
    return FIXED_S[backend] + app.start_s + per_s * c.duration_s + per_gb_s * gigabytes + flows_s
