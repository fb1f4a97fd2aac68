"""Traces and logs of trace-driven links. Pure data; `exact` puts a trace into a path.

The kernel's link (net/sched/sch_link.c) has mahimahi's rules (mm-link, frontend/link_queue.cc):
each opportunity of the trace sends 1500 bytes, of one or several packets. A packet that is sent in
part continues at the next opportunity. An opportunity with an empty queue is lost. Times are whole
milliseconds. Full packets leave a FIFO at the same times as in mahimahi. Differences:

- A packet counts with its IP length. In mahimahi it has 4 bytes more, a header of the TUN device,
  and an opportunity has 1504 bytes. A link full of 52-byte acknowledgements therefore carries 7 %
  more packets here.
- The queues are the kernel's qdiscs. mahimahi has its own CoDel and PIE.

A trace has the times at which a cellular link may send 1500 bytes, in mahimahi's format
(mm-link(1)). A line is a time in whole milliseconds since the start, at which one packet of 1500
bytes may leave; several equal lines are several packets. The trace repeats after its last line.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
import statistics
from collections.abc import Iterator, Sequence

from losslab.errors import LosslabError

OPPORTUNITY_BYTES = 1500
# Logs of the links of the forward (`data`) and the reverse path (`back`) in a replicate's folder.
LOG = "link.log"
LOGS = {"data": LOG, "back": "link-back.log"}
# Statistics of the source's traces, Verizon-LTE-short: 140 s, with 58,655 opportunities on the
# forward path and 69,367 on the reverse path. (Its 5.04 Mbit/s count 1504 bytes per opportunity, 4
# of them a header of the TUN device.)
DURATION_MS = 140_000
MEAN_MBIT = 58_655 * OPPORTUNITY_BYTES * 8 / 1e3 / DURATION_MS
MEAN_BACK_MBIT = 69_367 * OPPORTUNITY_BYTES * 8 / 1e3 / DURATION_MS
# The model is a Poisson process with outages; the logarithm of its rate is an Ornstein-Uhlenbeck
# process. In the Sprout paper (Winstein et al., NSDI 2013, section 3), the rate itself follows
# Brownian motion: its rates stay at zero far longer than those of the source's trace. These
# parameters were chosen by the statistics of the forward path's trace: its rates over 0.5 s (5, 25,
# 50, 75, 95 %: 72, 218, 352, 572, 936 packets/s), their autocorrelation (0.77, 0.62, 0.34 at 1, 2,
# 5 s), and 6.7 % and 3.2 % of its time in gaps of more than 50 and 100 ms. The reverse path's trace
# has another mean.
LOG_RATE_SD = 0.7
RATE_MEMORY_S = 5.5
# (outages per second, mean length in s) of scheduling gaps and of lost coverage; lengths are
# exponential.
OUTAGES = ((0.85, 0.07), (0.007, 1.0))
TICK_MS = 10
MAX_DIGITS = 13
# `describe` and the link take memory and time that grow with these: a run has at most an hour, and
# waits for the link's last packets after it.
MAX_LENGTH_MS = 86_400_000
MAX_GAP_MS = 300_000
HINT = "write whole milliseconds in ascending order, one per line, with line ends of Unix (LF)"
# Parameters of `describe`.
RATE_BIN_MS = 500
LONG_GAP_MS = 100


def parse(text: str, where: str) -> list[int]:
    """Parse a trace into the times of its opportunities in ms, in ascending order.

    `where` names the trace in errors. Raises LosslabError if the text is not a trace.
    """
    times: list[int] = []
    # As strict as mahimahi: no blanks, no other line ends, and no empty line except the last.
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        place = f"in {where}, line {number}"
        if not line.isascii() or not line.isdigit() or len(line) > MAX_DIGITS:
            raise LosslabError(
                "a trace's line must be a whole number of milliseconds, found "
                f"{line!r:.60} {place}",
                hint=HINT,
            )
        ms, before = int(line), times[-1] if times else 0
        if ms < before:
            raise LosslabError(
                f"a trace's times must not decrease, found {ms} after {before} {place}", hint=HINT
            )
        if ms > MAX_LENGTH_MS:
            raise LosslabError(
                f"a trace must last at most {MAX_LENGTH_MS} ms, which is a day, found {ms} {place}",
                hint="cut the trace: a run lasts an hour at most, and a shorter trace repeats",
            )
        if ms - before > MAX_GAP_MS:
            raise LosslabError(
                f"a trace must have an opportunity every {MAX_GAP_MS} ms, found {ms} after "
                f"{before} {place}",
                hint="shorten the gap",
            )
        times.append(ms)
    if not times or times[-1] == 0:
        raise LosslabError(
            f"a trace must last more than 0 ms, found no time above 0 in {where}", hint=HINT
        )
    return times


def write(times: Sequence[int]) -> str:
    """Return a trace's text in the format that `parse` reads."""
    return "".join(f"{ms}\n" for ms in times)


