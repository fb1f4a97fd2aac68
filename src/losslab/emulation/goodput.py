"""Goodput of TCP flows: what the receiver said it has, between two instants.

A byte counts when it is acknowledged, selectively or not. Every byte that counts in a window has
then crossed the bottleneck in a window of the same length, a way back earlier. What a receiving
program reads does not: what waits behind a hole when the window opens is read in it, and can be
more than the link carries.
"""

from __future__ import annotations

import bisect
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from losslab.errors import LosslabError

# Of the rates that are written; samples are as close as that, or a little less on slow links.
INTERVAL_S = 0.1
# Samples are some microseconds late.
ROUNDING_S = 0.001
COLUMNS = "t_s,goodput_mbit"


def read_rows(table: Path) -> list[dict[str, str]]:
    """Read a table of samples."""
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Deliveries:
    """Bytes that flows had delivered at each sample, 0 before a connection and whole after it."""

    instants_s: Sequence[float]
    octets: Sequence[int]

    @classmethod
    def read(cls, tcp_csv: Path, source_port: int | None) -> Deliveries:
        """Read those of the sender's connection from a port."""
        rows = read_rows(tcp_csv)
        own = {
            float(row["t_s"]): int(row["delivered_bytes"])
            for row in rows
            if row["flow"] == str(source_port)
        }
        if not own:
            raise LosslabError(
                f"{tcp_csv.name} must have samples of the connection from port {source_port}, "
                "found none"
            )
        instants = sorted({float(row["t_s"]) for row in rows})
        return cls(instants, list(accumulate((own.get(t, 0) for t in instants), max)))

    def mbit(self, begin_s: float, end_s: float) -> float:
        """Divide bytes by time between the samples nearest inside a window, in Mbit/s."""
        first = bisect.bisect_left(self.instants_s, begin_s - ROUNDING_S)
        last = bisect.bisect_right(self.instants_s, end_s + ROUNDING_S) - 1
        if last <= first:
            raise LosslabError(
                f"flows must be sampled between {begin_s:g} and {end_s:g} s, found no two samples"
            )
        seconds = self.instants_s[last] - self.instants_s[first]
        return (self.octets[last] - self.octets[first]) * 8 / 1e6 / seconds

    def intervals(self) -> list[tuple[float, float]]:
        """List (end in s, Mbit/s) of consecutive intervals of `INTERVAL_S` or the next sample."""
        found = []
        before_s, before = 0.0, 0
        for t_s, octets in zip(self.instants_s, self.octets, strict=True):
            if t_s - before_s >= INTERVAL_S - ROUNDING_S:
                found.append((t_s, (octets - before) * 8 / 1e6 / (t_s - before_s)))
                before_s, before = t_s, octets
        return found

    def write_intervals(self, path: Path) -> None:
        """Write `intervals` as a table."""
        lines = [f"{t_s:.6f},{rate_mbit:.6f}" for t_s, rate_mbit in self.intervals()]
        path.write_text("\n".join([COLUMNS, *lines]) + "\n")


def jain_index(shares: list[float]) -> float:
    """Rate the fairness of shares, from 1/n (one has all) to 1 (equal): Jain et al., DEC-TR-301."""
    squares = sum(share**2 for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
