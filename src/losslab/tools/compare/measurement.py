"""Readers of other tools' measurements: iperf3's JSON, flent's files, captures and CSV files.

Each reader returns the same few values, and the reason for each that its file does not have.
"""

from __future__ import annotations

import gzip
import itertools
import math
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median_low
from typing import Any

from losslab import reading
from losslab.reading import GZIP, RESULT_BYTES, UsageError, number, read_bytes, read_rows, shown
from losslab.study.schemas import check_schema

PCAPNG = b"\x0a\x0d\x0d\x0a"
# First word of a capture in either byte order, and its ticks per second.
PCAP = {
    struct.pack(f"{order}I", magic): (order, ticks)
    for order in "<>"
    for magic, ticks in ((0xA1B2C3D4, 1_000_000), (0xA1B23C4D, 1_000_000_000))
}
FILE_HEADER_BYTES, PACKET_BYTES = 24, 16
# Link types with their headers' bytes, and where the header has the protocol; None: raw IP.
LINKS: dict[int, tuple[int, int | None]] = {1: (14, 12), 101: (0, None), 113: (16, 14),
                                            276: (20, 0)}  # fmt: skip
IPV4, IPV6, TCP = 0x0800, 0x86DD, 6
START_MAX_S = 86_400
CSV_COLUMNS = ("t_s", "goodput_mbit", "rtt_ms", "retransmits")
# Flows among flent's series, with their direction; others are derived from them.
FLOWS = re.compile(r"(?:TCP|UDP) (\w+)(?!.*( sum| avg|totals|::[a-z]))")

FORMATS = (
    "name a report of one test of `iperf3 --json` (no --json-stream), a data file of flent, a "
    "capture (pcap), or CSV with a column t_s"
)

Timed = tuple[float, float]  # s, and the value at this time
Interval = tuple[float, float, float]  # begin and end in s, and Mbit/s


@dataclass(frozen=True)
class Measurement:
    """Values of a measurement, from its start; None or empty if the file does not have them."""

    tool: str
    seconds: float  # duration
    goodput_mbit: float | None = None
    retransmits: float | None = None
    rtts_ms: Sequence[Timed] = ()
    rtt_of: str = ""  # tcp: smoothed RTT of a connection; ping
    intervals: Sequence[Interval] = ()
    lost_percent: float | None = None  # of datagrams
    streams: int = 1
    algorithm: str = ""
    # Why a value is absent, by metric, and other remarks.
    absent: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


def mean_mbit(intervals: Sequence[Interval]) -> float:
    """Return the mean over time."""
    seconds = sum(end - begin for begin, end, _ in intervals)
    if not seconds > 0:
        return fmean(mbit for _, _, mbit in intervals)
    return sum((end - begin) * mbit for begin, end, mbit in intervals) / seconds


def read(path: Path, series: str = "") -> Measurement:
    """Read a measurement; its content decides on the format. UsageError if it is of none."""
    try:
        data = read_bytes(path, RESULT_BYTES, "capture only the headers: `tcpdump -s 128`")
        if data[:4] in PCAP:
            return capture(data, str(path))
        if data.startswith(PCAPNG):
            raise UsageError(
                f"{path} must be a capture in the format pcap, found pcapng",
                hint=f"convert it: `editcap -F pcap {path} converted.pcap`",
            )
        packed = data.startswith(GZIP)
        if not packed and data.lstrip()[:1] != b"{":
            return table(path)
        text = _unpacked(path) if packed else reading.read_text(path, RESULT_BYTES)
        # iperf3 writes the sizes of socket buffers once for each stream, under the same key.
        found = reading.parse_json(text, str(path), duplicates=True)
        if isinstance(found, dict) and "results" in found:
            return flent(found, str(path), series)
        return iperf3(found, str(path))
    except UsageError as error:
        raise UsageError(error.message, hint=error.hint or FORMATS) from error


def _unpacked(path: Path) -> str:
    try:
        with gzip.open(path) as file:
            unpacked = file.read(RESULT_BYTES + 1)
        if len(unpacked) > RESULT_BYTES:
            raise UsageError(f"{path} must have at most {RESULT_BYTES} bytes, found more")
        return unpacked.decode()
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UsageError(f"{path} must be JSON in gzip, found: {shown(str(error))}") from error


