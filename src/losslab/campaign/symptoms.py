"""Symptoms of a replicate, of which `losslab why` finds the cause, and how the cause acts.

An explanation reads the captures of the runs with and without the cause (see `capturing`), and
their samples in tcp.csv.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from losslab.campaign import qlog, rerun
from losslab.campaign.capturing import BEFORE_LOSS
from losslab.campaign.export import SENDERS_LINK
from losslab.campaign.futures import Drop, Future, drops_of
from losslab.campaign.qlog import Segment
from losslab.emulation import capture
from losslab.errors import LosslabError
from losslab.reading import UsageError, read_rows
from losslab.study import metrics
from losslab.study.condition import Condition
from losslab.study.metrics import Summary

# A future has the symptom if this share of the original remains: of a stall's length, or of the
# metric's difference from a run without any drop.
SAME = 0.8
# A future's stall may begin and end this much later than the original.
LATER_S = 0.5
# Shorter times without delivered data occur without any loss, such as in slow start.
MIN_STALL_RTTS, MIN_STALL_S = 3, 0.1
# Length of the window in which `--below` compares goodput: a second, or more on long paths.
MIN_WINDOW_S, WINDOW_RTTS = 1.0, 10
COUNTER = "TcpExtTCPTimeouts"
# Rows of the table, and the time that it shows before the cause's first packet.
ROWS, BEFORE_S = 12, 0.1
# The clocks of captures and of tables begin some microseconds apart.
SAME_S = 1e-4
# TCP_RTO_MIN of Linux (net/tcp.h).
RTO_MIN_MS = 200.0
HEAD = ("t (s)", "delivered (kB)", "cwnd", "ssthresh", "RTO (ms)", "outstanding", "retransmits")


@dataclass(frozen=True)
class Symptom:
    """A symptom of a replicate, and whether a future has it.

    Attributes:
        text: Description for a terminal.
        begin_s: Time before which the replicate is cut.
        until_s: Time by which a future has the symptom, if it has it.
        shows: Whether the first future has it; the second is the one without any drop after the
            same cut.
    """

    text: str
    begin_s: float
    until_s: float
    shows: Callable[[Future, Future], bool]


@dataclass(frozen=True)
class Stall:
    """A time in which a flow delivered nothing."""

    begin_s: float
    length_s: float

    @property
    def until_s(self) -> float:
        """Time by which a future has the same stall, if it has it."""
        return self.begin_s + self.length_s + LATER_S

    def remains(self, folder: Path, after_s: float) -> bool:
        """Return whether a replicate has a stall after a time that is almost as long."""
        found = longest_stall(folder, after_s, self.begin_s + LATER_S)
        return found.length_s >= SAME * self.length_s


def stall(folder: Path, condition: Condition) -> Symptom:
    """Return a replicate's longest stall; UsageError if it is too short to be one."""
    found = longest_stall(folder, end_s=condition.duration_s)
    min_s = min_stall_s(condition)
    if found.length_s < min_s:
        raise UsageError(
            f"the run must have a stall of at least {min_s:g} s, {MIN_STALL_RTTS} RTTs, found at "
            f"most {found.length_s:.3f} s without delivered data"
        )
    text = f"stall of {found.length_s:.3f} s at {found.begin_s:.3f} s"
    return Symptom(
        text, found.begin_s, found.until_s,
        lambda future, _: found.remains(future.folder, future.at_s),
    )  # fmt: skip


def min_stall_s(condition: Condition) -> float:
    """Return the shortest time without delivered data that is a stall."""
    return max(MIN_STALL_S, MIN_STALL_RTTS * condition.rtt_ms / 1e3)


def timeout(folder: Path, condition: Condition, manifest: Mapping[str, Any]) -> Symptom:
    """Return a replicate's timeout, at its longest stall's time; UsageError without any."""
    if not timeouts(manifest):
        raise UsageError("the run must have a retransmission timeout, found none")
    around = longest_stall(folder, end_s=condition.duration_s)
    return Symptom(
        "timeout after the cut", around.begin_s, around.until_s,
        lambda future, spared: timeouts(future.manifest) > timeouts(spared.manifest),
    )  # fmt: skip


