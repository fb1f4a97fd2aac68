"""A run's TCP connections as qlog for qvis: congestion window, RTT, bytes in flight, losses.

The data come from samples of the kernel's sockets (tcp.csv) and from the capture of the sender's
interface. Each data segment is a packet, which is sent and later acknowledged (cumulatively or
selectively) or lost, when its bytes are retransmitted. The format is qlog 0.3 in JSON, which qvis
and ngtcp2 support, with the events `packet_sent`, `packet_received`, `packet_lost` and
`metrics_updated` (draft-ietf-quic-qlog-main-schema, draft-ietf-quic-qlog-quic-events).
"""

from __future__ import annotations

import itertools
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from losslab.emulation.capture import FILE_HEADER, RECORD
from losslab.emulation.probes import ECHO_REQUEST, IDENTIFIER
from losslab.emulation.topology import SENDER_ADDRESS
from losslab.errors import LosslabError
from losslab.study.condition import Condition

IPV4 = 0x0800
ICMP, TCP = 1, 6  # RFC 790
ETHERNET_BYTES = 14
SACK, END, NOTHING = 5, 0, 1  # TCP options, RFC 9293 and RFC 2018
HALF = 1 << 31  # sequence numbers are compared modulo 2^32
# Data of a full segment: Ethernet's 1,500 bytes less 20 of IP and 32 of TCP with time stamps.
SEGMENT_BYTES = 1448
Event = dict[str, Any]


@dataclass(frozen=True)
class Segment:
    """A TCP segment at the sender's interface."""

    at_ns: int
    sent: bool  # False: received
    port: int  # the sender's port
    begin: int  # first sequence number of the data
    octets: int
    acked: int
    sacked: tuple[tuple[int, int], ...] = ()
    remote_port: int = 0


@dataclass
class _Connection:
    """The state of a connection's packets at a time."""

    sent: int = 0
    # Packets in flight, neither acknowledged nor lost: number, and begin and end of the data.
    in_flight: dict[int, tuple[int, int]] = field(default_factory=dict)
    octets: int = 0  # in flight
    highest: int | None = None  # end of the data sent so far

    def send(self, segment: Segment) -> Iterator[int]:
        """Add a packet; yield the packets that are lost, because it retransmits their bytes."""
        begin, end = segment.begin, segment.begin + segment.octets
        if self.highest is not None and _before(begin, self.highest):
            for number, (first, last) in list(self.in_flight.items()):
                if _before(first, end) and _before(begin, last):
                    self._remove(number)
                    yield number
        self.in_flight[self.sent] = begin, end
        self.octets += segment.octets
        self.sent += 1
        if self.highest is None or _before(self.highest, end):
            self.highest = end

    def acknowledge(self, segment: Segment) -> list[int]:
        """Remove the packets that a segment acknowledges; return their numbers."""
        found = [
            number
            for number, (begin, end) in self.in_flight.items()
            if not _before(segment.acked, end)
            or any(not _before(begin, a) and not _before(b, end) for a, b in segment.sacked)
        ]
        for number in found:
            self._remove(number)
        return found

    def _remove(self, number: int) -> None:
        begin, end = self.in_flight.pop(number)
        self.octets -= end - begin


def _before(a: int, b: int) -> bool:
    """Return whether a sequence number comes before another, modulo 2^32."""
    return 0 < (b - a) % (1 << 32) < HALF


