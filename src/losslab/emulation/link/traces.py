"""Packet-delivery traces: the times at which a cellular link may send 1500 bytes. Pure data.

The format is mahimahi's (mm-link(1)). A line is a time in whole milliseconds since the start, at
which one packet of 1500 bytes may leave; several equal lines are several packets. The trace repeats
after its last line.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Iterator, Sequence

from losslab.errors import LosslabError

OPPORTUNITY_BYTES = 1500
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


def opportunities(times: Sequence[int]) -> Iterator[int]:
    """Yield the times of the opportunities in ms; the trace repeats without end."""
    for round_number in itertools.count():
        for ms in times:
            yield round_number * times[-1] + ms


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
    count = round(mean * 1e3 * duration_ms / (OPPORTUNITY_BYTES * 8))
    # Given their number, the times of a Poisson process are independent draws from its rate.
    ticks = rng.choices(range(len(rates)), weights=rates, k=count)
    times = sorted(1 + tick * TICK_MS + rng.randrange(TICK_MS) for tick in ticks)
    times[-1] = duration_ms
    return times


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
