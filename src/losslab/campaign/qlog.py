"""A run's TCP connections as qlog, which qvis draws: window, RTT, bytes in flight, losses.

From what the kernel said of its sockets (tcp.csv) and what the sender's interface saw, its capture.
A data segment on the wire is a packet: sent, then acknowledged, cumulatively or selectively, or
lost when its bytes are sent again. Schema 0.3 in JSON, which qvis and ngtcp2 have, and its events
`packet_sent`, `packet_received`, `packet_lost` and `metrics_updated` (draft-ietf-quic-qlog-main-
schema, draft-ietf-quic-qlog-quic-events).
"""

from __future__ import annotations

import itertools
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from losslab.emulation.capture import FILE_HEADER, RECORD
from losslab.emulation.probes.ping import ECHO_REQUEST, IDENTIFIER
from losslab.emulation.topology import SENDER_ADDRESS
from losslab.errors import LosslabError

IPV4 = 0x0800
ICMP, TCP = 1, 6  # RFC 790
ETHERNET_BYTES = 14
SACK, END, NOTHING = 5, 0, 1  # TCP options, RFC 9293 and RFC 2018
HALF = 1 << 31  # sequence numbers are compared modulo 2^32
# Of a segment's data without TCP's time stamps: Ethernet's 1,500 bytes less 20 of IP, 32 of TCP.
SEGMENT_BYTES = 1448
Event = dict[str, Any]


@dataclass(frozen=True)
class Segment:
    """A TCP segment at the sender's interface."""

    at_ns: int
    sent: bool  # or received
    port: int  # of the sender's end
    begin: int  # of its data's sequence numbers
    octets: int
    acked: int
    sacked: tuple[tuple[int, int], ...] = ()


@dataclass
class _Connection:
    """What of a connection's packets is known at some time."""

    sent: int = 0
    # By number: the data's begin and end. Neither acknowledged nor lost.
    flying: dict[int, tuple[int, int]] = field(default_factory=dict)
    octets: int = 0  # in flight
    highest: int | None = None  # the end of what has been sent at all

    def send(self, segment: Segment) -> Iterator[int]:
        """Take note of a packet; give those that are lost, as their bytes are sent again."""
        begin, end = segment.begin, segment.begin + segment.octets
        if self.highest is not None and _before(begin, self.highest):
            for number, (first, last) in list(self.flying.items()):
                if _before(first, end) and _before(begin, last):
                    self._land(number)
                    yield number
        self.flying[self.sent] = begin, end
        self.octets += segment.octets
        self.sent += 1
        if self.highest is None or _before(self.highest, end):
            self.highest = end

    def acknowledge(self, segment: Segment) -> list[int]:
        """Give the numbers of the packets that a segment acknowledges."""
        found = [
            number
            for number, (begin, end) in self.flying.items()
            if not _before(segment.acked, end)
            or any(not _before(begin, a) and not _before(b, end) for a, b in segment.sacked)
        ]
        for number in found:
            self._land(number)
        return found

    def _land(self, number: int) -> None:
        begin, end = self.flying.pop(number)
        self.octets -= end - begin


def _before(a: int, b: int) -> bool:
    """Tell whether one sequence number comes before another."""
    return 0 < (b - a) % (1 << 32) < HALF


def packets(capture: bytes) -> Iterator[tuple[int, bytes]]:
    """Give the packets of a capture: nanoseconds, and what is kept of the frame.

    Raises LosslabError if it is none of ours.
    """
    if not capture.startswith(FILE_HEADER):
        raise LosslabError("a capture must be a pcap file of losslab's, found another beginning")
    at = len(FILE_HEADER)
    while at < len(capture):
        seconds, nanoseconds, kept, _ = RECORD.unpack_from(capture, at)
        at += RECORD.size
        yield seconds * 1_000_000_000 + nanoseconds, capture[at : at + kept]
        at += kept


def segments(capture: bytes) -> tuple[int, list[Segment]]:
    """Read the capture of the sender's interface.

    Returns the instant in ns that is 0 s in a run's tables, that of the first ping in the traffic,
    and the connections' segments. Raises LosslabError if there is no such ping.
    """
    origins, found = [], []
    sender = bytes(map(int, SENDER_ADDRESS.split(".")))
    for at_ns, frame in packets(capture):
        if struct.unpack_from("!H", frame, 12)[0] != IPV4:
            continue
        header = ETHERNET_BYTES + 4 * (frame[ETHERNET_BYTES] & 0x0F)
        protocol, sent = frame[ETHERNET_BYTES + 9], frame[26:30] == sender
        if protocol == ICMP:
            kind, _, _, identifier, number = struct.unpack_from("!BBHHH", frame, header)
            if (kind, identifier, number) == (ECHO_REQUEST, IDENTIFIER, 0):
                origins.append(at_ns)
        if protocol == TCP:
            end = ETHERNET_BYTES + struct.unpack_from("!H", frame, ETHERNET_BYTES + 2)[0]
            found.append(_segment(at_ns, frame, header, end, sent))
    # The pings on the idle path have numbers of their own.
    if len(origins) < 2:
        raise LosslabError("a capture must have the first ping in the traffic, found none")
    return origins[1], found