def packets(capture: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the packets of a capture: the time in ns, and the captured part of the frame.

    Raises LosslabError if the capture does not have losslab's pcap header.
    """
    if not capture.startswith(FILE_HEADER):
        raise LosslabError("a capture must be a pcap file written by losslab, found another header")
    at = len(FILE_HEADER)
    while at < len(capture):
        seconds, nanoseconds, kept, _ = RECORD.unpack_from(capture, at)
        at += RECORD.size
        yield seconds * 1_000_000_000 + nanoseconds, capture[at : at + kept]
        at += kept


def segments(capture: bytes) -> tuple[int, list[Segment]]:
    """Read the TCP segments of all connections from a capture of the sender's interface.

    Also returns the time in ns that is 0 s in the run's tables, that of the first ping during the
    traffic. Raises LosslabError if the capture has no such ping.
    """
    origin_ns, found = _traffic(capture)
    return origin_ns, [segment for _, segment in found if segment is not None]


def by_flow(found: Iterable[Segment], condition: Condition) -> list[Segment]:
    """Return segments with the port that tcp.csv has in its column flow.

    Connections of a server of the app `command` share the sender's port.
    """
    remote = condition.listens == "sender"
    return [replace(each, port=each.remote_port) if remote else each for each in found]


def sent(capture: bytes) -> tuple[int, list[Segment | None]]:
    """Read the sender's packets of the traffic; None for those that are not TCP.

    The time and the error are those of `segments`. Pings on the idle path are before the traffic.
    """
    origin_ns, found = _traffic(capture)
    own = [(at_ns, segment) for at_ns, segment in found if segment is None or segment.sent]
    first = next(n for n, (at_ns, its) in enumerate(own) if its is not None or at_ns >= origin_ns)
    return origin_ns, [segment for _, segment in own[first:]]


def _traffic(capture: bytes) -> tuple[int, list[tuple[int, Segment | None]]]:
    """Return the origin of `segments`, and all TCP segments and the sender's other packets."""
    origins, found = [], list[tuple[int, Segment | None]]()
    sender = bytes(map(int, SENDER_ADDRESS.split(".")))
    for at_ns, frame in packets(capture):
        if struct.unpack_from("!H", frame, 12)[0] != IPV4:
            continue
        header = ETHERNET_BYTES + 4 * (frame[ETHERNET_BYTES] & 0x0F)
        protocol, own = frame[ETHERNET_BYTES + 9], frame[26:30] == sender
        if protocol == ICMP:
            kind, _, _, identifier, number = struct.unpack_from("!BBHHH", frame, header)
            if (kind, identifier, number) == (ECHO_REQUEST, IDENTIFIER, 0):
                origins.append(at_ns)
        if protocol == TCP:
            end = ETHERNET_BYTES + struct.unpack_from("!H", frame, ETHERNET_BYTES + 2)[0]
            found.append((at_ns, _segment(at_ns, frame, header, end, own)))
        elif own:
            found.append((at_ns, None))
    # The first origin is that of the pings on the idle path.
    if len(origins) < 2:
        raise LosslabError("a capture must contain the first ping of the traffic, found none")
    return origins[1], found


def _segment(at_ns: int, frame: bytes, header: int, end: int, sent: bool) -> Segment:
    source, target, begin, acked, size, flags = struct.unpack_from("!HHIIBB", frame, header)
    data = header + 4 * (size >> 4)
    syn = flags & 0x02
    return Segment(
        at_ns, sent, source if sent else target, begin + (1 if syn else 0), end - data, acked,
        () if sent else tuple(_sacked(frame[header + 20 : data])), target if sent else source,
    )  # fmt: skip


def _sacked(options: bytes) -> Iterator[tuple[int, int]]:
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


def outstanding(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """Return a connection's packets in flight, neither acknowledged nor sent again, by ns."""
    connection, found = _Connection(), list[tuple[int, int]]()
    for segment in segments:
        if segment.sent and segment.octets > 0:
            list(connection.send(segment))
        elif not segment.sent:
            connection.acknowledge(segment)
        found.append((segment.at_ns, len(connection.in_flight)))
    return found


def log(
    title: str,
    samples: Iterable[Mapping[str, str]],
    segments: Sequence[Segment],
    origin_ns: int,
    names: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return a run's qlog from the rows of tcp.csv and the captured segments.

    `names` are those of the connections that carry data, by source port as in tcp.csv. Their traces
    come first: qvis opens the first one. The others control the app's programs.
    """
    by_port = defaultdict[int, list[Segment]](list)
    for segment in segments:
        by_port[segment.port].append(segment)
    rows, traces = list(samples), []
    ports = dict.fromkeys(int(row["flow"]) for row in rows)
    for port in sorted(ports, key=lambda port: str(port) not in names):
        what = f"data of the flow {names[str(port)]}" if str(port) in names else "control"
        socket_events = [_metrics(row) for row in rows if int(row["flow"]) == port]
        packet_events = _events(by_port[port], origin_ns)
        events = sorted([*packet_events, *socket_events], key=lambda event: event["time"])
        traces.append(
            {
                "title": f"{what}, TCP port {port}, {title}",
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
    """Return the event of a row of tcp.csv, with windows in bytes."""
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


def _events(segments: Sequence[Segment], origin_ns: int) -> Iterator[Event]:
    connection, in_flight = _Connection(), -1
    for segment in segments:
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
        if connection.octets != in_flight:
            in_flight = connection.octets
            yield _event(time_ms, "recovery:metrics_updated", {"bytes_in_flight": in_flight})


def _event(time_ms: float, name: str, data: Event) -> Event:
    return {"time": time_ms, "name": name, "data": data}


def _header(number: int) -> Event:
    return {"packet_type": "1RTT", "packet_number": number}


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Convert ascending numbers to ranges."""
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    found = [[number for _, number in run] for _, run in runs]
    return [[run[0], run[-1]] for run in found]
