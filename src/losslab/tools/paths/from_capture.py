"""`losslab path from-capture`: the path that a bulk TCP flow saw, from its packets at the sender.

What a capture shows, and what follows from it:

- The smallest RTT of a segment is the base RTT, if the queue was empty once.
- While every RTT is above the smallest, the bottleneck has packets to send all the time, so
  acknowledgements arrive at its rate. Without such a time, the rate is not known.
- A segment that is sent again was lost or late. If the queue was nearly as long as ever when it was
  first sent, the buffer overflowed; else the loss is the path's. Overflows show the buffer's size.

All else is not in a capture, and `NOT_KNOWN` says so.
"""

from __future__ import annotations

import gzip
import itertools
import math
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from losslab import captures, reading
from losslab.reading import GZIP, RESULT_BYTES, UsageError, read_bytes
from losslab.study import packetsizes
from losslab.study.schemas import check_schema

# A capture at one end has nearly the whole RTT of the handshake on one side.
AT_END = 0.9
# RTTs above the smallest by more than this share, and this time, show a queue.
QUEUED_SHARE, QUEUED_S = 0.05, 0.001
# Without a rate, this share of the losses beside the longest queues shows no buffer.
FEW = 0.1
# A window of the rate lasts so many RTTs, and at least so long; the rate needs so many windows.
WINDOW_RTTS, WINDOW_S, WINDOWS = 4, 0.2, 5
# Part of the longest queue from which a loss is an overflow of the buffer.
FULL = 0.75
# Quantile of the RTTs that is the longest queue: single delays on the hosts do not count.
LONGEST = 0.995
SEGMENTS_MIN = 100
PACKETS_MIN = 1000  # that were sent beside a short queue, for a loss rate
BURST = 1.5  # mean length from which losses count as bursts; of 5 % alone, some follow each other
SEGMENT_BYTES_MAX = 9000  # larger ones were cut by the interface (TSO)
NOT_KNOWN = (
    ("the reverse path's rate, delay and losses", "the RTT is that of both directions together"),
    ("the kind of queue", "a FIFO, a queue management and a policer drop packets alike"),
    ("other flows", "the rate and the losses are those that this flow saw beside them"),
    ("jitter, reordering and duplicates", "the sender sees their effect on RTTs and losses only"),
    ("changes of the path", "the numbers are of the whole capture"),
)


@dataclass
class Found:
    """A path as far as a file shows it.

    Attributes:
        values: Values of axes.
        taken: What the file shows, with the axes that it sets.
        unknown: Axes whose value the file does not show, with the reason.
        notes: What to know of the values.
    """

    values: dict[str, Any] = field(default_factory=dict)
    taken: list[tuple[str, str]] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def set(self, seen: str, axis: str, value: float) -> None:
        """Set an axis."""
        self.values[axis] = value
        self.taken.append((seen, f"--{axis.replace('_', '-')} {value:g}"))


@dataclass
class _Flow:
    """One direction of a TCP connection at its sender."""

    sent: dict[int, tuple[float, int]] = field(default_factory=dict)  # by end: first time, bytes
    highest: int | None = None  # sequence number after the last new byte, without wrapping
    resent: dict[int, float] = field(default_factory=dict)  # by end: time of the first repetition
    waiting: dict[int, float] = field(default_factory=dict)
    rtts: list[tuple[float, float, float]] = field(default_factory=list)  # sent, acked, RTT in s
    acked: list[tuple[float, int]] = field(default_factory=list)  # time, bytes until then
    has_sack: bool = False
    sizes: Counter[int] = field(default_factory=Counter)

    def send(self, at_s: float, begin: int, octets: int) -> None:
        """Add a segment with data."""
        self.sizes[octets] += 1
        if self.highest is None:
            self.highest = begin
            self.acked.append((at_s, begin))
        end = self.highest + _signed(begin + octets - self.highest)
        if end > self.highest:
            self.sent[end] = at_s, octets
            self.waiting[end] = at_s
            self.highest = end
            return
        self.resent.setdefault(end, at_s)
        # Karn: an acknowledgement may be of either. Without SACK, those after it wait for it.
        above = end if self.has_sack else math.inf
        self.waiting = {n: at for n, at in self.waiting.items() if not end - octets < n <= above}

    def acknowledge(self, at_s: float, number: int, sacked: captures.Blocks) -> None:
        """Add an acknowledgement, with its blocks of SACK."""
        if self.highest is None:
            return
        acked = self.highest + _signed(number - self.highest)
        # The segment that arrived last has an RTT: it is in the first block if that is new. The
        # receiver may have waited for it to acknowledge those before.
        answered = False
        for left, right in [(number, number), *sacked][:2][::-1]:
            end = self.highest + _signed(right - self.highest)
            begin = end - (right - left) % 2**32
            if end in self.waiting and not answered:
                self.rtts.append((self.waiting[end], at_s, at_s - self.waiting[end]))
                answered = True
            if left != right:
                self.has_sack = True
                self.waiting = {n: t for n, t in self.waiting.items() if not begin < n <= end}
        if acked > self.acked[-1][1]:
            self.acked.append((at_s, acked))
            self.waiting = {end: sent for end, sent in self.waiting.items() if end > acked}


