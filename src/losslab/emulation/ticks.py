"""What the machine's processors spend their time on: /proc/stat, see proc(5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclass(frozen=True)
class Sample:
    """Ticks that each processor has spent since boot, by kind."""

    cpus: dict[str, dict[str, int]]


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


def shares(begin: Sample, end: Sample) -> dict[str, dict[str, float]]:
    """Turn ticks into shares of each processor's time; one that was off has none."""
    found = {}
    for name, after in end.cpus.items():
        before = begin.cpus.get(name, dict.fromkeys(COLUMNS, 0))
        ticks = {kind: after[kind] - before[kind] for kind in COLUMNS}
        total = sum(ticks.values())
        found[name] = {kind: ticks[kind] / total if total else 0.0 for kind in COLUMNS}
    return found


def busy(kinds: dict[str, float]) -> float:
    """Add up the shares of a processor's time in which it worked."""
    idle = kinds["idle"] + kinds["iowait"]
    return 1.0 - idle if sum(kinds.values()) else 0.0