def _segment(at_ns: int, frame: bytes, header: int, end: int, sent: bool) -> Segment:
    source, target, begin, acked, size, flags = struct.unpack_from("!HHIIBB", frame, header)
    data = header + 4 * (size >> 4)
    syn = flags & 0x02
    return Segment(
        at_ns, sent, source if sent else target, begin + (1 if syn else 0), end - data, acked,
        () if sent else tuple(_sacked(frame[header + 20 : data])),
    )  # fmt: skip


def _sacked(options: bytes) -> Iterator[tuple[int, int]]:
    """Read the blocks that are acknowledged selectively."""
    at = 0
    while at < len(options) and options[at] != END:
        if options[at] == NOTHING:
            at += 1
            continue
        length = options[at + 1]
        if options[at] == SACK:
            for block in range(at + 2, at + length, 8):
                yield struct.unpack_from("!II", options, block)
        at += max(2, length)


def log(
    title: str, samples: Iterable[Mapping[str, str]], seen: Sequence[Segment], origin_ns: int
) -> dict[str, Any]:
    """Make the log of a run."""
    by_port = defaultdict[int, list[Segment]](list)
    for segment in seen:
        by_port[segment.port].append(segment)
    rows, traces = list(samples), []
    for port in dict.fromkeys(int(row["flow"]) for row in rows):
        of_kernel = [_metrics(row) for row in rows if int(row["flow"]) == port]
        of_wire = _events(by_port[port], origin_ns)
        events = sorted([*of_wire, *of_kernel], key=lambda event: event["time"])
        traces.append(
            {
                "title": f"{title}, TCP from port {port}",
                "vantage_point": {"name": "sender", "type": "server"},
                "common_fields": {
                    "ODCID": f"{port:04x}", "protocol_type": ["TCP"], "time_format": "relative",
                    "reference_time": 0,
                },
                "events": events,
            }
        )  # fmt: skip
    return {"qlog_version": "0.3", "qlog_format": "JSON", "title": title, "traces": traces}


def _metrics(row: Mapping[str, str]) -> Event:
    """Say what the kernel says of a socket; its window is in packets."""
    data: Event = {
        "congestion_window": int(row["cwnd_packets"]) * SEGMENT_BYTES,
        "smoothed_rtt": float(row["srtt_ms"]),
        "rtt_variance": float(row["rttvar_ms"]),
    }
    if row["ssthresh_packets"]:
        data["ssthresh"] = int(row["ssthresh_packets"]) * SEGMENT_BYTES
    if float(row["pacing_mbit"]):
        data["pacing_rate"] = round(float(row["pacing_mbit"]) * 1e6)
    time_ms = round(1e3 * float(row["t_s"]), 6)
    return {"time": time_ms, "name": "recovery:metrics_updated", "data": data}


def _events(seen: Sequence[Segment], origin_ns: int) -> Iterator[Event]:
    """Give what happened on the wire to a connection that has data to send."""
    connection, flying = _Connection(), -1
    for segment in seen:
        time_ms = (segment.at_ns - origin_ns) / 1e6
        if segment.sent and segment.octets > 0:
            for lost in connection.send(segment):
                yield _event(time_ms, "recovery:packet_lost", {"header": _header(lost)})
            data: Event = {
                "header": _header(connection.sent - 1), "raw": {"length": segment.octets},
            }  # fmt: skip
            yield _event(time_ms, "transport:packet_sent", data)
        elif not segment.sent:
            acked = connection.acknowledge(segment)
            if not acked:
                continue
            frame = Event(frame_type="ack", acked_ranges=_ranges(acked))
            data = Event(header=Event(packet_type="1RTT"), frames=[frame])
            yield _event(time_ms, "transport:packet_received", data)
        if connection.octets != flying:
            flying = connection.octets
            yield _event(time_ms, "recovery:metrics_updated", {"bytes_in_flight": flying})


def _event(time_ms: float, name: str, data: Event) -> Event:
    return {"time": time_ms, "name": name, "data": data}


def _header(number: int) -> Event:
    return {"packet_type": "1RTT", "packet_number": number}


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Write ascending numbers as ranges."""
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    found = [[number for _, number in run] for _, run in runs]
    return [[run[0], run[-1]] for run in found]
