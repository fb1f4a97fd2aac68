"""Packet-delivery traces: when a cellular link may send 1500 bytes. Pure data.

The format is mahimahi's (mm-link(1)): a line is a time in whole milliseconds since the start, at
which one packet of 1500 bytes may leave; several equal lines are several packets. The trace repeats
from its last line on.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Iterator, Sequence

from losslab.errors import LosslabError

OPPORTUNITY_BYTES = 1500
# What is known of the source's traces, Verizon-LTE-short: 140 s, with 58,655 opportunities on the
# way of the data and 69,367 on the way back. (Its 5.04 Mbit/s counts 1504 bytes to each, 4 of them
# a header of the TUN device.)
DURATION_MS = 140_000
MEAN_MBIT = 58_655 * OPPORTUNITY_BYTES * 8 / 1e3 / DURATION_MS
MEAN_BACK_MBIT = 69_367 * OPPORTUNITY_BYTES * 8 / 1e3 / DURATION_MS
# The model: a Poisson process whose rate's logarithm is an Ornstein-Uhlenbeck process, with
# outages. The Sprout paper (Winstein et al., NSDI 2013, section 3) has the rate itself in Brownian
# motion; its rates go to zero and stay there far longer than those of the source's trace. These
# numbers give the statistics of the data's trace: its rates over 0.5 s (5, 25, 50, 75, 95 %: 72,
# 218, 352, 572, 936 packets/s), their autocorrelation (0.77, 0.62, 0.34 at 1, 2, 5 s), and 6.7 %
# and 3.2 % of its time in gaps of more than 50 and 100 ms. That of the way back has another mean.
LOG_RATE_SD = 0.7
RATE_MEMORY_S = 5.5
# (outages per second, their mean length in s), lengths exponential: of scheduling, and of coverage.
OUTAGES = ((0.85, 0.07), (0.007, 1.0))
TICK_MS = 10
# Of a line: three hundred years.
MOST_DIGITS = 13
# What traces are described by.
RATE_BIN_MS = 500
LONG_GAP_MS = 100


def parse(text: str, where: str) -> list[int]:
    """Read a trace.

    The opportunities are in milliseconds, and never fall.
    """
    times: list[int] = []
    # Strict as mahimahi is: no blanks, no other ends of lines, no empty lines but after the last.
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        if not line.isascii() or not line.isdigit() or len(line) > MOST_DIGITS:
            raise LosslabError(
                f"a trace's line must be a whole number of milliseconds, found {line!r} in "
                f"{where}, line {number}"
            )
        ms = int(line)
        if times and ms < times[-1]:
            raise LosslabError(
                f"a trace's times must never fall, found {ms} after {times[-1]} in {where}, "
                f"line {number}"
            )
        times.append(ms)
    if not times or times[-1] == 0:
        raise LosslabError(f"a trace must last for more than 0 ms, found {where} does not")
    return times


def write(times: Sequence[int]) -> str:
    """Write a trace in the format that `parse` reads."""
    return "".join(f"{ms}\n" for ms in times)


def opportunities(times: Sequence[int]) -> Iterator[int]:
    """Yield the opportunities' milliseconds for ever; a round begins where the last one ended."""
    for round_number in itertools.count():
        for ms in times:
            yield round_number * times[-1] + ms


def mean_mbit(times: Sequence[int]) -> float:
    """Return the mean capacity in Mbit/s."""
    return len(times) * OPPORTUNITY_BYTES * 8 / 1e3 / times[-1]


def describe(times: Sequence[int]) -> dict[str, float]:
    """Describe a trace: capacity, spread of its rates over 0.5 s, and time in gaps over 100 ms."""
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
    """Draw a cellular-like trace, whose capacity meets `mean` (Mbit/s) to within the last packet.

    Returns the milliseconds of the delivery opportunities.
    """
    rng = random.Random(seed)
    rates = _rates(rng, duration_ms // TICK_MS)
    wanted = round(mean * 1e3 * duration_ms / (OPPORTUNITY_BYTES * 8))
    # Given their number, the instants of a Poisson process are independent draws from its rate.
    ticks = rng.choices(range(len(rates)), weights=rates, k=wanted)
    times = sorted(1 + tick * TICK_MS + rng.randrange(TICK_MS) for tick in ticks)
    times[-1] = duration_ms
    return times


def _rates(rng: random.Random, ticks: int) -> list[float]:
    """Walk the rate relative to its median, one value per tick; zero during outages."""
    tick_s = TICK_MS / 1e3
    keeps = math.exp(-tick_s / RATE_MEMORY_S)
    noise = LOG_RATE_SD * math.sqrt(1 - keeps**2)
    log_rate = rng.gauss(0, LOG_RATE_SD)
    rates = []
    for _ in range(ticks):
        log_rate = keeps * log_rate + rng.gauss(0, noise)
        rates.append(math.exp(log_rate))
    for per_s, mean_s in OUTAGES:
        begin_s = rng.expovariate(per_s)
        while begin_s < ticks * tick_s:
            end_s = begin_s + rng.expovariate(1 / mean_s)
            for tick in range(round(begin_s / tick_s), min(round(end_s / tick_s), ticks)):
                rates[tick] = 0.0
            begin_s = end_s + rng.expovariate(per_s)
    return rates
