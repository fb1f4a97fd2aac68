"""Time line of one flow's state: its events, phases and rounds, and the places that cases name.

A place is a point (`T+0.5`, `enter UP 2`, `before loss`) or a span, which is a phase (`UP 2`, the
second one; `DOWN after UP`, the first one that follows UP).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from losslab.campaign import state
from losslab.emulation import qlog
from losslab.emulation.apps.quic import SENDER_LOG
from losslab.errors import LosslabError
from losslab.reading import read_rows
from losslab.study import packetsizes, schedule
from losslab.study.axes import NONE
from losslab.study.condition import Condition
from losslab.study.packetsizes import PacketSizes

if TYPE_CHECKING:
    import pandas as pd

Column = np.ndarray[Any, Any]

PHASE = r"[A-Za-z_]\w*(?:-[A-Za-z_]\w*)*"
SPAN = re.compile(rf"(?P<phase>{PHASE})(?: (?P<nth>[1-9]\d*))?(?: after (?P<previous>{PHASE}))?")
# `loss`: the first sample with a loss; `recovery`: the first change of ca_state to recovery or
# loss; `undo`: the first undo. All three are after T.
ANCHOR = rf"T|begin|end|loss|recovery|undo|\d+(?:\.\d+)?|(?:enter|leave) {SPAN.pattern}"
POINT = re.compile(
    rf"(?:(?P<side>before|after) )?(?P<anchor>{ANCHOR})(?P<offset>[+-]\d+(?:\.\d+)?)?"
)
START = next(int(number) for number, name in state.EVENTS.items() if name == "tx_start")
RECOVERY = ("recovery", "loss")
# Times of rows and of T are whole microseconds, so half of one is no time.
HALF_US = 5e-7
# ACKs that are closer together arrive as one batch.
BATCH_S = 1e-4
# Columns of a qlog's metrics, with the factor; None: bytes become packets.
QLOG: dict[str, tuple[str, float | None]] = {
    "congestion_window": ("cwnd_packets", None), "ssthresh": ("ssthresh_packets", None),
    "bytes_in_flight": ("in_flight_packets", None), "smoothed_rtt": ("srtt_ms", 1.0),
    "min_rtt": ("min_rtt_ms", 1.0), "pacing_rate": ("pacing_mbit", 1e-6),
}  # fmt: skip
# Variables of the rate sample, which only ACKs have.
SAMPLED = ("app_limited", "sample_packets", "sample_s", "sample_rtt_ms")


class NotObservableError(Exception):
    """The algorithm has no such phase or variable."""


class NotReachedError(Exception):
    """The run has no such place."""


class Span(NamedTuple):
    """A phase: its name, its time in s, and its first and last row."""

    phase: str
    begin_s: float
    end_s: float
    first: int
    last: int


class Point(NamedTuple):
    """A point: its time in s, the row that has the values there, and the first row from there."""

    at_s: float
    row: int
    first: int


class Window(NamedTuple):
    """Rows from `first` to before `stop`, and the times of both ends in s."""

    first: int
    stop: int
    begin_s: float
    end_s: float


def rows_of(captured: state.Capture, port: int | None) -> pd.DataFrame:
    """Return the rows of the flow under test, from its algorithm's init function on.

    It is the one with the source port, or else the one that delivered most.
    """
    events = captured.events
    if not len(events):
        raise LosslabError("a run must have a TCP connection of its sender, found no event")
    if port not in events["port"]:
        port = events["port"][int(np.argmax(events["delivered"]))]
    flow_events = events[events["port"] == port]
    starts = np.flatnonzero(flow_events["event"] == START)
    flow_events = flow_events[starts[0] if len(starts) else 0 :]
    # At its end, a connection forgets its counters and its private state.
    ends = np.flatnonzero(np.diff(flow_events["delivered"].astype("<i8")) < 0)
    return state.frame(
        captured._replace(events=flow_events[: ends[0] + 1] if len(ends) else flow_events)
    )


def rows_of_qlog(folder: Path) -> pd.DataFrame:
    """Return a row for each event of a QUIC sender's log that says something of its state.

    Bytes become packets of the largest size that it sent. What it does not log has no column.
    """
    import pandas as pd

    events = [*qlog.events(folder / SENDER_LOG)]
    sent = [event.data.get("raw", {}) for event in events if event.name == qlog.SENT]
    packet_bytes = max((int(raw.get("length", 0)) for raw in sent), default=0) or 1
    known: dict[str, Any] = {}
    rows, lost = list[dict[str, Any]](), 0
    for event in events:
        if event.name == qlog.METRICS:
            known |= {
                name: event.data[key] * (scale or 1 / packet_bytes)
                for key, (name, scale) in QLOG.items()
                if key in event.data
            }
        elif event.name == qlog.STATE:
            known["phase"] = str(event.data.get("new", ""))
        elif event.name == qlog.LOST:
            lost += 1
        else:
            continue
        rows.append({"t_s": event.ms / 1e3, "lost_packets": lost} | known)
    if not rows:
        raise LosslabError(f"a QUIC sender must log its state, found no event in {SENDER_LOG}")
    frame = pd.DataFrame(rows)
    if "phase" in known:
        frame["phase"] = frame["phase"].fillna("")
    # The first sample of the table is the first event with metrics, on the run's clock.
    begin_ms = next(event.ms for event in events if event.name == qlog.METRICS)
    frame["t_s"] += float(read_rows(folder / "quic.csv")[0]["t_s"]) - begin_ms / 1e3
    return frame


@dataclass
class Timeline:
    """State of a flow.

    Attributes:
        rows: As from `state.frame`, of this flow only.
        condition: The condition of the run.
        phases: Names of the algorithm's phases.
        groups: Names that stand for several phases.
        interrupts: Phases that may cut off another, so that its end says nothing.
        begin_s: Time `T`, at which the stimulus begins.
        summary: Metrics of the run.
    """

    rows: pd.DataFrame
    condition: Condition
    phases: Sequence[str]
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    interrupts: Sequence[str] = ()
    begin_s: float = 0.0
    summary: Mapping[str, float | None] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        """Return a variable at each row."""
        if name in self._derived:
            return self._derived[name]
        if name not in self.rows.columns:
            raise NotObservableError(f"{self.condition.algorithm} has no {name}")
        return self.rows[name].to_numpy()

    @cached_property
    def _derived(self) -> dict[str, Column]:
        """Variables that follow from others: the rate of the path, BBR's BDP and inflight."""
        # Of a QUIC sender, the size of a packet's headers is not known.
        known = self.condition.trace == NONE and "delivered_packets" in self.rows.columns
        found = self._of_path() if known else {}
        if {"max_bw_mbit", "min_rtt_ms"} <= {*self.rows.columns}:
            per_ms = self.rows["max_bw_mbit"].to_numpy() * 1e3 / 8 / self.sizes.segment_bytes
            found["bdp_packets"] = np.ceil(per_ms * self.rows["min_rtt_ms"].to_numpy())
            # As Linux counts: at the departure of the next packet (bbr_packets_in_net_at_edt).
            gone = np.floor(per_ms * self.rows["departs_ms"].to_numpy())
            found["in_net_packets"] = np.maximum(
                0, self.rows["in_flight_packets"] - gone
            ).to_numpy()
        return found

    def _of_path(self) -> dict[str, Column]:
        """Return the payload's rate on the path, in Mbit/s, and the path's BDP at each row."""
        start = {name: float(getattr(self.condition, name)) for name in schedule.SET}
        phases = schedule.phases(self.condition.changes, start)
        rates = np.array([each.values["rate_mbit"] for each in phases])
        for limit in (self.condition.policer_mbit, self.condition.second_rate_mbit):
            rates = np.minimum(rates, limit or np.inf)
        at = np.searchsorted([each.begin_s for each in phases], self.times, "right") - 1
        rate = rates[at.clip(0)] * self.sizes.payload_share
        rtts_ms = np.array([each.values["rtt_ms"] for each in phases])[at.clip(0)]
        bdp_packets = rate * 1e3 / 8 / self.sizes.segment_bytes * rtts_ms
        return {"rate": rate, "path_bdp_packets": bdp_packets}

    @cached_property
    def sizes(self) -> PacketSizes:
        """Sizes of the path's full packets."""
        return packetsizes.of(self.condition)

    @cached_property
    def times(self) -> Column:
        """Time of each row in s."""
        return self.rows["t_s"].to_numpy()

    @cached_property
    def spans(self) -> list[Span]:
        """The phases, in order."""
        if not self.phases:
            raise NotObservableError(f"{self.condition.algorithm} has no phases")
        names = self.rows["phase"].to_numpy()
        firsts = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist()]
        ends = [*firsts[1:], len(names) - 1]
        return [
            Span(str(names[at]), float(self.times[at]), float(self.times[end]), at,
                 end - 1 if n < len(firsts) - 1 else end)
            for n, (at, end) in enumerate(zip(firsts, ends, strict=True))
        ]  # fmt: skip

    @cached_property
    def round_starts(self) -> list[int]:
        """Rows with which a round begins: an ACK of a packet sent after the last round's begin."""
        acks = np.flatnonzero(self.column("event") == "ack")
        delivered = self.column("delivered_packets")
        prior = delivered - self.column("sample_packets")
        found, until = [], -1.0
        for row in acks.tolist():
            if prior[row] >= until:
                found.append(row)
                until = delivered[row]
        return found

    def members(self, phases: Sequence[str]) -> set[str]:
        """Return the phases that names stand for; NotObservableError if the algorithm has none."""
        found = {each for name in phases for each in (*self.groups.get(name, ()), name)}
        if not found & {*self.phases}:
            algorithm = self.condition.algorithm
            raise NotObservableError(f"{algorithm} has no phase {' or '.join(phases)}")
        return found

    def span(self, text: str) -> Span:
        """Return a span, such as `UP 2` or `DOWN after UP`."""
        match = SPAN.fullmatch(text)
        assert match  # the suite is checked
        wanted = self.members([match["phase"]])
        previous = self.members([match["previous"]]) if match["previous"] else None
        spans = [
            span
            for at, span in enumerate(self.spans)
            if span.phase in wanted
            and (previous is None or (at and self.spans[at - 1].phase in previous))
        ]
        nth = int(match["nth"] or 1)
        if len(spans) < nth:
            raise NotReachedError(f"{text} was not reached")
        return spans[nth - 1]

    def following(self, span: Span) -> Span | None:
        """Return the phase after another; None if the run ends in it."""
        after = self.spans.index(span) + 1
        return self.spans[after] if after < len(self.spans) else None

    def point(self, text: str | float) -> Point:
        """Return a point, such as `T+0.5`, `enter UP 2` or `before loss`."""
        match = POINT.fullmatch(str(text))
        assert match  # the suite is checked
        anchor = self._anchor(match["anchor"])
        if match["offset"]:
            anchor = self._at(anchor.at_s + float(match["offset"]))
        if anchor.at_s > max(self.condition.duration_s, float(self.times[-1])) + HALF_US:
            raise NotReachedError(f"{text} is after the end of the run")
        if match["side"] == "before":
            row = anchor.first - 1
            if row < 0:
                raise NotReachedError(f"nothing is {text}")
            return Point(min(anchor.at_s, float(self.times[row])), row, row)
        if match["side"] == "after":
            row = min(anchor.row + 1, len(self.times) - 1)
            return Point(float(self.times[row]), row, row)
        return anchor

    def _anchor(self, anchor: str) -> Point:
        word, _, rest = anchor.partition(" ")
        if word == "enter":
            span = self.span(rest)
            return Point(span.begin_s, span.first, span.first)
        if word == "leave":
            span = self.span(rest)
            after = self.following(span)
            if after is None or after.phase in self.interrupts:
                what = after.phase if after else "the end of the run"
                raise NotReachedError(f"{what} cut off {rest}")
            return Point(span.end_s, span.last, span.last + 1)
        if word in ("loss", "recovery", "undo"):
            row = self._event(word)
            return Point(float(self.times[row]), row, row)
        fixed = {"T": self.begin_s, "begin": float(self.times[0]), "end": float(self.times[-1])}
        return self._at(fixed[word] if word in fixed else float(word))

    def _at(self, at_s: float) -> Point:
        first = int(np.searchsorted(self.times, at_s - HALF_US, "left"))
        row = int(np.searchsorted(self.times, at_s + HALF_US, "right")) - 1
        return Point(at_s, max(row, 0), first)

    def _event(self, name: str) -> int:
        """Return the row of an anchor that is an event."""
        if name == "loss":
            lost = self.column("lost_packets").astype("<i8")
            its = np.diff(lost, prepend=lost[0]) > 0
        elif name == "undo":
            its = self.column("event") == "undo"
        else:
            states = self.column("ca_state")
            before = np.concatenate([["open"], states[:-1]])
            its = np.isin(states, RECOVERY) & ~np.isin(before, RECOVERY)
        rows = np.flatnonzero(its & (self.times >= self.begin_s - HALF_US))
        if not len(rows):
            raise NotReachedError(f"no {name} after {self.begin_s:.6g} s")
        return int(rows[0])

    def window(self, check: Mapping[str, Any]) -> Window:
        """Return the window of a check: `during` a span, or between `from` and `to`.

        `seconds` and `rounds` limit it.
        """
        if "during" in check:
            span = self.span(check["during"])
            return Window(span.first, span.last + 1, span.begin_s, span.end_s)
        begin, end = self.point(check.get("from", "begin")), self.point(check.get("to", "end"))
        stop, end_s = end.first + (check.get("to", "end") == "end"), end.at_s
        if (limit := self.limit(check, begin)) is not None:
            stop, end_s = min((stop, end_s), (self._at(limit).first, limit))
        if stop < begin.first:
            raise NotReachedError(f"{check.get('to')} is before {check.get('from')}")
        return Window(begin.first, stop, begin.at_s, end_s)

    def limit(self, check: Mapping[str, Any], begin: Point) -> float | None:
        """Return the time in s of a check's limit of `seconds` or `rounds`; None without any."""
        limits = [begin.at_s + check["seconds"]] if "seconds" in check else []
        if "rounds" in check:
            starts = [row for row in self.round_starts if row > begin.row]
            wanted = check["rounds"]
            limits.append(float(self.times[starts[wanted]]) if len(starts) > wanted else np.inf)
        return min(limits) if limits else None

    def total(self, name: str, window: Window) -> float:
        """Return a total over a window."""
        length_s = window.end_s - window.begin_s

        def moved(column: str) -> float:
            counts = self.column(column).astype("<i8")
            return float(counts[max(window.stop - 1, 0)] - counts[max(window.first - 1, 0)])

        packet_mbit = self.sizes.segment_bytes * 8 / 1e6
        if name in ("lost_packets", "delivered_packets"):
            return moved(name)
        if name == "lost_share":
            delivered = moved("delivered_packets")
            return moved("lost_packets") / delivered if delivered else np.inf
        if name == "goodput_mbit":
            return moved("delivered_packets") * packet_mbit / length_s if length_s else 0.0
        if name == "rounds":
            return sum(window.first < row < window.stop for row in self.round_starts)
        if name == "batch_acks":
            return self._batch(window)
        return {"seconds": length_s, "events": window.stop - window.first}[name]

    def _batch(self, window: Window) -> float:
        """Return the largest number of ACKs that arrive at once."""
        acks = (self.column("event") == "ack")[window.first : window.stop]
        times = self.times[window.first : window.stop][acks]
        breaks = np.flatnonzero(np.diff(times, prepend=-np.inf, append=np.inf) > BATCH_S)
        return int(np.diff(breaks).max()) if len(times) else 0
