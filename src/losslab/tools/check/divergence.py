"""Command `divergence`: the first packet, sample and captured state in which two runs differ."""

from __future__ import annotations

import argparse
import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from losslab.campaign import packets, rerun, state
from losslab.campaign.packets import SENDERS_LINK, Segment
from losslab.emulation import capture
from losslab.reading import read_rows
from losslab.runs import command as tests
from losslab.runs import inguest
from losslab.study.packetsizes import ETHERNET_BYTES

# Packets shown before the first that differs, and after it.
BEFORE, AFTER = 3, 2
DIGITS = 8  # of a frame's digest
TABLES = ("tcp.csv", "queue.csv", "ping.csv")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `divergence`."""
    command = commands.add_parser("divergence")
    command.add_argument("first", type=Path, help="folder of a run")
    command.add_argument("second", type=Path, help="folder of a run to compare with")
    command.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    command.set_defaults(run=_divergence)


def _divergence(options: argparse.Namespace) -> int:
    runs = options.first, options.second
    lines = [*differences(*runs, options.trust), *state_lines(*runs)]
    print("\n".join(lines or ["A and B have the same packets and samples"]))
    return int(bool(lines))


def differences(first: Path, second: Path, trusted: bool) -> list[str]:
    """Return the first packet and the first sample in which two runs differ; empty if none does.

    A run without a capture is measured again. Of two seeds, only the packets are compared, because
    each sample differs: by what they carry, and by their times if nothing else differs.
    """
    if len({rerun.load_manifest(folder)["seed"] for folder in (first, second)}) > 1:
        sides = [_named(folder, trusted) for folder in (first, second)]
        return tests.first_difference(sides, "packet {} on the sender's link")
    lines = packet_lines(*(_packets(folder, trusted) for folder in (first, second)))
    sample = sample_line(first, second)
    if not lines and not sample:
        return []
    lines = lines or ["all packets on the sender's link are the same"]
    return [*lines, sample or "all samples are the same"]


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
    """Describe the packets on the sender's link: of TCP the segments, or else all frames."""
    manifest = rerun.load_manifest(folder)
    with packets.captured(folder, manifest, SENDERS_LINK, trusted) as path:
        content = path.read_bytes()
    origin_ns, found = packets.segments(content)
    return [described(segment, origin_ns) for segment in found] or [
        f"{(at_ns - origin_ns) / 1e9:.9f} s {len(frame)} captured bytes, SHA-256 "
        f"{hashlib.sha256(frame).hexdigest()[:DIGITS]}"
        for at_ns, frame in packets.packets(content)
    ]


def _named(folder: Path, trusted: bool) -> list[str]:
    """Describe the TCP and UDP packets on the sender's link, with names for what a seed draws.

    Each line has the time in s, a tab, and the packet.
    """
    with packets.captured(folder, rerun.load_manifest(folder), SENDERS_LINK, trusted) as path:
        return [*named_packets(path.read_bytes())]


def named_packets(content: bytes) -> Iterator[str]:
    """Yield the lines of a capture's TCP and UDP packets; ports and sequence numbers are counted.

    Two runs with other seeds then have the same lines until the programs or the path differ.
    """
    origin_ns, _ = packets.segments(content)
    names = inguest.Names()
    for at_ns, frame in packets.packets(content):
        (kind,) = struct.unpack_from("!H", frame, 12)
        packet = frame[ETHERNET_BYTES:]
        if kind == inguest.IPV4:
            octets, protocol = struct.unpack_from("!H", packet, 2)[0], packet[9]
        elif kind == inguest.IPV6:
            octets, protocol = 40 + struct.unpack_from("!H", packet, 4)[0], packet[6]
        else:
            continue
        if protocol in (inguest.TCP, inguest.UDP):
            text = names.packet(packet, octets, kind)
            yield f"{(at_ns - origin_ns) / 1e9:.9f}\t{text}"


def described(segment: Segment, origin_ns: int) -> str:
    """Describe a segment; its time is since the origin of the tables."""
    way = "sent" if segment.sent else "received"
    sacked = "".join(f" SACK {begin}-{end}" for begin, end in segment.sacked)
    return (
        f"{(segment.at_ns - origin_ns) / 1e9:.9f} s {way} port {segment.port} seq {segment.begin} "
        f"length {segment.octets} ack {segment.acked}{sacked}"
    )


def state_lines(first: Path, second: Path) -> list[str]:
    """Describe the first event, by its number, at which the captured states of two runs differ.

    Both must have captured it.
    """
    files = [folder / capture.name(capture.STATE) for folder in (first, second)]
    if not all(file.is_file() for file in files):
        return []
    frames = [state.frame(state.read(file)) for file in files]
    variables = [each for each in frames[0] if each in frames[1] and each not in state.COLUMNS]
    count = min(map(len, frames))
    differences = []
    for name in variables:
        a, b = (rows[name].iloc[:count] for rows in frames)
        differing = ((a != b) & ~(a.isna() & b.isna())).to_numpy().nonzero()[0]
        differences += [(int(differing[0]), name)] if len(differing) else []
    if not differences:
        return []
    at, name = min(differences, key=lambda each: (each[0], variables.index(each[1])))
    values = [f"{rows[name].iloc[at]} at {rows['t_s'].iloc[at]:.6f} s" for rows in frames]
    return [f"state: {name} at event {at + 1} is {values[0]} in A, {values[1]} in B"]