def slow(folder: Path, condition: Condition, limit_mbit: float) -> Symptom:
    """Return the slowest window of a replicate's largest flow after the warm-up.

    Raises UsageError if its goodput is not below the limit.
    """
    window_s = max(MIN_WINDOW_S, WINDOW_RTTS * condition.rtt_ms / 1e3)
    first_s, last_s = condition.warmup_s, condition.duration_s - window_s
    delivered = _delivered(folder)
    begins = [t_s for t_s, _ in delivered if first_s <= t_s <= last_s]
    if not begins:
        raise UsageError(
            f"the run must last {window_s:g} s after its warm-up, found "
            f"{condition.duration_s - condition.warmup_s:g} s"
        )
    goodputs = {t_s: _rate_mbit(delivered, t_s, window_s) for t_s in begins}
    begin_s = min(begins, key=goodputs.__getitem__)
    until_s = begin_s + window_s
    if goodputs[begin_s] >= limit_mbit:
        raise UsageError(
            f"a window of {window_s:g} s must have a goodput below {limit_mbit:g} Mbit/s, found at "
            f"least {goodputs[begin_s]:.3g}"
        )
    return Symptom(
        f"{goodputs[begin_s]:.3g} Mbit/s from {begin_s:.3f} to {until_s:.3f} s, below "
        f"{limit_mbit:g} Mbit/s",
        begin_s, until_s,
        lambda future, _: _rate_mbit(_delivered(future.folder), begin_s, window_s) < limit_mbit,
    )  # fmt: skip


def worse(name: str, recorded: Summary, lossless: Summary, end_s: float) -> Symptom:
    """Return a metric that is worse than in the same run without any drop, from 0 s to its end.

    Raises UsageError if the metric has no better direction, or is not worse.
    """
    metrics.require_declared(name, [recorded])
    found, without = (metrics.value(each, name) for each in (recorded, lossless))
    better = metrics.declared()[name].better
    if found is None or without is None or better not in ("more", "less"):
        raise UsageError(
            f"--metric must be a number of which more or less is better, found {name}: {found}, "
            f"and {without} without any drop"
        )
    difference = found - without
    if difference * (1 if better == "less" else -1) <= 0:
        raise UsageError(
            f"--metric must be worse than without any drop, found {name} {found:.4g}, and "
            f"{without:.4g} without any drop"
        )

    def shows(future: Future, _: Future) -> bool:
        value = metrics.value(future.manifest["summary"], name)
        return value is not None and (value - without) / difference >= SAME

    title = metrics.declared()[name].title
    return Symptom(f"{title} {found:.4g}, without any drop {without:.4g}", 0.0, end_s, shows)


def longest_stall(
    folder: Path, from_s: float = 0.0, until_s: float = math.inf, end_s: float = math.inf
) -> Stall:
    """Return the longest stall of a replicate's largest flow.

    It begins between `from_s` and `until_s`, and ends at `end_s` at the latest. Raises LosslabError
    if the replicate has no TCP connection.
    """
    last: tuple[float, int] | None = None
    longest = Stall(from_s, 0.0)
    for t_s, delivered in _delivered(folder):
        if t_s > end_s:
            break
        if not delivered:
            continue  # before the first data
        if last is None or delivered != last[1]:
            if last and from_s <= last[0] <= until_s and t_s - last[0] > longest.length_s:
                longest = Stall(last[0], t_s - last[0])
            last = t_s, delivered
    return longest


def _rate_mbit(delivered: Sequence[tuple[float, int]], begin_s: float, window_s: float) -> float:
    """Return the goodput of a flow in a window, given its delivered bytes by time."""
    places = (
        bisect.bisect_right(delivered, t_s, key=lambda each: each[0]) - 1
        for t_s in (begin_s, begin_s + window_s)
    )
    first, last = (delivered[at][1] if at >= 0 else 0 for at in places)
    return (last - first) * 8 / 1e6 / window_s


def _delivered(folder: Path) -> list[tuple[float, int]]:
    """Return the bytes that a replicate's largest flow had delivered, by time."""
    return [(float(row["t_s"]), int(row["delivered_bytes"])) for row in samples(folder)]


def samples(folder: Path) -> list[dict[str, str]]:
    """Return the rows of tcp.csv of the flow that delivered most."""
    rows = read_rows(folder / "tcp.csv")
    delivered = {row["flow"]: int(row["delivered_bytes"]) for row in rows}
    if not delivered:
        raise LosslabError("the run must have a TCP connection of its sender, found none")
    flow = max(delivered, key=delivered.__getitem__)
    return [row for row in rows if row["flow"] == flow]


def timeouts(manifest: Mapping[str, Any]) -> int:
    """Return the number of retransmission timeouts of the sender."""
    return int(manifest["observed"]["state"]["sender"]["counters"].get(COUNTER, 0))


# Explanation of a cause


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
        segments = qlog.by_flow(segments, Condition.from_json(rerun.load_manifest(folder)["cell"]))
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


def dropped_packets(folder: Path, cause: Sequence[Drop]) -> Iterator[str]:
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


def explanation(
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
            f"timeouts: {timeouts(rerun.load_manifest(run.folder))}, {span}"
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
