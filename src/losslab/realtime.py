"""What disturbs a measurement in real time: how busy the processors were, and how late timers.

In virtual time none of it matters; in real time a flow that waits for a processor is slow for a
reason that has nothing to do with its path. Run as a program, this watches timers.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import select
import subprocess
import sys
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
# How often the watch of timers wakes. It costs a processor some thousandth of its time.
WAKE_INTERVAL_S = 0.01
PR_SET_TIMERSLACK = 29  # linux/prctl.h; the default of 50 us would be part of every lateness
READY = "ready\n"
# Columns of /proc/stat: proc(5).
COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclass(frozen=True)
class Sample:
    """Ticks that each processor has spent since boot, by kind."""

    cpus: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Load:
    """What the machine did beside and during a measurement; shares of processor time are 0 to 1."""

    busy_before: float  # of all processors, just before the cell
    steal: float  # of the processor that lost most
    busy: float  # of the busiest processor
    softirq: float  # of the processor with most
    load_average: float  # of the last minute, at the end
    # How late a program that waits for an instant is woken, in ms: proc/stat counts ticks of 10 ms
    # and sees nothing of a processor that comes late.
    late_median_ms: float
    late_p99_ms: float
    late_max_ms: float

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


class Watch:
    """Watches the machine while the block lasts: from a path that is set up to the traffic's end.

    What comes before and after, the start of hosts and their end, may keep the machine busy.
    """

    def __init__(self) -> None:
        """See what else runs, and get ready."""
        self._busy_before = quiet_busy()
        self._timers = subprocess.Popen(
            [sys.executable, "-m", "losslab.realtime"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._timers.stdout is not None
        self._timers.stdout.readline()
        self._begin = self._end = sample()
        self._late_ms: list[float] = []

    def __enter__(self) -> Watch:
        """Begin."""
        assert self._timers.stdin is not None
        self._timers.stdin.write(READY)
        self._timers.stdin.flush()
        self._begin = sample()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._end = sample()
        out = self._timers.communicate()[0]
        self._late_ms = json.loads(out)

    def load(self) -> Load:
        """Sum up what was seen in the block."""
        return load(self._busy_before, self._begin, self._end, self._late_ms)


def load(busy_before: float, begin: Sample, end: Sample, late_ms: list[float]) -> Load:
    """Sum up what the processors did between two samples, and how late they woke a program."""
    shares = _shares(begin, end).values()
    late = sorted(late_ms)
    return Load(
        busy_before=busy_before,
        steal=max(kinds["steal"] for kinds in shares),
        busy=max(map(_busy, shares)),
        softirq=max(kinds["softirq"] for kinds in shares),
        load_average=os.getloadavg()[0],
        late_median_ms=_quantile(late, 0.5),
        late_p99_ms=_quantile(late, 0.99),
        late_max_ms=_quantile(late, 1.0),
    )


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else math.nan


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


def main() -> int:
    """Wait for a line, then wake until input ends; print how late each wake-up was, in ms."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    print(READY, end="", flush=True)
    sys.stdin.readline()
    begin, late_ms = time.monotonic(), []
    while not select.select([sys.stdin], [], [], 0)[0]:
        due = begin + math.ceil((time.monotonic() - begin) / WAKE_INTERVAL_S) * WAKE_INTERVAL_S
        time.sleep(max(0.0, due - time.monotonic()))
        late_ms.append((time.monotonic() - due) * 1e3)
    json.dump([round(late, 4) for late in late_ms], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
