"""Goodput and cwnd statistics of TCP flows, from samples of their connections.

Goodput is the number of bytes acknowledged between two times, divided by the time. Selectively
acknowledged bytes count. All bytes that are acknowledged in a window of time passed the bottleneck
in a window of the same length, one reverse path delay earlier. Bytes that the receiving program
reads may exceed the link's rate: data that arrived before the window is read in it after a gap is
filled.
"""

from __future__ import annotations

import bisect
import contextlib
import csv
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError

# Length of the intervals in the table of rates. Sample intervals are at most this long.
INTERVAL_S = 0.1
# Samples are some microseconds late.
ROUNDING_S = 0.001
COLUMNS = "t_s,goodput_mbit"
# A window reduction counts as a cut if the window falls below this share of its maximum since the
# last cut, over any number of samples: recovery lowers it packet by packet. CUBIC keeps 0.7 of its
# window and Reno 0.5. Small reductions while BBR probes are not cuts.
CUT_SHARE = 0.85
FIRST_S = 1.0


def read_rows(table: Path) -> list[dict[str, str]]:
    """Read a table of samples."""
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def write_intervals(rows: Iterable[tuple[float, float]], path: Path) -> None:
    """Write a table of intervals: (end in s, Mbit/s)."""
    lines = [f"{t_s:.6f},{rate_mbit:.6f}" for t_s, rate_mbit in rows]
    path.write_text("\n".join([COLUMNS, *lines]) + "\n")


def read_report(path: Path) -> dict[str, Any]:
    """Read a program's JSON report, the whole log or its last line: a user's scheme may print."""
    text = path.read_text(errors="replace").strip()
    for part in (text, text.rpartition("\n")[2]):
        with contextlib.suppress(json.JSONDecodeError):
            report = json.loads(part)
            if isinstance(report, dict):
                return report
    raise LosslabError(f"{path.name} must be a JSON report, found: {text[-200:]}")


@dataclass(frozen=True)
class Goodput:
    """Goodput that an app reports, and the time that it covers."""

    mbit: float
    seconds: float
    in_window: bool = True  # between the warm-up and the configured end; else another time


@dataclass(frozen=True)
class Deliveries:
    """Cumulative bytes delivered at each sample: 0 before a connection, its total after it."""

    times_s: Sequence[float]
    octets: Sequence[int]
    opens_s: float = 0.0  # when the first connection opens that carries data, of any flow

    @classmethod
    def read_all(cls, tcp_csv: Path, ports: Container[int] | None = None) -> dict[int, Deliveries]:
        """Read the deliveries of the sender's connections, by source port.

        `ports` are those of the connections that carry data (`Plan.data_ports`); None: all. iperf3
        has control connections, too.
        """
        by_port: dict[int, dict[float, int]] = defaultdict(dict)
        for row in read_rows(tcp_csv):
            by_port[int(row["flow"])][float(row["t_s"])] = int(row["delivered_bytes"])
        carrying = (its for port, its in by_port.items() if ports is None or port in ports)
        opens_s = min((min(samples) for samples in carrying), default=0.0)
        times_s = sorted({t_s for samples in by_port.values() for t_s in samples})
        return {
            port: cls(
                times_s, list(accumulate((samples.get(t_s, 0) for t_s in times_s), max)), opens_s
            )
            for port, samples in by_port.items()
        }

    @classmethod
    def read(
        cls, tcp_csv: Path, source_port: int | None, ports: Container[int] | None = None
    ) -> Deliveries:
        """Read the deliveries of the connection from a source port; LosslabError without any."""
        connections = cls.read_all(tcp_csv, ports)
        if source_port not in connections:
            raise LosslabError(
                f"{tcp_csv.name} must have samples of the connection from port {source_port}, "
                "found none"
            )
        return connections[source_port]

    def mbit(self, begin_s: float, end_s: float) -> float:
        """Return the goodput between two times in Mbit/s; LosslabError without two samples.

        There are samples from the first data connection's opening on. What comes before, such as
        iperf3's own set-up over a long path, does not count as time, as in iperf3's reports.
        """
        goodput_mbit = self.sampled_mbit(begin_s, end_s)
        if goodput_mbit is None:
            raise LosslabError(
                f"flows must have two samples between {begin_s:g} and {end_s:g} s, found fewer: "
                "the connection opened too late, or never"
            )
        return goodput_mbit

    def received_mbit(
        self, rows: Sequence[dict[str, str]], source_port: int | None, begin_s: float, end_s: float
    ) -> float:
        """Return the rate of the payload that a window brought the receiver in order, in Mbit/s.

        `rows` are those of tcp.csv. The payload is what was acknowledged up to the first gap at the
        window's end, without what had arrived before the window, also behind a gap: the receiver
        may read that in the window. So the rate is at most the goodput of the same window; 0 if
        nothing arrived.
        """
        seconds, octets = self._sampled(begin_s, end_s)
        in_order = max(
            (
                int(row["acked_bytes"])
                for row in rows
                if row["flow"] == str(source_port) and float(row["t_s"]) <= end_s + ROUNDING_S
            ),
            default=0,
        )
        before = self.until(end_s) - octets
        return max(0, in_order - before) * 8 / 1e6 / seconds if seconds else 0.0

    def sampled_mbit(self, begin_s: float, end_s: float) -> float | None:
        """Return the goodput between the first and last sample of a window; None without two."""
        seconds, octets = self._sampled(begin_s, end_s)
        return octets * 8 / 1e6 / seconds if seconds else None

    def sampled_s(self, begin_s: float, end_s: float) -> float:
        """Return the time between the first and last sample of a window, in s; 0 without two."""
        return self._sampled(begin_s, end_s)[0]

    def _sampled(self, begin_s: float, end_s: float) -> tuple[float, int]:
        """Return seconds and bytes between the first and last sample of a window."""
        first = bisect.bisect_left(self.times_s, max(begin_s, self.opens_s) - ROUNDING_S)
        last = bisect.bisect_right(self.times_s, end_s + ROUNDING_S) - 1
        if last <= first:
            return 0.0, 0
        return self.times_s[last] - self.times_s[first], self.octets[last] - self.octets[first]

    def until(self, end_s: float) -> int:
        """Return the number of bytes delivered up to a time."""
        count = bisect.bisect_right(self.times_s, end_s + ROUNDING_S)
        return self.octets[count - 1] if count else 0

    def intervals(self) -> list[tuple[float, float]]:
        """List (end in s, Mbit/s) of consecutive intervals of `INTERVAL_S`, up to a sample each."""
        rates = []
        before_s, before = 0.0, 0
        for t_s, octets in zip(self.times_s, self.octets, strict=True):
            if t_s - before_s >= INTERVAL_S - ROUNDING_S:
                rates.append((t_s, (octets - before) * 8 / 1e6 / (t_s - before_s)))
                before_s, before = t_s, octets
        return rates