def iperf3(report: Any, where: str) -> Measurement:
    """Read a report of iperf3's client or server, with TCP or UDP and any number of streams."""
    if isinstance(report, dict) and "error" in report:
        raise UsageError(f"{where} must be a report of a whole test, found the error "
                         f"{shown(report['error'])}")  # fmt: skip
    check_schema(report, "iperf3", where, FORMATS)
    test, end = report["start"]["test_start"], report["end"]
    udp = test["protocol"] == "UDP"
    sent, received = (end.get(name) or {} for name in ("sum_sent", "sum_received"))
    total = (end.get("sum") or {}) if udp else received
    # A receiving server has its totals in `sum_received`, a sending one in `sum_sent` only.
    total = next((its for its in (total, received, sent) if its.get("bits_per_second")), total)
    if not total:
        raise UsageError(f"{where} must have the totals of the test, found none")
    rows = [each for each in report["intervals"] if not each["sum"].get("omitted")]
    sending = any(row["sum"].get("sender") for row in rows)
    lost = total.get("lost_percent") if udp else None
    rtts = [
        (row["sum"]["end"], stream["rtt"] / 1e3)
        for row in rows
        for stream in row["streams"]
        if stream.get("rtt") and stream.get("sender") == row["sum"].get("sender")
    ]
    absent = {} if rtts else {"RTT": "only the sending end of a TCP test has the RTT"}
    if udp and sending and "sum_received" in end and not received.get("bits_per_second"):
        absent |= dict.fromkeys(("goodput", "lost datagrams"), "only the client's report has it")
    elif udp and lost is None:
        absent["lost datagrams"] = "the report has none"
    resent = None if udp else sent.get("retransmits")
    if resent is None:
        absent["retransmissions"] = (
            "UDP has none" if udp else "the report has none: only a sender under Linux counts them"
        )
    both = "sum_received_bidir_reverse" in end
    arrived = total["bits_per_second"] / 1e6 * (1 - (total is not received) * (lost or 0) / 100)
    return Measurement(
        f"iperf3, {test['protocol']}",
        total["seconds"],
        None if "goodput" in absent else arrived,
        resent,
        rtts,
        "tcp",
        # The sender's intervals have the datagrams that were lost, too.
        [] if "goodput" in absent or (lost and sending) else [
            (its["end"] - its["seconds"], its["end"], its["bits_per_second"] / 1e6)
            for its in (row["sum"] for row in rows)
        ],
        None if "goodput" in absent else lost,
        test["num_streams"],
        "" if both and not sending else end.get("sender_tcp_congestion", ""),
        absent,
        ["the test is bidirectional: only the client's direction is compared"] if both else [],
    )  # fmt: skip


def flent(data: Mapping[str, Any], where: str, series: str = "") -> Measurement:
    """Read a data file of flent: throughput in Mbit/s and pings over time.

    `series` begins the names of the flows to add; by default all flows of the only direction.
    """
    check_schema(data, "flent", where, FORMATS)
    results, times = data["results"], data["x_values"]
    if uneven := [name for name, values in results.items() if len(values) != len(times)]:
        raise UsageError(f"{where} must have {len(times)} values in each series, found "
                         f"{len(results[uneven[0]])} of {shown(uneven[0])}")  # fmt: skip
    directions = {name: match[1] for name in results
                  if (match := FLOWS.match(name)) and name.startswith(series)}  # fmt: skip
    flows = [*directions]
    if len({*directions.values()}) != 1 and not (flows and series):
        raise UsageError(
            f"{where} must have flows of one direction, found {shown(', '.join(flows)) or 'none'}",
            hint="choose the beginning of their names, such as `--series 'TCP upload'`, from: "
            f"{', '.join(map(shown, [*results][:20]))}",
        )
    added: dict[float, float] = {}
    for name in flows:
        for at, mbit in zip(times, results[name], strict=True):
            if mbit is not None:
                added[at] = added.get(at, 0.0) + mbit
    pings = [values for name, values in results.items() if name.startswith("Ping")]
    rtts = [(at, value) for values in pings[:1] for at, value in zip(times, values, strict=True)
            if value is not None]  # fmt: skip
    if not added:
        raise UsageError(f"{where} must have values of {flows[0]}, found none")
    absent = {"retransmissions": "flent's series of flows have none"}
    if not rtts:
        absent["RTT"] = "the file has no ping"
    return Measurement(
        f"flent, {', '.join(flows[:3])}", max(added) - min(added), fmean(added.values()), None,
        rtts, "ping", _since(sorted(added.items()), times), streams=len(flows), absent=absent,
    )  # fmt: skip


