"""A run's sender as a packetdrill script: its segments, its acknowledgements, its windows.

packetdrill sends the recorded acknowledgements to a kernel's TCP at the recorded times. It compares
the segments that TCP sends, and their times, with the recorded ones. Syntax:
https://github.com/google/packetdrill/blob/master/syntax.md
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from losslab.campaign import qlog
from losslab.emulation.shaping import FQ_PACKETS
from losslab.reading import UsageError
from losslab.study import features
from losslab.study.axes import NONE
from losslab.study.condition import Condition

FLAGS = {0x01: "F", 0x02: "S", 0x04: "R", 0x08: "P", 0x10: "."}
SYN = 0x02
# Times of another kernel's segments scatter by its timers and by the machine's other load.
TOLERANCE_US = 10_000
# A window is compared only where no packet is as near, because the order is not certain there.
QUIET_US = 1_000
# More data than the script's segments, so that TCP never runs out of it.
MORE_BYTES = 1 << 20
SO_SNDBUFFORCE = 32  # asm-generic/socket.h; packetdrill has no name for it
INFINITE_SSTHRESH = 0x7FFF_FFFF  # TCP_INFINITE_SSTHRESH, net/tcp.h
# Conditions whose sender packetdrill can replace: a single bulk flow in ordinary segments.
FITS = {
    "app": "iperf3", "competitor": NONE, "flows": NONE, "ecn": "off", "offloads": "off",
    "sender_delay_ms": 0.0, "write_kib": 0,
}  # fmt: skip
SYSCTLS = ("tcp_ecn", "tcp_no_metrics_save", "tcp_rmem")


@dataclass(frozen=True)
class Line:
    """A TCP segment of the connection, relative to its initial numbers."""

    at_us: int
    sent: bool
    flags: int
    begin: int
    octets: int
    acked: int
    window: int
    options: str

    def __str__(self) -> str:
        flags = "".join(text for bit, text in FLAGS.items() if self.flags & bit)
        acked = f" ack {self.acked}" if "." in flags else ""
        window = "" if self.sent else f" win {self.window}"
        return (
            f"{'>' if self.sent else '<'} {flags} {self.begin}:{self.begin + self.octets}"
            f"({self.octets}){acked}{window} <{self.options}>"
        )


def script(
    title: str,
    manifest: Mapping[str, Any],
    samples: Sequence[Mapping[str, str]],
    capture: bytes,
    until_s: float,
) -> str:
    """Return the script of a run's flow under test.

    Args:
        title: First line, a comment.
        manifest: The run's manifest.
        samples: Rows of its tcp.csv.
        capture: Capture of the sender's interface.
        until_s: End of the script, on the clock of the run's tables.

    Raises:
        UsageError: packetdrill cannot stand for the run's network.
    """
    condition = Condition.from_json(manifest["cell"])
    require(condition)
    port = next(iter(features.apps()[condition.app].ports))
    origin_ns, _ = qlog.segments(capture)
    begin_ns, segments = _lines(capture, port, origin_ns + round(1e9 * until_s))
    if sum(line.octets for line in segments if not line.sent):
        raise UsageError("a packetdrill script needs a flow whose receiver sends no data")
    lines = [*_merged(segments)]
    first, *data = [line for line in lines if line.sent and line.octets]
    # The first byte has the number 1.
    total = max(line.begin + line.octets for line in lines) - 1 - first.octets + MORE_BYTES
    events = [(line.at_us, str(line)) for line in lines]
    for line, octets in ((first, first.octets), (data[0], total)):
        events.insert(
            events.index((line.at_us, str(line))),
            (line.at_us, f"write(3, ..., {octets}) = {octets}"),
        )
    events += _windows(samples, port, (origin_ns - begin_ns) // 1000, lines)
    events.sort(key=lambda event: event[0])
    sysctls = manifest["plan"]["hosts"]["sender"]["sysctls"]
    words = [f'sysctl -q net.ipv4.{name}="{sysctls[f"net.ipv4.{name}"]}"' for name in SYSCTLS]
    # fq paces what TCP sends; without it, TCP would choose other sizes of segments.
    fq = f"fq limit {FQ_PACKETS} flow_limit {FQ_PACKETS}"
    words.append(
        f"tc qdisc replace dev tun0 root {fq if condition.sender_queue == 'fq' else 'pfifo'}"
    )
    name = condition.algorithm
    return "\n".join(
        [
            f"// {title}",
            f"--tolerance_usecs={TOLERANCE_US}",
            # The flag P depends on the sizes of the program's writes, which no capture shows.
            "--non_fatal=packet",
            f"`{'; '.join(words)}`",
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3",
            f"0 setsockopt(3, SOL_SOCKET, {SO_SNDBUFFORCE}, [{4 * total}], 4) = 0",
            f'0 setsockopt(3, SOL_TCP, TCP_CONGESTION, "{name}", {len(name)}) = 0',
            "0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0",
            "0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)",
            *(f"{at_us / 1e6:.6f} {text}" for at_us, text in events),
            "",
        ]
    )


def require(condition: Condition) -> None:
    """Raise UsageError if packetdrill cannot stand for a condition's network."""
    different = [
        f"{name} {getattr(condition, name)}"
        for name, value in FITS.items()
        if getattr(condition, name) != value
    ]
    if different:
        raise UsageError(
            "a packetdrill script needs a single bulk TCP flow without ECN and offloads, found "
            + ", ".join(different)
        )