def cwnd_statistics(
    rows: Sequence[dict[str, str]], source_port: int | None, warmup_s: float, duration_s: float
) -> dict[str, float | None]:
    """Return cwnd statistics of a connection after the warm-up, from the rows of tcp.csv.

    Returns TCP's RTT (ms), the congestion window (packets), changes of the slow start threshold
    after it is first set, window cuts per second, and retransmits in the replicate's first second
    (which may be warm-up); None without samples.
    """
    of_flow = (row for row in rows if row["flow"] == str(source_port))
    inside = [row for row in of_flow if warmup_s <= float(row["t_s"]) <= duration_s]
    rtts = [float(row["srtt_ms"]) for row in inside]
    windows = [int(row["cwnd_packets"]) for row in inside]
    thresholds = [row["ssthresh_packets"] for row in inside if row["ssthresh_packets"]]
    return {
        "srtt_mean_ms": statistics.fmean(rtts) if rtts else None,
        "srtt_std_ms": statistics.pstdev(rtts) if rtts else None,
        "srtt_median_ms": median(rtts),
        "cwnd_median_packets": median(windows),
        "ssthresh_changes": sum(a != b for a, b in pairwise(thresholds)),
        "window_cuts_per_s": cuts(windows) / (duration_s - warmup_s) if windows else None,
        "retransmits_first_second": retransmits_until(rows, source_port, min(FIRST_S, duration_s)),
    }


def retransmits_until(
    rows: Sequence[dict[str, str]], source_port: int | None, until_s: float
) -> int | None:
    """Return a connection's retransmitted segments up to a time; None without a sample."""
    counts = [
        int(row["retransmits"])
        for row in rows
        if row["flow"] == str(source_port) and float(row["t_s"]) <= until_s
    ]
    return counts[-1] if counts else None


def cuts(windows: Sequence[int]) -> int:
    """Count window cuts: the window falls from a peak to below CUT_SHARE of it."""
    count, top, falling = 0, 0, False
    for before, window in pairwise([0, *windows]):
        if falling and window > before:
            falling, top = False, window
        elif not falling:
            top = max(top, window)
            falling = window < CUT_SHARE * top
            count += falling
    return count


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return a quantile of a sorted list; None if it is empty."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None


def median(values: Iterable[float]) -> float | None:
    """Return the median: of an even number of values the mean of the two in the middle.

    None without values. Every median metric is defined so.
    """
    known = [*values]
    return statistics.median(known) if known else None


def jain_index(shares: list[float]) -> float | None:
    """Return Jain's fairness index, from 1/n (unfair) to 1 (equal): Jain et al., DEC-TR-301.

    None if nobody has anything: the index is then undefined.
    """
    squares = sum(share**2 for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None