def opportunities(times: Sequence[int], start_ms: int = 0) -> Iterator[int]:
    """Yield the times of the opportunities in ms from `start_ms` on; the trace repeats."""
    for round_number in itertools.count():
        for ms in times:
            at_ms = round_number * times[-1] + ms - start_ms
            if at_ms >= 0:
                yield at_ms


def capacity_bytes(times: Sequence[int], begin_ms: float, end_ms: float, start_ms: int) -> int:
    """Return the capacity of a trace that starts at `start_ms`, between two times of the link."""
    used = itertools.takewhile(lambda ms: ms <= end_ms, opportunities(times, start_ms))
    return OPPORTUNITY_BYTES * sum(ms >= begin_ms for ms in used)


def most_opportunities(times: Sequence[int], length_ms: float) -> int:
    """Return the most opportunities of a trace, which repeats, in any window of a length."""
    rounds, rest_ms = divmod(length_ms, times[-1])
    twice = [*times, *(times[-1] + ms for ms in times)]
    in_rest = max(bisect.bisect_right(twice, ms + rest_ms) - n for n, ms in enumerate(times))
    return int(rounds) * len(times) + in_rest


def excess_bytes(lines: Sequence[str], times: Sequence[int], start_ms: int) -> int:
    """Return by how many bytes any window of a log carried more than its opportunities, at most.

    A link may exceed them by the part of one packet that it sent before the window.
    """
    departures = ((int(w[0]), int(w[2])) for line in lines if (w := line.split())[1] == "-")
    schedule = opportunities(times, start_ms)
    next_ms, ahead, lowest, worst = next(schedule), 0, 0, 0
    for ms, packets in itertools.groupby(departures, key=lambda departure: departure[0]):
        while next_ms < ms:
            ahead, next_ms = ahead - OPPORTUNITY_BYTES, next(schedule)
        lowest = min(lowest, ahead)
        while next_ms == ms:
            ahead, next_ms = ahead - OPPORTUNITY_BYTES, next(schedule)
        ahead += sum(octets for _, octets in packets)
        worst = max(worst, ahead - lowest)
    return worst


def mean_mbit(times: Sequence[int]) -> float:
    """Return the mean capacity in Mbit/s."""
    return len(times) * OPPORTUNITY_BYTES * 8 / 1e3 / times[-1]