def _lines(capture: bytes, port: int, until_ns: int) -> tuple[int, list[Line]]:
    """Return the time of a connection's first segment in ns, and its segments up to a time."""
    begin_ns, found = 0, list[Line]()
    starts: dict[bool, tuple[int, int]] = {}  # initial sequence number and time stamp, by direction
    for at_ns, frame in qlog.packets(capture):
        ip = qlog.ETHERNET_BYTES
        if at_ns > until_ns or frame[12:14] != b"\x08\x00" or frame[ip + 9] != qlog.TCP:
            continue
        at = ip + 4 * (frame[ip] & 0x0F)
        source, target, sequence, acked, size, flags, window = struct.unpack_from(
            "!HHIIBBH", frame, at
        )
        if port not in (source, target):
            continue
        sent, end = source == port, at + 4 * (size >> 4)
        options = [*_options(frame[at + 20 : end])]
        stamps = next((value for kind, value in options if kind == "TS"), (0, 0))
        starts.setdefault(sent, (sequence, stamps[0]))
        begin_ns = begin_ns or at_ns
        own, other = starts[sent], starts.get(not sent, (acked, stamps[1]))
        length = struct.unpack_from("!H", frame, ip + 2)[0] + ip - end
        found.append(
            Line(
                (at_ns - begin_ns) // 1000, sent, flags, _after(sequence, own[0]), length,
                _after(acked, other[0]), window,
                ",".join(_text(kind, value, own[1], other) for kind, value in options),
            )
        )  # fmt: skip
    return begin_ns, found


def _after(number: int, start: int) -> int:
    """Return how far a number is after another, modulo 2^32."""
    return (number - start) % (1 << 32)


def _options(octets: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the TCP options of a header: packetdrill's name and the values."""
    layouts = {2: ("mss", "!H"), 3: ("wscale", "!B"), 4: ("sackOK", "!"), 8: ("TS", "!II")}
    at = 0
    while at < len(octets) and octets[at] != qlog.END:
        kind = octets[at]
        if kind == qlog.NOTHING:
            yield "nop", ()
            at += 1
            continue
        length = octets[at + 1]
        if kind == qlog.SACK:
            yield "sack", struct.unpack_from(f"!{(length - 2) // 4}I", octets, at + 2)
        else:
            name, layout = layouts[kind]
            yield name, struct.unpack_from(layout, octets, at + 2)
        at += length


def _text(kind: str, value: tuple[int, ...], stamp: int, other: tuple[int, int]) -> str:
    """Return an option; numbers of the other direction are relative to `other`."""
    if kind == "TS":
        # A time stamp of 0 means none, so the first is 1.
        echoed = _after(value[1], other[1]) + 1 if value[1] else 0
        return f"TS val {_after(value[0], stamp) + 1} ecr {echoed}"
    if kind == "sack":
        edges = [_after(each, other[0]) for each in value]
        return " ".join(
            ["sack", *(f"{a}:{b}" for a, b in zip(edges[::2], edges[1::2], strict=True))]
        )
    return " ".join([kind, *map(str, value)])


def _merged(lines: Sequence[Line]) -> Iterator[Line]:
    """Merge segments that TCP sent together: packetdrill's device may get them as one packet."""
    last: Line | None = None
    for line in lines:
        if last is not None and _continues(last, line):
            flags, octets = last.flags | line.flags, last.octets + line.octets
            last = replace(last, flags=flags, octets=octets)
            continue
        if last is not None:
            yield last
        last = line
    if last is not None:
        yield last


def _continues(last: Line, line: Line) -> bool:
    """Return whether a data segment was sent together with the one before."""
    same = [(each.at_us, each.sent, each.acked, each.options) for each in (last, line)]
    together = same[0] == same[1] and line.begin == last.begin + last.octets
    return together and line.sent and last.octets > 0 and line.octets > 0


def _windows(
    samples: Sequence[Mapping[str, str]], port: int, offset_us: int, lines: Sequence[Line]
) -> Iterator[tuple[int, str]]:
    """Yield what cwnd and ssthresh must be, where no packet is near."""
    times = [line.at_us for line in lines]
    for row in samples:
        at_us = round(1e6 * float(row["t_s"])) + offset_us
        if row["flow"] != str(port) or not times[0] < at_us < times[-1]:
            continue
        if min(abs(at_us - each) for each in times) < QUIET_US:
            continue
        ssthresh = row["ssthresh_packets"] or INFINITE_SSTHRESH
        yield (
            at_us,
            (
                f"%{{ assert (tcpi_snd_cwnd, tcpi_snd_ssthresh) == "
                f"({row['cwnd_packets']}, {ssthresh}), (tcpi_snd_cwnd, tcpi_snd_ssthresh) }}%"
            ),
        )
