"""Goodput of TCP flows, and what else samples say of them: window, RTT, losses.

Goodput is what the receiver said it has, between two instants.

A byte counts when it is acknowledged, selectively or not. Every byte that counts in a window has
then crossed the bottleneck in a window of the same length, a way back earlier. What a receiving
program reads does not: what waits behind a hole when the window opens is read in it, and can be
more than the link carries.
"""

from __future__ import annotations

import bisect
import csv
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError

# Of the rates that are written; samples are as close as that, or a little less on slow links.
INTERVAL_S = 0.1
# Samples are some microseconds late.
ROUNDING_S = 0.001
COLUMNS = "t_s,goodput_mbit"
# A window is cut when it falls below so much of its largest since the last cut ended, however many
# samples the fall takes: recovery lowers it packet by packet. CUBIC keeps 0.7 of its window, Reno
# 0.5; windows that only shrink a little while BBR probes are none.
CUT_SHARE = 0.85
FIRST_S = 1.0


def read_rows(table: Path) -> list[dict[str, str]]:
    """Read a table of samples."""
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def write_intervals(rows: Iterable[tuple[float, float]], path: Path) -> None:
    """Write (end in s, Mbit/s) of intervals as a table."""
    lines = [f"{t_s:.6f},{rate_mbit:.6f}" for t_s, rate_mbit in rows]
    path.write_text("\n".join([COLUMNS, *lines]) + "\n")


def read_report(path: Path) -> dict[str, Any]:
    """Read what a program printed as JSON."""
    text = path.read_text()
    try:
        found: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise LosslabError(
            f"{path.name} must be a report as JSON, found: {text.strip()[-200:]}"
        ) from error
    return found


@dataclass(frozen=True)
class Deliveries:
    """Bytes that flows had delivered at each sample, 0 before a connection and whole after it."""

    instants_s: Sequence[float]
    octets: Sequence[int]

    @classmethod
    def read_all(cls, tcp_csv: Path) -> dict[int, Deliveries]:
        """Read those of every connection of the sender's, by the port that it comes from."""
        own: dict[int, dict[float, int]] = defaultdict(dict)
        for row in read_rows(tcp_csv):
            own[int(row["flow"])][float(row["t_s"])] = int(row["delivered_bytes"])
        instants = sorted({t_s for its in own.values() for t_s in its})
        return {
            port: cls(instants, list(accumulate((its.get(t_s, 0) for t_s in instants), max)))
            for port, its in own.items()
        }

    @classmethod
    def read(cls, tcp_csv: Path, source_port: int | None) -> Deliveries:
        """Read those of the connection from a port; it is an error if there was none."""
        found = cls.read_all(tcp_csv)
        if source_port not in found:
            raise LosslabError(
                f"{tcp_csv.name} must have samples of the connection from port {source_port}, "
                "found none"
            )
        return found[source_port]

    def mbit(self, begin_s: float, end_s: float) -> float:
        """Return the goodput of a window in Mbit/s; it is an error if it has no two samples."""
        found = self.sampled_mbit(begin_s, end_s)
        if found is None:
            raise LosslabError(
                f"flows must be sampled between {begin_s:g} and {end_s:g} s, found no two samples"
            )
        return found

    def sampled_mbit(self, begin_s: float, end_s: float) -> float | None:
        """Divide bytes by time between the samples nearest inside a window; None without two."""
        first = bisect.bisect_left(self.instants_s, begin_s - ROUNDING_S)
        last = bisect.bisect_right(self.instants_s, end_s + ROUNDING_S) - 1
        if last <= first:
            return None
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


def cwnd_statistics(
    rows: Sequence[dict[str, str]], source_port: int | None, warmup_s: float, duration_s: float
) -> dict[str, float | None]:
    """Describe a connection between the warm-up and the end, from the rows of tcp.csv.

    Returns TCP's own RTT (ms), its congestion window (packets), how often the slow start threshold
    changed after it was first set, how often per second the window was cut, and how many packets
    were sent again in the replicate's first second, warm-up or not; None where there is no sample.
    """
    own = [(float(row["t_s"]), row) for row in rows if row["flow"] == str(source_port)]
    inside = [row for t_s, row in own if warmup_s <= t_s <= duration_s]
    rtts = [float(row["srtt_ms"]) for row in inside]
    windows = [int(row["cwnd_packets"]) for row in inside]
    thresholds = [row["ssthresh_packets"] for row in inside if row["ssthresh_packets"]]
    early = [int(row["retransmits"]) for t_s, row in own if t_s <= FIRST_S]
    return {
        "srtt_mean_ms": statistics.fmean(rtts) if rtts else None,
        "srtt_std_ms": statistics.pstdev(rtts) if rtts else None,
        "srtt_median_ms": statistics.median(rtts) if rtts else None,
        "cwnd_median_packets": statistics.median(windows) if windows else None,
        "ssthresh_changes": sum(a != b for a, b in pairwise(thresholds)),
        "window_cuts_per_s": cuts(windows) / (duration_s - warmup_s) if windows else None,
        "retransmits_first_second": early[-1] if early else None,
    }


def cuts(windows: Sequence[int]) -> int:
    """Count how often a window was cut: it falls from a peak, and then grows again."""
    found, top, falling = 0, 0, False
    for before, window in pairwise([0, *windows]):
        if falling and window > before:
            falling, top = False, window
        elif not falling:
            top = max(top, window)
            falling = window < CUT_SHARE * top
            found += falling
    return found


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return a value at a share of an ordered list; None of none."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None


def jain_index(shares: list[float]) -> float:
    """Rate the fairness of shares, from 1/n (one has all) to 1 (equal): Jain et al., DEC-TR-301."""
    squares = sum(share**2 for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
