"""First divergence of two replicates: the first packet and the first sample that differ."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from losslab.campaign import packets, rerun
from losslab.campaign.packets import Segment
from losslab.reading import read_rows

# Packets shown before the first that differs, and after it.
BEFORE, AFTER = 3, 2
DIGITS = 8  # of a frame's digest
TABLES = ("tcp.csv", "queue.csv", "ping.csv")


def report(first: Path, second: Path, trusted: bool) -> tuple[list[str], bool]:
    """Return where two replicates part, as lines, and whether they do.

    A run without a capture is measured again. Raises LosslabError if a run
    cannot be measured again.
    """
    lines = packet_lines(*(_packets(folder, trusted) for folder in (first, second)))
    sample = sample_line(first, second)
    if not lines and not sample:
        return ["A and B have the same packets and samples"], False
    lines = lines or ["all packets on the sender's link are the same"]
    return [*lines, sample or "all samples are the same"], True


def packet_lines(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the first packet that differs, and those around it; empty if all are the same."""
    at = next((n for n, (a, b) in enumerate(zip_longest(one, other)) if a != b), None)
    if at is None:
        return []
    lines = [f"packet {at + 1} on the sender's link differs:"]
    lines += [f"  both  {line}" for line in one[max(0, at - BEFORE) : at]]
    for name, its in (("A", one), ("B", other)):
        rest = its[at : at + 1 + AFTER] or ["no further packet"]
        lines += [f"  {name}     {line}" for line in rest]
    return lines


def sample_line(first: Path, second: Path) -> str:
    """Describe the earliest difference of the tables of samples; "" if all are the same."""
    found = []
    nothing: Mapping[str, str] = {}
    for table in TABLES:
        rows = [read_rows(folder / table) for folder in (first, second)]
        for a, b in zip_longest(*rows, fillvalue=nothing):
            if a != b:
                column = next(name for name in (a or b) if a.get(name) != b.get(name))
                values = [row.get(column) or "nothing" for row in (a, b)]
                t_s = float((a or b)["t_s"])
                text = f"{table}: {column} at {t_s:.6f} s is {values[0]} in A, {values[1]} in B"
                found.append((t_s, text))
                break
    return min(found, default=(0.0, ""))[1]


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
