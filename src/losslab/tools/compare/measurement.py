"""Readers of other tools' measurements: reports of iperf, flent's files, captures and CSV files.

Each reader returns the same few values, and the reason for each that its file does not have. A
reader checks only the parts of a file that it needs.
"""

from __future__ import annotations

import gzip
import io
import itertools
import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median_low
from typing import Any

from losslab import captures, reading
from losslab.reading import GZIP, RESULT_BYTES, UsageError, number, read_bytes, read_rows, shown
from losslab.study.schemas import check_schema

START_MAX_S = 86_400
CSV_COLUMNS = ("t_s", "goodput_mbit", "rtt_ms", "retransmits")
# Names of the series of flows in flent's tests: protocol and direction, then a number or a class of
# traffic, and then a host. Other series (sum, fairness, totals ...) are computed from them.
FLOWS = re.compile(
    r"(?:TCP|UDP) (upload|download)"
    r"(?:(?:(?:::| )\d+| (?:BE|BK|VI|VO|EF|LE|CS\d|AF\d\d)\d*)"
    r"(?: (?!(?:sum|avg|totals|fairness)$)[\w.:-]+)?)?"
)

FORMATS = (
    "name a report of one test of iperf3 (`--json`) or iperf, a data file of flent, a capture "
    "(pcap, pcapng), or CSV with a column t_s"
)
# A line of iperf 2 or 3: stream, begin and end, rate with its unit, and the rest.
IPERF_LINE = re.compile(
    r"^\[\s*(\d+|SUM)\](?:\[\w+-?\w*\])?\s+(\d[\d.]*)\s*-\s*(\d[\d.]*)\s+sec\s+"
    r"[\d.]+ [KMGT]?(?:Bytes|bits)\s+([\d.]+) ([KMGT]?)(bits|Bytes)/sec(.*)$",
    re.MULTILINE,
)
DATAGRAMS = re.compile(r"[\d.]+ ms\s+(-?\d+)/\s*(\d+)")
SCALES = {"": 1, "K": 1, "M": 2, "G": 3, "T": 4}

Timed = tuple[float, float]  # s, and the value at this time
Interval = tuple[float, float, float]  # begin and end in s, and Mbit/s
Span = tuple[float, float, float]  # begin and end in s, and a count


@dataclass(frozen=True)
class Measurement:
    """Values of a measurement, from its start; None or empty if the file does not have them."""

    tool: str
    seconds: float  # duration
    goodput_mbit: float | None = None
    retransmits: float | None = None  # of the whole test
    resent: Sequence[Span] = ()  # retransmissions over time
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
        small = f"keep only the headers: `editcap -s 128 {path} small.pcap`"
        data = read_bytes(path, RESULT_BYTES, small)
        packed = data.startswith(GZIP)
        data = _unpacked(data, path) if packed else data
        if captures.is_capture(data):
            return capture(data, str(path))
        captures.refuse_other(data, str(path))
        text = data.decode(errors="replace")
        if text.lstrip()[:1] in ("{", "["):
            if lines := iperf_lines(text):
                return iperf_text(lines, text, str(path))
            return _of_json(text, str(path), series)
        if lines := iperf_lines(text):
            return iperf_text(lines, text, str(path))
        if packed:
            raise UsageError(f"{path} must be JSON or a capture in gzip, found another text",
                             hint=f"unpack it: `gunzip -k {path}`")  # fmt: skip
        return table(path)
    except UsageError as error:
        raise UsageError(error.message, hint=error.hint or FORMATS) from error


