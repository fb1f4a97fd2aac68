"""Explanation of a cause: which packets it dropped, and what the sender did with and without it.

It reads the captures of both runs (see `capturing`) and their samples in tcp.csv.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from losslab.campaign import qlog
from losslab.campaign.capturing import BEFORE_LOSS
from losslab.campaign.export import SENDERS_LINK
from losslab.campaign.futures import Drop, drops_of
from losslab.campaign.qlog import Segment
from losslab.campaign.rerun import load_manifest
from losslab.campaign.symptoms import longest_stall, samples, timeouts
from losslab.emulation import capture
from losslab.study.condition import Condition

# Rows of the table, and the time that it shows before the cause's first packet.
ROWS, BEFORE_S = 12, 0.1
# The clocks of captures and of tables begin some microseconds apart.
SAME_S = 1e-4
# TCP_RTO_MIN of Linux (net/tcp.h).
RTO_MIN_MS = 200.0
HEAD = ("t (s)", "delivered (kB)", "cwnd", "ssthresh", "RTO (ms)", "outstanding", "retransmits")


@dataclass(frozen=True)
class _Run:
    """A run's largest TCP flow."""

    folder: Path
    rows: list[dict[str, str]]  # of tcp.csv
    segments: list[Segment]  # at the sender
    origin_ns: int

    @classmethod
    def read(cls, folder: Path) -> _Run:
        rows = samples(folder)
        origin_ns, segments = _segments(folder, SENDERS_LINK)
        segments = qlog.by_flow(segments, Condition.from_json(load_manifest(folder)["cell"]))
        port = int(rows[0]["flow"])
        return cls(folder, rows, [each for each in segments if each.port == port], origin_ns)

    def cells(self, t_s: float, outstanding: Sequence[tuple[int, int]]) -> list[str]:
        """Return the flow's state at a time: the values of HEAD, without the first."""
        at = bisect.bisect_right(self.rows, t_s, key=lambda row: float(row["t_s"])) - 1
        if at < 0:
            return ["-"] * (len(HEAD) - 1)
        row = self.rows[at]
        time_ns = self.origin_ns + round(float(row["t_s"]) * 1e9)
        place = bisect.bisect_right(outstanding, time_ns, key=lambda each: each[0]) - 1
        rto_ms = float(row["srtt_ms"]) + max(4 * float(row["rttvar_ms"]), RTO_MIN_MS)
        return [
            f"{int(row['delivered_bytes']) / 1e3:.0f}", row["cwnd_packets"],
            row["ssthresh_packets"] or "none", f"{rto_ms:.0f}",
            str(outstanding[place][1] if place >= 0 else 0), row["retransmits"],
        ]  # fmt: skip


def packets(folder: Path, cause: Sequence[Drop]) -> Iterator[str]:
    """Yield a line for each packet of a cause, given the run that drops the cause alone.

    Times are those of this run: after the first packet, they may differ from the original's.
    """
    lost = _lost(folder)
    origin_ns, sent = _segments(folder, SENDERS_LINK)
    names = {(drop.direction, drop.number) for drop in cause}
    for drop in drops_of(folder):
        name = drop.direction, drop.number
        if name in names:
            text = f"{drop.direction} packet {drop.number}, dropped at {drop.t_s:.6f} s"
            its = lost.get(name)
            yield text if its is None else f"{text}: {_described(its, drop.t_s, origin_ns, sent)}"


def _lost(folder: Path) -> dict[tuple[str, int], Segment]:
    """Return the segments that were dropped, by direction and number.

    netem drops the n-th packet of the traffic that is captured on the link before, at that time.
    """
    file = folder / capture.name(BEFORE_LOSS)
    if not file.exists():
        return {}
    origin_ns, arrivals = qlog.sent(file.read_bytes())
    found = {}
    for drop in drops_of(folder):
        segment = arrivals[drop.number - 1] if drop.number <= len(arrivals) else None
        if drop.direction != "data" or segment is None:
            continue
        if abs(drop.t_s - (segment.at_ns - origin_ns) / 1e9) < SAME_S:
            found[drop.direction, drop.number] = segment
    return found


def _described(lost: Segment, t_s: float, origin_ns: int, sent: Sequence[Segment]) -> str:
    """Describe a lost segment: its bytes, and when they were sent before and after."""
    if not lost.octets:
        return f"no data, port {lost.port}"
    own = [each for each in sent if each.sent and each.port == lost.port and each.octets]
    first = own[0].begin
    times = [
        (each.at_ns - origin_ns) / 1e9
        for each in own
        if (lost.begin - each.begin) % (1 << 32) < each.octets
    ]
    earlier = sum(time_s <= t_s for time_s in times)
    begin = (lost.begin - first) % (1 << 32)
    what = f"bytes {begin} to {begin + lost.octets - 1} of port {lost.port}"
    which = "first sent" if earlier == 1 else f"transmission {earlier}, sent"
    text = f"{what}, {which} at {times[earlier - 1]:.6f} s"
    after = f", again at {times[earlier]:.6f} s" if earlier < len(times) else ", not sent again"
    return text + after


def lines(
    cause: Path, without: Path, drops: Sequence[Drop], from_s: float, until_s: float
) -> Iterator[str]:
    """Yield what the sender did in the runs with the cause alone and without it.

    The cause are `drops` after the cut at `from_s`; the symptom ends at `until_s`.
    """
    runs = [_Run.read(folder) for folder in (cause, without)]
    names = ("only the cause", "all drops but the cause")
    for name, run in zip(names, runs, strict=True):
        stall = longest_stall(run.folder, from_s, until_s)
        windows = [
            int(row["cwnd_packets"]) for row in run.rows if from_s < float(row["t_s"]) <= until_s
        ]
        span = f"cwnd from {min(windows)} to {max(windows)} packets" if windows else "no samples"
        yield (
            f"{name}: until {until_s:.3g} s, longest stall {stall.length_s:.3f} s, "
            f"timeouts: {timeouts(load_manifest(run.folder))}, {span}"
        )
    begin_s = max(from_s, min(drop.t_s for drop in drops) - BEFORE_S)
    times = [t_s for row in runs[0].rows if begin_s <= (t_s := float(row["t_s"])) <= until_s]
    step = -(-len(times) // ROWS) or 1
    states = [qlog.outstanding(run.segments) for run in runs]
    table = [
        [
            f"{t_s:.2f}",
            *map(" | ".join, zip(*map(_Run.cells, runs, [t_s] * 2, states), strict=True)),
        ]
        for t_s in times[::step]
    ]
    yield "\nThe sender with the cause | without it:"
    yield str(tabulate(table, HEAD, tablefmt="plain", disable_numparse=True))


def _segments(folder: Path, link: str) -> tuple[int, list[Segment]]:
    return qlog.segments((folder / capture.name(link)).read_bytes())
