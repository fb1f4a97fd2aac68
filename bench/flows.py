"""What many flows over one bottleneck cost: `python -m bench.flows [--counts 1 10 100]`.

Measures a replicate with each number of flows, one at a time, twice: for its time, and for the
memory that the guest has allocated at most. Prints both, and what a flow more costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import speed
from losslab.backends.base import Instrument
from losslab.backends.template import Templates
from losslab.campaign.instrument import instrument
from losslab.study.condition import Condition

# The last is the most that there may be (`study.crowd.FLOWS_MAX`, and the cell's own).
COUNTS = (1, 2, 5, 10, 20, 50, 100, 1001)
# A bandwidth-delay product of buffer. Of a hundred flows each gets a megabit, two packets per RTT.
BASE = Condition(
    algorithm="cubic", rate_mbit=100, rtt_ms=20, buffer_packets=165, duration_s=10, warmup_s=2,
)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What a replicate with so many flows took."""

    flows: int
    wall_s: float
    core_s: float
    memory_mib: float


def with_flows(base: Condition, count: int) -> Condition:
    """Give a condition so many flows, its own among them."""
    return replace(base, flows=f"same,count={count - 1}" if count > 1 else "none")


def measure(tools: Instrument, base: Condition, count: int) -> Cost:
    """Measure a replicate with so many flows.

    Raises:
        LosslabError: it is not valid.
    """
    condition = with_flows(base, count)
    with Templates() as templates:
        timed = speed.measure(tools, condition, 1, templates)
        watched = speed.measure(tools, condition, 1, templates, watch=True)
    return Cost(count, timed.wall_s, timed.cpu_s, watched.memory_mib["copy"])


def growth(costs: Sequence[Cost]) -> dict[str, tuple[float, float]]:
    """Fit lines through what replicates cost: (what is there without a flow, what each adds)."""
    counts = [cost.flows for cost in costs]
    return {
        what: tuple(statistics.linear_regression(counts, [getattr(c, what) for c in costs]))[::-1]
        for what in ("wall_s", "core_s", "memory_mib")
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; keep the numbers where a file is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--algorithm", default=BASE.algorithm)
    parser.add_argument("--rate-mbit", type=float, default=BASE.rate_mbit)
    parser.add_argument("--duration-s", type=float, default=BASE.duration_s)
    parser.add_argument("--out", type=Path, help="the numbers as JSON")
    options = parser.parse_args(arguments)
    base = replace(
        BASE, algorithm=options.algorithm, rate_mbit=options.rate_mbit,
        duration_s=options.duration_s,
    )  # fmt: skip
    tools = instrument()
    costs = []
    for count in options.counts:
        costs.append(measure(tools, base, count))
        cost = costs[-1]
        print(
            f"{count:4d} flows {cost.wall_s:6.1f} s wall {cost.core_s:6.1f} core-s "
            f"{cost.memory_mib:5.0f} MiB",
            flush=True,
        )
    lines = growth(costs) if len(costs) > 1 else {}
    for what, (none, each) in lines.items():
        print(f"{what}: {none:.3g} without a flow, {each:.3g} more for each")
    if options.out is not None:
        found = {"costs": [vars(cost) for cost in costs], "growth": lines}
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
