"""What disturbs a measurement in real time: how busy the machine's processors were, and with what.

In virtual time none of it matters; in real time a flow that waits for a processor is slow for a
reason that has nothing to do with its path.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# How long the machine is watched before a cell, to see what else runs.
QUIET_S = 1.0
# Others' share of all processors before the cell starts. A tenth of two is a fifth of one, which a
# flow of 1 Gbit/s does not miss.
BUSY_BEFORE_MAX = 0.10
# Time that the machine's own host gave to others.
STEAL_MAX = 0.01
# On average over the cell, of the busiest processor: more, and a program or router waited for it.
BUSY_MAX = 0.90
# Of one processor. Packets are forwarded in soft interrupts; with more than this the routers, not
# the link, decide the rate.
SOFTIRQ_MAX = 0.60
# Columns of /proc/stat: proc(5).
COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclass(frozen=True)
class Sample:
    """Ticks that each processor has spent since boot, by kind."""

    cpus: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Load:
    """Shares of processor time, 0 to 1."""

    busy_before: float  # of all processors, just before the cell
    steal: float  # of the processor that lost most
    busy: float  # of the busiest processor
    softirq: float  # of the processor with most
    load_average: float  # of the last minute, at the end

    def to_json(self) -> dict[str, Any]:
        """Return the shares as JSON-ready data."""
        return asdict(self)


def parse(text: str) -> Sample:
    """Read the text of /proc/stat."""
    cpus = {}
    for line in text.splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            cpus[name] = dict(zip(COLUMNS, map(int, values[: len(COLUMNS)]), strict=True))
    return Sample(cpus)


def sample() -> Sample:
    """Read what the processors have done until now."""
    return parse(Path("/proc/stat").read_text())


def quiet_busy() -> float:
    """Watch the machine for a moment; return the share of all processors that others use."""
    begin = sample()
    time.sleep(QUIET_S)
    shares = [_busy(kinds) for kinds in _shares(begin, sample()).values()]
    return sum(shares) / len(shares)


def load(busy_before: float, begin: Sample, end: Sample) -> Load:
    """Sum up what the processors did between two samples."""
    shares = _shares(begin, end).values()
    return Load(
        busy_before=busy_before,
        steal=max(kinds["steal"] for kinds in shares),
        busy=max(map(_busy, shares)),
        softirq=max(kinds["softirq"] for kinds in shares),
        load_average=os.getloadavg()[0],
    )


def _shares(begin: Sample, end: Sample) -> dict[str, dict[str, float]]:
    """Turn ticks into shares of each processor's time; one that was off has none."""
    shares = {}
    for name, after in end.cpus.items():
        before = begin.cpus.get(name, dict.fromkeys(COLUMNS, 0))
        ticks = {kind: after[kind] - before[kind] for kind in COLUMNS}
        total = sum(ticks.values())
        shares[name] = {kind: ticks[kind] / total if total else 0.0 for kind in COLUMNS}
    return shares


def _busy(shares: dict[str, float]) -> float:
    idle = shares["idle"] + shares["iowait"]
    return 1.0 - idle if sum(shares.values()) else 0.0


def reasons(found: Load) -> list[str]:
    """Say why a replicate that ran under this load is not a number; empty when it is one."""
    limits = (
        ("other programs must leave the processors alone", found.busy_before, BUSY_BEFORE_MAX),
        ("the machine's own host must not take its processors", found.steal, STEAL_MAX),
        ("no processor may be the bottleneck: busy", found.busy, BUSY_MAX),
        ("the routers must not be the bottleneck: soft interrupts", found.softirq, SOFTIRQ_MAX),
    )
    return [
        f"{what} (at most {100 * limit:.0f} %), found {100 * value:.1f} %"
        for what, value, limit in limits
        if value > limit
    ]