def _since(values: Sequence[Timed], times: Sequence[float]) -> list[Interval]:
    """Return values that hold since the value before, and the first for the median step."""
    first = values[0][0] if values else 0.0
    step = median_low([b - a for a, b in itertools.pairwise(times)] or [first])
    before = [max(0.0, first - step), *(at for at, _ in values)]
    return [(begin, at, value) for begin, (at, value) in zip(before, values, strict=False)]


def table(path: Path) -> Measurement:
    """Read a CSV file with a row per time, in columns named as in losslab's tables."""
    rows = read_rows(path, columns=["t_s"], max_bytes=RESULT_BYTES)
    present = [name for name in CSV_COLUMNS[1:] if rows and name in rows[0]]
    if not present:
        raise UsageError(
            f"{path} must have rows, and columns of {', '.join(CSV_COLUMNS)}, found "
            f"{shown(', '.join(rows[0])) if rows else 'no row'}",
            hint="rename the columns; retransmits counts from the start, times are in s",
        )
    columns: dict[str, list[Timed]] = {name: [] for name in present}
    for line, row in enumerate(rows, 2):
        at = number(row["t_s"], f"{path}, line {line}: t_s")
        for name in present:
            value = number(row[name], f"{path}, line {line}: {name}") if row[name] else None
            if value is not None and value < 0:
                raise UsageError(f"{path}, line {line}: {name} must be at least 0, found {value:g}")
            columns[name] += [(at, value)] if value is not None else []
    flow, rtts, resent = (columns.get(name, []) for name in CSV_COLUMNS[1:])
    absent = {
        name: f"the file has no values in a column {column}"
        for name, column in zip(("goodput", "RTT", "retransmissions"), CSV_COLUMNS[1:], strict=True)
        if not columns.get(column)
    }
    times = [number(row["t_s"]) for row in rows]
    for name, values in (("t_s", times), ("retransmits", [value for _, value in resent])):
        if fallen := [(a, b) for a, b in itertools.pairwise(values) if b < a]:
            raise UsageError(
                f"{name} of {path} must count from the start of the test, found "
                f"{fallen[0][1]:g} after {fallen[0][0]:g}"
            )
    if times[-1] > START_MAX_S:
        raise UsageError(
            f"t_s of {path} must count from the start of a test of at most a day, found "
            f"{times[-1]:g} in the last row",
            hint="subtract the time of the test's start, if these are s since 1970",
        )
    intervals = _since(flow, [at for at, _ in flow])
    return Measurement(
        "CSV", max(times) - min([0.0, *times]), mean_mbit(intervals) if flow else None,
        max(v for _, v in resent) if resent else None, rtts, "ping", intervals, absent=absent,
    )  # fmt: skip


@dataclass
class _Flow:
    """The data of one direction of a TCP connection, with its acknowledgements."""

    octets: int = 0
    highest: int | None = None  # sequence number after the last new byte, without wrapping
    resent: int = 0
    new: list[tuple[float, int]] = field(default_factory=list)  # s, new bytes
    waiting: dict[int, float] = field(default_factory=dict)  # time sent by the next number
    rtts_ms: list[Timed] = field(default_factory=list)

    def add(self, at_s: float, begin: int, octets: int) -> None:
        """Add a segment with data."""
        self.octets += octets
        end = begin + octets
        if self.highest is None:
            self.highest = begin
        # The nearest number with these low 32 bits.
        end = self.highest + _signed(end - self.highest)
        if end <= self.highest:
            self.resent += 1
            # Karn: the acknowledgement may be of either.
            self.waiting = {its: sent for its, sent in self.waiting.items() if its <= end - octets}
            return
        self.new.append((at_s, min(octets, end - self.highest)))
        self.highest = end
        self.waiting[end] = at_s

    def acknowledge(self, at_s: float, number_: int) -> None:
        """Take the RTT of the newest segment that an acknowledgement covers."""
        if self.highest is None:
            return
        acked = self.highest + _signed(number_ - self.highest)
        if acked in self.waiting:
            self.rtts_ms.append((at_s, (at_s - self.waiting[acked]) * 1e3))
        self.waiting = {end: sent for end, sent in self.waiting.items() if end > acked}