def _unpacked(data: bytes, path: Path) -> bytes:
    try:
        with gzip.open(io.BytesIO(data)) as file:
            unpacked = file.read(RESULT_BYTES + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UsageError(f"{path} must be a file in gzip, found: {shown(str(error))}") from error
    if len(unpacked) > RESULT_BYTES:
        raise UsageError(f"{path} must have at most {RESULT_BYTES} bytes unpacked, found more")
    return unpacked


def _of_json(text: str, where: str, series: str) -> Measurement:
    """Read JSON: flent's, iperf3's, or iperf3's with an object per line (--json-stream)."""
    events = [line for line in text.splitlines() if line.startswith('{"event"')]
    if events:
        parts = [reading.parse_json(line, where, duplicates=True) for line in events]
        of_kind = {
            kind: [part.get("data") for part in parts if part.get("event") == kind]
            for kind in ("start", "interval", "end")
        }
        found: Any = {
            "start": next(iter(of_kind["start"]), None),
            "intervals": of_kind["interval"],
            "end": next(iter(of_kind["end"]), None),
        }
        return iperf3(found, where)
    # iperf3 writes the sizes of socket buffers once for each stream, under the same key.
    found = reading.parse_json(text, where, duplicates=True)
    if isinstance(found, dict) and "results" in found:
        return flent(found, where, series)
    return iperf3(found, where)


def iperf_lines(text: str) -> list[re.Match[str]]:
    """Return the lines of iperf's text that have an interval and a rate."""
    return [*IPERF_LINE.finditer(text)]


def iperf_text(lines: Sequence[re.Match[str]], text: str, where: str) -> Measurement:
    """Read what iperf (2 or 3) prints: the rate per interval, added over the streams."""
    streams = {line[1] for line in lines} - {"SUM"}
    chosen = [line for line in lines if line[1] == "SUM"] if len(streams) > 1 else [*lines]
    if not chosen:
        raise UsageError(
            f"{where} must have lines [SUM] of its {len(streams)} streams, found none",
            hint="print the report again with iperf's own lines of sums",
        )
    rows = [(float(line[2]), float(line[3]), _mbit(line), line[7]) for line in chosen]
    end_s = max(end for _, end, _, _ in rows)
    first_s = min(end for _, end, _, _ in rows)
    # The totals go from the start to the end; iperf3 prints those of the sender, and of the
    # receiver, where the data arrived.
    whole = [row for row in rows if row[0] == 0 and row[1] > 0.9 * end_s and row[1] > first_s]
    parts = [row for row in rows if row not in whole]
    if not parts and len(rows) > 1 and not whole:
        whole = rows
    total = next((row for row in whole if "receiver" in row[3]), (whole or rows)[-1])
    falling = [row for before, row in itertools.pairwise(parts) if row[0] < before[0]]
    if falling:
        raise UsageError(
            f"{where} must have one test, found the interval from {falling[0][0]:g} s after a "
            "later one", hint="keep the lines of one test and one direction",
        )  # fmt: skip
    lost: float | None = None
    if counted := DATAGRAMS.search(total[3]):
        sent = int(counted[2])
        lost = 100 * max(0, int(counted[1])) / sent if sent else 0.0
    datagrams = lost is not None or "UDP" in text
    sending = datagrams and lost is None
    if lost and not any(DATAGRAMS.search(rest) for *_, rest in parts):
        parts = []  # a sender's intervals have the datagrams that were lost, too
    resent: list[Span] = []
    if not datagrams and re.search(r"\bRetr\b", text):
        for begin, end, _, rest in parts:
            if count := re.match(r"\s+(\d+)\b(?!/)", rest):
                resent.append((begin, end, float(count[1])))
    absent = {"RTT": "iperf's text does not have it at each interval"}
    if datagrams:
        absent["retransmissions"] = "UDP has none"
    elif not resent:
        absent["retransmissions"] = "the report has none"
    if sending:
        absent |= dict.fromkeys(("goodput", "lost datagrams"), "only the receiver's report has it")
    return Measurement(
        f"iperf's text, {'UDP' if datagrams else 'TCP'}", total[1] - total[0],
        None if sending else total[2], sum(count for *_, count in resent) if resent else None,
        resent, intervals=[] if sending else [row[:3] for row in parts], lost_percent=lost,
        streams=max(1, len(streams)), absent=absent,
    )  # fmt: skip


def _mbit(line: re.Match[str]) -> float:
    """Return a line's rate: iperf's bits count in thousands, its bytes in 1024."""
    base, bits = (1000, 1) if line[6] == "bits" else (1024, 8)
    try:
        return float(line[4]) * float(base ** SCALES[line[5]]) * bits / 1e6
    except ValueError as error:
        raise UsageError(f"iperf's rate must be a number, found {shown(line[4])}") from error


def iperf3(report: Any, where: str) -> Measurement:
    """Read a report of iperf3's client or server, with TCP or UDP and any number of streams."""
    if isinstance(report, dict) and "error" in report:
        raise UsageError(f"{where} must be a report of a whole test, found the error "
                         f"{shown(report['error'])}")  # fmt: skip
    check_schema(report, "iperf3", where, FORMATS)
    test, end = report["start"]["test_start"], report["end"]
    udp = test["protocol"] == "UDP"
    received = end.get("sum_received") or {}
    total = _iperf3_total(end, udp)
    if not total:
        raise UsageError(f"{where} must have the totals of the test, found none")
    rows = [row for row in report["intervals"] if not row["sum"].get("omitted")]
    sending = any(row["sum"].get("sender") for row in rows)
    bidirectional = "sum_received_bidir_reverse" in end
    rtts_ms = [
        (row["sum"]["end"], stream["rtt"] / 1e3)
        for row in rows
        for stream in row["streams"]
        if stream.get("rtt") and stream.get("sender") == row["sum"].get("sender")
    ]
    lost_percent = total.get("lost_percent") if udp else None
    retransmits = None if udp else (end.get("sum_sent") or {}).get("retransmits")
    absent: dict[str, str] = {}
    if not rtts_ms:
        absent["RTT"] = "only the sending end of a TCP test has the RTT"
    # A client that sends datagrams knows what has arrived from the server's report only.
    arrivals_known = not (
        udp and sending and "sum_received" in end and not received.get("bits_per_second")
    )
    if not arrivals_known:
        absent |= dict.fromkeys(("goodput", "lost datagrams"), "only the client's report has it")
    elif udp and total.get("lost_percent") is None:
        absent["lost datagrams"] = "the report has none"
    if retransmits is None:
        absent["retransmissions"] = (
            "UDP has none" if udp else "the report has none: only a sender under Linux counts them"
        )
    goodput_mbit = total["bits_per_second"] / 1e6
    if lost_percent and total is not received:
        goodput_mbit *= 1 - lost_percent / 100
    totals = [row["sum"] for row in rows]
    late = [total for total in totals if (total.get("lost_packets") or 0) < 0]
    notes = []
    if bidirectional:
        notes.append("the test is bidirectional: only the client's direction is compared")
    if late:
        notes.append(
            f"intervals with datagrams that arrived later than counted: {len(late)}; the share of "
            "lost datagrams is that of the whole test"
        )
    # A sender's intervals have the datagrams that were lost, too.
    of_arrivals = arrivals_known and not (lost_percent and sending)
    return Measurement(
        tool=f"iperf3, {test['protocol']}",
        seconds=total["seconds"],
        goodput_mbit=goodput_mbit if arrivals_known else None,
        retransmits=retransmits,
        resent=[
            (*_iperf3_span(total), total["retransmits"])
            for total in totals
            if not udp and "retransmits" in total
        ],
        rtts_ms=rtts_ms,
        rtt_of="tcp",
        intervals=[
            (*_iperf3_span(total), total["bits_per_second"] / 1e6)
            for total in totals
            if of_arrivals
        ],
        lost_percent=lost_percent if arrivals_known else None,
        streams=test["num_streams"],
        algorithm="" if bidirectional and not sending else end.get("sender_tcp_congestion", ""),
        absent=absent,
        notes=notes,
    )


def _iperf3_total(end: Mapping[str, Any], udp: bool) -> Mapping[str, Any]:
    """Return the totals of a report's end: of what arrived, or else of what was sent.

    A receiving server has its totals in `sum_received`, a sending one in `sum_sent` only.
    """
    received, sent = (end.get(name) or {} for name in ("sum_received", "sum_sent"))
    first = (end.get("sum") or {}) if udp else received
    return next((t for t in (first, received, sent) if t.get("bits_per_second")), first)


def _iperf3_span(total: Mapping[str, Any]) -> tuple[float, float]:
    """Return begin and end of an interval in s."""
    return total["end"] - total["seconds"], total["end"]


def flent(data: Mapping[str, Any], where: str, series: str = "") -> Measurement:
    """Read a data file of flent: throughput in Mbit/s and pings over time.

    `series` begins the names of the flows to add; by default all flows of the only direction.
    """
    named = data["results"] if isinstance(data["results"], dict) else {}
    directions = {name: match[1] for name in named if (match := FLOWS.fullmatch(name))}
    flows = [name for name in directions if name.startswith(series)]
    if len({directions[name] for name in flows}) != 1 and not (flows and series):
        some = ", ".join(map(shown, directions)) or "none"
        hint = (
            "choose the beginning of their names, such as "
            f"`--series '{' '.join(next(iter(directions)).split()[:2])}'`"
            if directions
            else "losslab compares flent's tests with series such as `TCP upload` or `TCP download`"
        )
        raise UsageError(f"{where} must have flows of one direction, found {some}", hint=hint)
    pings = [name for name in named if name.startswith("Ping")]
    used = [*flows, *pings[:1]]
    data = {**data, "results": {name: named[name] for name in used}}
    check_schema(data, "flent", where, FORMATS)
    results, times = data["results"], data["x_values"]
    if uneven := [name for name, values in results.items() if len(values) != len(times)]:
        raise UsageError(f"{where} must have {len(times)} values in each series, found "
                         f"{len(results[uneven[0]])} of {shown(uneven[0])}")  # fmt: skip
    beside = [name for name in named if name.startswith(("TCP", "UDP")) and name not in directions]
    added: dict[float, float] = {}
    for name in flows:
        for at, mbit in zip(times, results[name], strict=True):
            if mbit is not None:
                added[at] = added.get(at, 0.0) + mbit
    rtts = [(at, value) for name in pings[:1]
            for at, value in zip(times, results[name], strict=True)
            if value is not None]  # fmt: skip
    if not added:
        raise UsageError(f"{where} must have values of {flows[0]}, found none")
    absent = {"retransmissions": "flent's series of flows have none"}
    if not rtts:
        absent["RTT"] = "the file has no ping"
    return Measurement(
        f"flent, {', '.join(flows[:3])}", max(added) - min(added), fmean(added.values()), None, (),
        rtts, "ping", _since(sorted(added.items()), times), streams=len(flows), absent=absent,
        notes=[f"series that are not added: {', '.join(map(shown, beside))}"] if beside else [],
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
            if value is not None:
                columns[name].append((at, value))
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
    counts = [(0.0, 0.0), *resent]
    spans = [(a, b, more - less) for (a, less), (b, more) in itertools.pairwise(counts)]
    return Measurement(
        "CSV", max(times) - min([0.0, *times]), mean_mbit(intervals) if flow else None,
        max(v for _, v in resent) if resent else None, spans, rtts, "ping", intervals,
        absent=absent,
    )  # fmt: skip


# Data below a hole in the numbers came out of order if it came as soon, or else was sent again
# (Wireshark's limit without an RTT, packet-tcp.c).
OUT_OF_ORDER_S = 3e-3


@dataclass
class _Flow:
    """The data of one direction of a TCP connection, with its acknowledgements."""

    octets: int = 0
    highest: int | None = None  # sequence number after the last new byte, without wrapping
    last_s: float = 0.0  # of the last segment with data, or acknowledgement of new data
    resent_s: list[float] = field(default_factory=list)  # times of retransmissions
    new: list[tuple[float, int]] = field(default_factory=list)  # s, new bytes
    acked: int = -1  # the largest acknowledged number, as `highest`
    stopped: bool = False  # the peer's window is closed
    probed: int = -1  # the number after a byte that asks for a new window
    holes: list[tuple[int, int, float]] = field(
        default_factory=list
    )  # missing: begin, end, since s
    waiting: dict[int, float] = field(default_factory=dict)  # time sent by the next number
    rtts_ms: list[Timed] = field(default_factory=list)

    def add(self, at_s: float, begin: int, octets: int) -> None:
        """Add a segment with data."""
        if self.highest is None:
            self.highest = begin
        # The nearest number with these low 32 bits.
        end = self.highest + _signed(begin + octets - self.highest)
        if octets == 1 and end == self.highest and end in (self.acked, self.probed):
            return  # a probe of an idle peer or of a closed window, with the last byte again
        if octets == 1 and self.stopped:
            self.probed = end
        self.octets += octets
        self.last_s = max(self.last_s, at_s)
        if end <= self.highest:
            new, opened_s = self._fill(end - octets, end)
            if new:
                self.new.append((at_s, new))
            if not new or at_s - opened_s > OUT_OF_ORDER_S:
                self.resent_s.append(at_s)
            # Karn: the acknowledgement may be of either.
            self.waiting = {n: sent for n, sent in self.waiting.items() if n <= end - octets}
            return
        if end - octets > self.highest:
            self.holes.append((self.highest, end - octets, at_s))
        self.new.append((at_s, min(octets, end - self.highest)))
        self.highest = end
        self.waiting[end] = at_s

    def _fill(self, begin: int, end: int) -> tuple[int, float]:
        """Return how many bytes were missing before, and since when; they are there now."""
        new, opened_s, left = 0, -math.inf, []
        for low, high, at_s in self.holes:
            first, last = max(low, begin), min(high, end)
            if first >= last:
                left.append((low, high, at_s))
                continue
            new, opened_s = new + last - first, at_s
            left += [part for part in ((low, first, at_s), (last, high, at_s)) if part[0] < part[1]]
        self.holes = left
        return new, opened_s

    def acknowledge(self, at_s: float, number_: int, window: int) -> None:
        """Take the RTT of the newest segment that an acknowledgement covers."""
        if self.highest is None:
            return
        self.stopped = not window
        acked = self.highest + _signed(number_ - self.highest)
        if acked in self.waiting:
            self.rtts_ms.append((at_s, (at_s - self.waiting[acked]) * 1e3))
        self.waiting = {end: sent for end, sent in self.waiting.items() if end > acked}
        self.acked = max(self.acked, acked)


def _signed(difference: int) -> int:
    return (difference + 2**31) % 2**32 - 2**31


def capture(data: bytes, where: str) -> Measurement:
    """Read the TCP connection with most data from a capture, best made at the sender."""
    flows: dict[tuple[bytes, ...], _Flow] = {}
    skipped: Counter[str] = Counter()
    for at_s, source, target, begin, acked, octets, flags, _, window in captures.segments(
        data, where, skipped
    ):
        if octets:
            flows.setdefault((source, target), _Flow()).add(at_s, begin, octets)
        if flags & captures.ACK and (target, source) in flows:
            flows[target, source].acknowledge(at_s, acked, window)
    flow = max(flows.values(), key=lambda flow: flow.octets, default=None)
    if flow is None or len(flow.new) < 2:
        count = max((len(its.new) for its in flows.values()), default=0)
        found = [f"{count} segment of data at most"] if count else []
        found += [captures.instead(skipped)] if skipped else []
        raise UsageError(
            f"{where} must have a TCP connection with data over IPv4 or IPv6, in two segments at "
            f"least, found {', '.join(found) or 'none'}"
        )
    # All numbers are of one interval: from the first data to the last, sent again or not.
    start_s = flow.new[0][0]
    seconds = flow.last_s - start_s
    if not seconds > 0:
        raise UsageError(f"{where} must have data at two times, found one")
    ends = [n + 1.0 for n in range(math.floor(seconds))] if seconds < START_MAX_S else []
    if 0 < seconds < START_MAX_S and seconds > max(ends, default=0.0):
        ends.append(seconds)
    mbit = [0.0] * len(ends)
    for at_s, octets in flow.new if ends else ():
        mbit[min(int(max(0.0, at_s - start_s)), len(ends) - 1)] += octets * 8e-6
    intervals = [(begin, end, megabits / (end - begin))
                 for (begin, end), megabits in zip(itertools.pairwise([0.0, *ends]), mbit,
                                                   strict=True)]  # fmt: skip
    rtts = [(at - start_s, rtt) for at, rtt in flow.rtts_ms if rtt >= 0]
    notes = [
        "RTT and retransmissions are those at the place of the capture: the sender's are complete",
        "a capture's RTT is of single segments, the run's is smoothed by TCP",
        *captures.copies_note(skipped),
    ]
    others = len(flows) - 1
    if others:
        notes.append(f"other directions and connections with data, not compared: {others}")
    return Measurement(
        "capture, the connection with most data", seconds,
        sum(octets for _, octets in flow.new) * 8e-6 / seconds, len(flow.resent_s),
        [(at - start_s, at - start_s, 1.0) for at in flow.resent_s], rtts, "tcp", intervals,
        absent={} if rtts else {"RTT": "no segment that was sent once has its acknowledgement"},
        notes=notes,
    )  # fmt: skip