def describe(times: Sequence[int]) -> dict[str, float]:
    """Return a trace's mean rate, the variation of its rates over 0.5 s, and its gaps."""
    bins = [0] * (times[-1] // RATE_BIN_MS + 1)
    for ms in times:
        bins[ms // RATE_BIN_MS] += 1
    whole = bins[:-1] or bins
    spread = statistics.pstdev(whole) / statistics.fmean(whole) if any(whole) else 0.0
    gaps = [b - a for a, b in itertools.pairwise([0, *times])]
    return {
        "trace_mbit": mean_mbit(times),
        "trace_rate_cv": spread,
        "trace_gap_max_ms": max(gaps),
        "trace_gaps_percent": 100 * sum(gap for gap in gaps if gap > LONG_GAP_MS) / times[-1],
    }


def generate(seed: int, duration_ms: int = DURATION_MS, mean: float = MEAN_MBIT) -> list[int]:
    """Generate a cellular-like trace with a mean in Mbit/s: times of its opportunities in ms."""
    rng = random.Random(seed)
    rates = _rates(rng, duration_ms // TICK_MS)
    # Given their number, the times of a Poisson process are independent draws from its rate.
    ticks = rng.choices(range(len(rates)), weights=rates, k=count(mean, duration_ms))
    times = sorted(1 + tick * TICK_MS + rng.randrange(TICK_MS) for tick in ticks)
    times[-1] = duration_ms
    return times


def count(mean: float, duration_ms: int = DURATION_MS) -> int:
    """Return the number of opportunities of a drawn trace with a mean in Mbit/s."""
    return round(mean * 1e3 * duration_ms / (OPPORTUNITY_BYTES * 8))


def _rates(rng: random.Random, ticks: int) -> list[float]:
    """Draw the rate relative to its median, one value per tick; it is 0 during outages."""
    tick_s = TICK_MS / 1e3
    decay = math.exp(-tick_s / RATE_MEMORY_S)
    noise = LOG_RATE_SD * math.sqrt(1 - decay**2)
    log_rate = rng.gauss(0, LOG_RATE_SD)
    rates = []
    for _ in range(ticks):
        log_rate = decay * log_rate + rng.gauss(0, noise)
        rates.append(math.exp(log_rate))
    for per_s, mean_s in OUTAGES:
        begin_s = rng.expovariate(per_s)
        while begin_s < ticks * tick_s:
            end_s = begin_s + rng.expovariate(1 / mean_s)
            for tick in range(round(begin_s / tick_s), min(round(end_s / tick_s), ticks)):
                rates[tick] = 0.0
            begin_s = end_s + rng.expovariate(per_s)
    return rates


def backlog(lines: Sequence[str], times_ms: Sequence[float]) -> list[tuple[int, int, int]]:
    """Return (packets queued, bytes queued, drops so far) of a log at ascending times.

    A log has a line for each event: `MS + BYTES` arrival, `MS - BYTES DELAY` departure,
    `MS d PACKETS BYTES` drop. Arrivals and departures are logged as in mahimahi, which logs drops
    on arrival only.
    """
    states = []
    packets = octets = drops = 0
    events = [line.split() for line in lines]
    next_event = 0
    for time_ms in times_ms:
        while next_event < len(events) and int(events[next_event][0]) <= time_ms:
            _, kind, *numbers = events[next_event]
            next_event += 1
            if kind == "+":
                packets, octets = packets + 1, octets + int(numbers[0])
            elif kind == "-":
                packets, octets = packets - 1, octets - int(numbers[0])
            else:
                count = int(numbers[0])
                packets, octets = packets - count, octets - int(numbers[1])
                drops += count
        states.append((packets, octets, drops))
    return states


def summarise(
    lines: Sequence[str], begin_ms: float = 0.0, end_ms: float = math.inf
) -> dict[str, float | None]:
    """Summarise a log as mahimahi's `mm-throughput-graph` does; empty if nothing departed.

    Throughput covers the time from `begin_ms` to `end_ms`. In that script, it covers the time from
    the log's first to its last opportunity, which `mm-link --once` makes the trace's length.

    The signal delay of a millisecond is the minimum time that a message of that time needs to reach
    the other end: the delay of the packets sent at that time, or the wait for the next packet sent
    plus its delay.
    """
    stamps: list[int] = []
    delays: list[int] = []
    signal_ms: dict[int, int] = {}
    octets = 0
    for line in lines:
        at, kind, *numbers = line.split()
        if not begin_ms <= int(at) <= end_ms:
            continue
        stamps.append(int(at))
        if kind == "-":
            octets += int(numbers[0])
            delay = int(numbers[1])
            delays.append(delay)
            sent_ms = int(at) - delay
            signal_ms[sent_ms] = min(delay, signal_ms.get(sent_ms, delay))
    span_ms = (max(stamps, default=0) if math.isinf(end_ms) else end_ms) - begin_ms
    if not delays or span_ms <= 0:
        return {}
    for ms in range(max(signal_ms), min(signal_ms) - 1, -1):
        if ms not in signal_ms:
            signal_ms[ms] = signal_ms[ms + 1] + 1
    throughput_mbit = octets * 8 / 1e3 / span_ms
    signal_delay_ms = percentile_95(list(signal_ms.values()))
    return {
        "link_throughput_mbit": throughput_mbit,
        "queue_delay_p95_ms": percentile_95(delays),
        "signal_delay_p95_ms": signal_delay_ms,
        # Throughput over the 95th percentile of the signal delay in s.
        "power": throughput_mbit / (signal_delay_ms / 1e3) if signal_delay_ms else None,
    }


def percentile_95(values: Sequence[int]) -> int:
    """Return the value at 95 % of the sorted values, as `mm-throughput-graph` does."""
    return sorted(values)[int(0.95 * len(values))]