def _signed(difference: int) -> int:
    return (difference + 2**31) % 2**32 - 2**31


def capture(data: bytes, where: str) -> Measurement:
    """Read the TCP connection with most data from a capture, best made at the sender."""
    flows: dict[tuple[bytes, ...], _Flow] = {}
    for at_s, source, target, begin, acked, octets, is_ack in _segments(data, where):
        if octets:
            flows.setdefault((source, target), _Flow()).add(at_s, begin, octets)
        if is_ack and (target, source) in flows:
            flows[target, source].acknowledge(at_s, acked)
    flow = max(flows.values(), key=lambda its: its.octets, default=None)
    if flow is None or len(flow.new) < 2:
        raise UsageError(f"{where} must have a TCP connection with data over IPv4 or IPv6, found "
                         "none")  # fmt: skip
    start_s, end_s = flow.new[0][0], flow.new[-1][0]
    seconds = end_s - start_s
    if not seconds > 0:
        raise UsageError(f"{where} must have data at two times, found one")
    bins = [0.0] * (math.floor(seconds) + 1) if seconds < 86_400 else []
    for at_s, octets in flow.new if bins else ():
        bins[int(min(max(0.0, at_s - start_s), seconds))] += octets * 8e-6
    rtts = [(at - start_s, rtt) for at, rtt in flow.rtts_ms if rtt >= 0]
    return Measurement(
        "capture, the connection with most data", seconds,
        sum(octets for _, octets in flow.new) * 8e-6 / seconds, flow.resent, rtts, "tcp",
        [(n, n + 1.0, mbit) for n, mbit in enumerate(bins[:-1])],
        absent={} if rtts else {"RTT": "the capture has no acknowledgement of the data"},
        notes=["RTT and retransmissions are those at the place of the capture: the sender's are "
               "complete", "a capture's RTT is of single segments, the run's is smoothed by TCP"],
    )  # fmt: skip


def _segments(data: bytes, where: str) -> Iterable[tuple[float, bytes, bytes, int, int, int, bool]]:
    """Yield the TCP segments: time, source, target, sequence, acknowledged number, bytes of data.

    The last value says whether it acknowledges. Packets that are cut too short are skipped.
    """
    order, ticks = PCAP[data[:4]]
    link = struct.unpack_from(f"{order}I", data.ljust(FILE_HEADER_BYTES, b"\0"), 20)[0] & 0xFFFF
    if link not in LINKS:
        raise UsageError(f"{where} must have a link type of {', '.join(map(str, LINKS))}, found "
                         f"{link}")  # fmt: skip
    skip, place = LINKS[link]
    at = FILE_HEADER_BYTES
    while at + PACKET_BYTES <= len(data):
        seconds, parts, kept, _ = struct.unpack_from(f"{order}IIII", data, at)
        at += PACKET_BYTES
        frame = data[at : at + kept]
        at += kept
        kind = 0 if place is None else int.from_bytes(frame[place : place + 2])
        ip = frame[skip:]
        if not ip or (place is not None and kind not in (IPV4, IPV6)):
            continue
        if ip[0] >> 4 == 4 and len(ip) >= 20:
            header, total = 4 * (ip[0] & 15), int.from_bytes(ip[2:4])
            protocol, ends = ip[9], (ip[12:16], ip[16:20])
        elif ip[0] >> 4 == 6 and len(ip) >= 40:
            header, total = 40, 40 + int.from_bytes(ip[4:6])
            protocol, ends = ip[6], (ip[8:24], ip[24:40])
        else:
            continue
        tcp = ip[header:]
        if protocol != TCP or len(tcp) < 20:
            continue
        _, _, begin, acked, size, flags = struct.unpack_from("!HHIIBB", tcp)
        octets = max(0, total - header - 4 * (size >> 4))
        source, target = ends[0] + tcp[:2], ends[1] + tcp[2:4]
        yield seconds + parts / ticks, source, target, begin, acked, octets, bool(flags & 0x10)
