"""First divergence of two replicates: the first packet and the first state variable that differ."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from losslab.campaign import packets, rerun
from losslab.campaign.packets import Segment
from losslab.reading import read_rows

# Packets shown before the first that differs, and after it.
BEFORE, AFTER = 3, 2
DIGITS = 8  # of a frame's digest
TABLES = ("tcp.csv", "queue.csv", "ping.csv")


@dataclass(frozen=True)
class StateDivergence:
    """First difference of two tables."""

    table: str
    t_s: float
    column: str
    values: tuple[str, str]  # empty if a table ends before

    def line(self) -> str:
        """Format for a terminal."""
        a, b = (value or "nothing" for value in self.values)
        return f"{self.table}: {self.column} at {self.t_s:.6f} s is {a} in A, {b} in B"


@dataclass(frozen=True)
class PacketDivergence:
    """First packet that differs on the sender's link; times since the origin of the tables."""

    number: int  # from 1
    before: tuple[str, ...]  # the last packets that both have
    after: tuple[tuple[str, ...], tuple[str, ...]]  # the next packets of each

    def lines(self) -> Iterator[str]:
        """Format for a terminal."""
        yield from (f"  both  {line}" for line in self.before)
        for name, lines in zip("AB", self.after, strict=True):
            yield from (f"  {name}     {line}" for line in lines or ["no further packet"])


def of_packets(first: Path, second: Path, trusted: bool) -> PacketDivergence | None:
    """Return the first packet that differs; None if all are the same.

    A run without a capture is measured again. Raises LosslabError if a run
    cannot be measured again.
    """
    one, other = (_packets(folder, trusted) for folder in (first, second))
    return first_packet(one, other)


def first_packet(one: Sequence[str], other: Sequence[str]) -> PacketDivergence | None:
    """Return the first difference of two lists of packets; None if they are the same."""
    for at, (a, b) in enumerate(zip_longest(one, other)):
        if a != b:
            rest = tuple(tuple(each[at : at + 1 + AFTER]) for each in (one, other))
            return PacketDivergence(
                at + 1, tuple(one[max(0, at - BEFORE) : at]), (rest[0], rest[1])
            )
    return None


def _packets(folder: Path, trusted: bool) -> list[str]:
    manifest = rerun.load_manifest(folder)
    with packets.captured(folder, manifest, packets.SENDERS_LINK, trusted) as path:
        content = path.read_bytes()
    origin_ns, segments = packets.segments(content)
    if segments:
        return [described(segment, origin_ns) for segment in segments]
    # Without TCP, any packets, such as QUIC's.
    return [frame_text(at_ns - origin_ns, frame) for at_ns, frame in packets.packets(content)]


def frame_text(at_ns: int, frame: bytes) -> str:
    """Describe a captured frame; its time is since the origin of the tables."""
    digest = hashlib.sha256(frame).hexdigest()[:DIGITS]
    return f"{at_ns / 1e9:.9f} s {len(frame)} captured bytes, SHA-256 {digest}"


def described(segment: Segment, origin_ns: int) -> str:
    """Describe a segment; its time is since the origin of the tables."""
    way = "sent" if segment.sent else "received"
    sacked = "".join(f" SACK {begin}-{end}" for begin, end in segment.sacked)
    return (
        f"{(segment.at_ns - origin_ns) / 1e9:.9f} s {way} port {segment.port} seq {segment.begin} "
        f"length {segment.octets} ack {segment.acked}{sacked}"
    )


def of_state(first: Path, second: Path) -> StateDivergence | None:
    """Return the earliest difference of the tables of samples; None if all are the same."""
    found = []
    for table in TABLES:
        rows = [read_rows(folder / table) for folder in (first, second)]
        difference = first_row(table, *rows)
        found += [difference] if difference is not None else []
    return min(found, key=lambda each: each.t_s, default=None)


def first_row(
    table: str, one: Sequence[Mapping[str, str]], other: Sequence[Mapping[str, str]]
) -> StateDivergence | None:
    """Return the first difference of two tables with a column `t_s`; None if they are the same."""
    nothing: Mapping[str, str] = {}
    for a, b in zip_longest(one, other, fillvalue=nothing):
        if a != b:
            column = next(name for name in (a or b) if a.get(name) != b.get(name))
            values = a.get(column, ""), b.get(column, "")
            return StateDivergence(table, float((a or b)["t_s"]), column, values)
    return None


def report(first: Path, second: Path, trusted: bool) -> tuple[list[str], bool]:
    """Return where two replicates part, as lines, and whether they do."""
    packets, state = of_packets(first, second, trusted), of_state(first, second)
    if packets is None and state is None:
        return ["A and B have the same packets and samples"], False
    lines = ["all packets on the sender's link are the same"]
    if packets is not None:
        lines = [f"packet {packets.number} on the sender's link differs:", *packets.lines()]
    lines.append("all samples are the same" if state is None else state.line())
    return lines, True