def _signed(difference: int) -> int:
    return (difference + 2**31) % 2**32 - 2**31


def read(path: Path, at_sender: bool = False) -> Found:
    """Read a capture of the sender, or a report of iperf3's sending end.

    `at_sender` says that a capture without a handshake is the sender's. Raises UsageError if the
    file is neither, or its place is not the sender.
    """
    hint = f"keep only the headers: `editcap -s 128 {path} small.pcap`"
    data = read_bytes(path, RESULT_BYTES, hint)
    if data.startswith(GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise UsageError(f"{path} must be a whole file in gzip, found: {error}") from error
    if captures.is_capture(data):
        return _of_capture(data, str(path), at_sender)
    if data.lstrip()[:1] == b"{":
        return _of_iperf3(data.decode(errors="replace"), str(path))
    captures.refuse_other(data, str(path))
    raise UsageError(
        f"{path} must be a capture (pcap, pcapng) or a report of `iperf3 --json`, found neither",
        hint="capture at the sender: `tcpdump -i eth0 -s 128 -w sender.pcap tcp`",
    )


def _of_capture(data: bytes, where: str, at_sender: bool) -> Found:
    flows: dict[tuple[bytes, bytes], _Flow] = {}
    shakes: dict[tuple[bytes, bytes], list[float]] = {}  # by client: SYN, its answer, ACK
    skipped: Counter[str] = Counter()
    for at_s, source, target, begin, acked, octets, flags, sacked, _ in captures.segments(
        data, where, skipped
    ):
        _shake(shakes, at_s, (source, target), flags)
        if octets:
            flows.setdefault((source, target), _Flow()).send(at_s, begin, octets)
        if flags & captures.ACK and (target, source) in flows:
            flows[target, source].acknowledge(at_s, acked, sacked)
    ends, flow = max(
        flows.items(), key=lambda item: item[1].acked[-1][1] - item[1].acked[0][1],
        default=((b"", b""), _Flow()),
    )  # fmt: skip
    if len(flow.rtts) < SEGMENTS_MIN:
        unused = f" ({captures.instead(skipped)})" if skipped else ""
        raise UsageError(
            f"{where} must have a TCP flow with at least {SEGMENTS_MIN} segments whose "
            f"acknowledgements are there, found {len(flow.rtts)}{unused}",
            hint="capture both directions at the sender of a bulk transfer, for 10 s or more",
        )
    found = Found()
    _require_sender(ends, shakes, where, at_sender)
    found.notes += captures.copies_note(skipped)
    others = len(flows) - 1
    if others:
        found.notes.append(f"other flows with data in the file, not used: {others}")
    _path_of(flow, found)
    return found


def _shake(
    shakes: dict[tuple[bytes, bytes], list[float]], at_s: float, ends: tuple[bytes, bytes],
    flags: int,
) -> None:  # fmt: skip
    """Keep the times of a connection's first SYN, SYN-ACK and ACK, if each came once."""
    if flags & captures.SYN and not flags & captures.ACK:
        shakes.setdefault(ends, []).append(at_s)
    elif flags & captures.SYN and len(shakes.get(ends[::-1], ())) == 1:
        shakes[ends[::-1]].append(at_s)
    elif flags & captures.ACK and len(shakes.get(ends, ())) == 2:
        shakes[ends].append(at_s)


def _require_sender(
    ends: tuple[bytes, bytes], shakes: dict[tuple[bytes, bytes], list[float]], where: str,
    at_sender: bool,
) -> None:  # fmt: skip
    """Raise UsageError unless the capture was made at the flow's sender."""
    for client, times in ((ends, shakes.get(ends, ())), (ends[::-1], shakes.get(ends[::-1], ()))):
        if len(times) != 3:  # with several answers, it is not clear to which one the ACK belongs
            continue
        syn_s, answer_s, ack_s = times
        # Of the RTT, the part behind the capture as the flow's sender would see it.
        beyond = answer_s - syn_s if client == ends else ack_s - answer_s
        share = beyond / (ack_s - syn_s) if ack_s > syn_s else 0.0
        if share < AT_END:
            raise UsageError(
                f"{where} must be made at the sender, found a place with {100 * share:.0f} % of "
                "the RTT between it and the receiver",
                hint="losses and RTTs before the capture are not in it; capture at the sender",
            )
        return
    if not at_sender:
        raise UsageError(
            f"{where} must have the flow's handshake, which shows where it was made, found none",
            hint="if it was made at the sender, add --at-sender",
        )


def _path_of(flow: _Flow, found: Found) -> None:
    """Derive the path's values from a flow."""
    rtts = sorted(rtt for _, _, rtt in flow.rtts)
    min_s, max_s = rtts[0], rtts[int(LONGEST * (len(rtts) - 1))]
    found.set(
        f"smallest RTT of {len(rtts)} segments, {min_s * 1e3:.4g} ms", "rtt_ms",
        float(f"{min_s * 1e3:.4g}"),
    )  # fmt: skip
    segment_bytes = _segment_bytes(flow, found)
    frame_bytes = (
        segment_bytes + packetsizes.DEFAULT.frame_bytes - packetsizes.DEFAULT.segment_bytes
    )
    rate_mbit = _rate_mbit(flow, min_s, found, frame_bytes / segment_bytes)
    _losses(flow, min_s, max_s, rate_mbit, segment_bytes, frame_bytes, found)


def _segment_bytes(flow: _Flow, found: Found) -> int:
    """Return the size of a full segment; a guess is a note."""
    largest = max(flow.sizes)
    if largest <= SEGMENT_BYTES_MAX:
        return largest
    full = packetsizes.DEFAULT.segment_bytes
    found.notes.append(
        f"segments of up to {largest} bytes were cut on the interface (TSO): counted as packets of "
        f"{full} bytes"
    )
    return full


def _rate_mbit(flow: _Flow, min_s: float, found: Found, per_byte: float) -> float | None:
    """Set the bottleneck's rate if a queue stood for long enough; return it in Mbit/s."""
    above_s = min_s + max(QUEUED_S, QUEUED_SHARE * min_s)
    window_s = max(WINDOW_S, WINDOW_RTTS * min_s)
    times = [at for at, _ in flow.acked]
    sampled = [at for _, at, _ in flow.rtts]
    rates, largest = [], 0.0
    begin_s = times[0]
    while begin_s + window_s <= times[-1]:
        first, last = (bisect_left(times, t) for t in (begin_s, begin_s + window_s))
        # From an acknowledgement to another one: a window's ends are between two.
        if last - first > 1 and last < len(times):
            seconds = times[last] - times[first]
            mbit = (flow.acked[last][1] - flow.acked[first][1]) * per_byte * 8e-6 / seconds
            largest = max(largest, mbit)
            low, high = bisect_left(sampled, times[first]), bisect_left(sampled, times[last])
            if high > low and min(rtt for _, _, rtt in flow.rtts[low:high]) > above_s:
                rates.append(mbit)
        begin_s += window_s
    if len(rates) < WINDOWS:
        mean = (flow.acked[-1][1] - flow.acked[0][1]) * per_byte * 8e-6 / (times[-1] - times[0])
        found.unknown["rate_mbit"] = (
            f"no queue stood for {WINDOWS} windows of {window_s:g} s: the flow did not fill the "
            "path, or its queue is before the place of the capture; its mean was "
            f"{mean:.4g} Mbit/s"
        )
        return None
    rate = float(f"{median(rates):.4g}")
    found.set(
        f"rate while a queue stood, {rate:g} Mbit/s on the wire (median of {len(rates)} windows of "
        f"{window_s:g} s, {min(rates):.4g} to {max(rates):.4g})", "rate_mbit", rate,
    )  # fmt: skip
    # Single windows have gaps that an acknowledgement fills at once.
    ordered = sorted(rates)
    slow, fast = (ordered[int(share * (len(rates) - 1))] for share in (0.1, 0.9))
    if not 0.75 * rate < slow <= fast < 1.25 * rate:
        found.notes.append("the rate varied: other flows, or a path that changes")
    return rate


def _losses(
    flow: _Flow, min_s: float, max_s: float, rate_mbit: float | None, segment_bytes: int,
    frame_bytes: int, found: Found,
) -> None:  # fmt: skip
    """Set random loss, its bursts and the buffer from the segments that were sent again.

    The loss is that of the packets that were sent beside a short queue; a buffer drops none of
    them. The buffer is known if significantly more than this loss was lost beside a long queue.
    """
    samples = sorted(flow.rtts)
    sent_s = [sent for sent, _, _ in samples]
    long_s = FULL * (max_s - min_s)

    def queue_s(end: int) -> float:
        """Return the queue when a segment was first sent, or just before if it has no RTT."""
        at = bisect_left(sent_s, its_s := flow.sent[end][0])
        own = at < len(sent_s) and sent_s[at] == its_s
        return samples[at if own else max(0, at - 1)][2] - min_s

    def full_queue_s(end: int) -> float:
        """Return the queue beside a segment that a buffer dropped: the longer one around it."""
        at = bisect_left(sent_s, flow.sent[end][0])
        return max(rtt for _, _, rtt in samples[max(0, at - 1) : at + 1]) - min_s

    counts = {end: math.ceil(octets / segment_bytes) for end, (_, octets) in flow.sent.items()}
    short = {end for end in counts if queue_s(end) < long_s}
    lost = [end for end in sorted(flow.resent) if end in counts]
    random, overflowed = (
        [end for end in lost if (end in short) is wanted] for wanted in (True, False)
    )
    packets = sum(counts[end] for end in short)
    count = sum(counts[end] for end in random)
    at_random = count / packets * sum(counts[end] for end in {*counts} - short) if packets else 0
    overflows = len(overflowed) > at_random + 3 * math.sqrt(at_random) + 1
    if rate_mbit is None and not (overflows and len(overflowed) > FEW * len(lost)):
        # The packets of a flow that never fills the path wait for each other, and for no buffer.
        overflows = False
        random, packets = lost, sum(counts.values())
        count = sum(counts[end] for end in random)
    if packets < PACKETS_MIN:
        found.unknown["loss_percent"] = (
            f"{packets} packets were sent beside a short queue, and must be {PACKETS_MIN}"
        )
    else:
        low, high = (100 * part for part in _poisson(count, packets))
        found.set(
            f"{count} of {packets} packets sent beside a short queue were sent again, {low:.2g} to "
            f"{high:.2g} % (95 % CI)", "loss_percent", float(f"{100 * count / packets:.3g}"),
        )  # fmt: skip
    if count:
        # Segments that follow each other in the stream were lost together.
        bursts = len({end - flow.sent[end][1] for end in random} - {*random})
        if count / bursts >= BURST:
            mean = float(f"{count / bursts:.3g}")
            found.set(f"in {bursts} bursts", "loss_burst_packets", mean)
        found.notes.append("a packet may be sent again without a loss, so the loss is at most this")
    if rate_mbit is None:
        more = f", but {len(overflowed)} losses beside a long queue are its overflows"
        found.unknown["buffer_packets"] = f"the rate is not known{more if overflows else ''}"
    elif not overflows:
        least = _packets(max_s - min_s, rate_mbit, frame_bytes)
        found.unknown["buffer_packets"] = (
            f"no more than the random losses beside a long queue; it holds at least {least} packets"
        )
    else:
        full_s = sorted(map(full_queue_s, overflowed))[int(0.9 * (len(overflowed) - 1))]
        found.set(
            f"{len(overflowed)} losses beside a queue of {full_s * 1e3:.4g} ms (90 % of them: at "
            "most this)", "buffer_packets", _packets(full_s, rate_mbit, frame_bytes),
        )  # fmt: skip


def _packets(seconds: float, rate_mbit: float, frame_bytes: int) -> int:
    return max(1, round(seconds * rate_mbit * 1e6 / 8 / frame_bytes))


def _poisson(count: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate from a count (exact: Garwood, Biometrika 28, 1936)."""
    from scipy.stats import chi2

    low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    return low / total, chi2.ppf(0.975, 2 * count + 2) / 2 / total


def _of_iperf3(text: str, where: str) -> Found:
    """Read a report of the sending end: intervals with the smoothed RTT, and retransmissions."""
    report = reading.parse_json(text, where, duplicates=True)
    check_schema(report, "iperf3", where, "name a report of one test of `iperf3 --json`")
    intervals = [each for each in report["intervals"] if not each["sum"].get("omitted")]
    sums = [each["sum"] for each in intervals]
    rtts_s = [stream.get("rtt", 0) / 1e6 for each in intervals for stream in each["streams"]]
    if (
        report["start"]["test_start"]["num_streams"] != 1
        or not (sums and len(rtts_s) == len(sums) and min(rtts_s) > 0)
        or not all("retransmits" in each for each in sums)
    ):
        raise UsageError(
            f"{where} must have one TCP stream with RTTs and retransmissions, found another report",
            hint="take the report of the end that sends, without -P, -R, --bidir and --udp",
        )
    min_s = min(rtts_s)
    found = Found()
    found.set(f"smallest smoothed RTT, {min_s * 1e3:.4g} ms", "rtt_ms", float(f"{min_s * 1e3:.4g}"))
    found.notes.append("iperf3's RTT is smoothed by TCP, so the base RTT may be smaller")
    default = packetsizes.DEFAULT
    segment_bytes = report["start"].get("tcp_mss_default", default.segment_bytes)
    frame_bytes = segment_bytes + default.frame_bytes - default.segment_bytes
    above_s = min_s + max(QUEUED_S, QUEUED_SHARE * min_s)
    # An interval's RTT is that at its end.
    rates = [
        total["bits_per_second"] * frame_bytes / segment_bytes / 1e6
        for total, ends in zip(sums[1:], itertools.pairwise(rtts_s), strict=True)
        if min(ends) > above_s
    ]
    if len(rates) >= WINDOWS:
        rate = float(f"{median(rates):.4g}")
        found.set(f"rate of {len(rates)} intervals with a queue, {rate:g} Mbit/s on the wire",
                  "rate_mbit", rate)  # fmt: skip
    else:
        found.unknown["rate_mbit"] = (
            f"the RTT was above its smallest value in {len(rates)} intervals, and must be in "
            f"{WINDOWS}, so the flow did not fill the path"
        )
    resent = round(sum(total["retransmits"] for total in sums))
    octets = sum(total["bits_per_second"] * total["seconds"] / 8 for total in sums)
    packets = round(octets / segment_bytes)
    found.unknown["buffer_packets"] = "a report has no losses over time beside the queue"
    if resent and rates:
        found.unknown["loss_percent"] = (
            f"{resent} of about {packets} packets were sent again, and a queue stood: the losses "
            "may be the path's, or overflows of its buffer"
        )
    elif packets:
        found.set(f"{resent} of about {packets} packets were sent again", "loss_percent",
                  float(f"{100 * resent / packets:.3g}"))  # fmt: skip
    return found
