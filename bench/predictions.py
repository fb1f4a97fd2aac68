"""Compute the predictions of the study `predictions` from formulas, without a run.

    python -m bench.predictions

Three models, each of a published rule:

- `cubic_mbit`: CUBIC round trip by round trip (RFC 9438, sections 4.2 to 4.7) under random loss of
  whole aggregates. It includes the start of a run, which an average window does not.
- `selective_repeat`: the goodput of a flow that only a window limits, if every lost packet is sent
  again a round trip later. The window's left edge waits for the oldest missing packet.
- `average_window`: the mean window under exactly periodic losses (RFC 9438, equations 3 and 6).

The intervals in studies/predictions/claims.yaml are the models' numbers with the margins that
stand there.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from statistics import fmean, quantiles, stdev
from typing import Any

# Constants of RFC 9438: C (5.1) and the decrease factor (4.6).
C, BETA = 0.4, 0.7
ALPHA = 3 * (1 - BETA) / (1 + BETA)  # 4.3
# Bytes of a full packet: payload with timestamps, and on the wire (Ethernet header, no preamble).
PAYLOAD, FRAME = 1448, 1514
# Packets of 1448 bytes in the largest aggregate, 64 KiB. Linux makes aggregates of what the pacing
# rate sends in about a millisecond, of at least two packets (tcp_tso_autosize).
AGGREGATE_MOST, AGGREGATE_LEAST, AGGREGATE_S = 45, 2, 1 / 1024
# Linux paces at 1.2 times the window per round trip (tcp_pacing_ca_ratio).
PACING = 1.2
# Runs of each condition; one of 60 s at 2 ms has 30,000 round trips.
RUNS = 400


def average_window(loss: float, rtt_s: float) -> float:
    """Return CUBIC's mean window in packets if every 1/loss-th packet is lost."""
    reno = math.sqrt(3 / (2 * loss))  # equation 3 with AIMD(1, 0.5)
    # Equation 6.
    factor = math.sqrt(math.sqrt(C * (3 + BETA) / (4 * (1 - BETA))))
    cubic = factor * math.pow(rtt_s / loss, 0.75)
    return max(reno, cubic)


def mbit_of(packets: float, rtt_s: float) -> float:
    """Return the goodput in Mbit/s of a window per round trip."""
    return packets * PAYLOAD * 8 / rtt_s / 1e6


def cubic_mbit(
    draws: random.Random,
    *,
    loss: float,
    rtt_s: float,
    rate_mbit: float,
    buffer_bdp: float,
    aggregates: bool,
    duration_s: float,
) -> float:
    """Return the goodput in Mbit/s of one run of CUBIC from its start.

    Each aggregate is lost with probability `loss`. Slow start ends at a loss, or, as HyStart does
    when the RTT begins to grow, at a window of one bandwidth-delay product.
    """
    per_s = rate_mbit * 1e6 / 8 / FRAME
    bdp = per_s * rtt_s
    window, most, started, reno = 10.0, 0.0, 0.0, 0.0
    slow_start, time_s, delivered = True, 0.0, 0.0
    while time_s < duration_s:
        round_s = max(rtt_s, window / per_s)
        pacing = (2 if slow_start else PACING) * window / round_s
        size = min(max(pacing * AGGREGATE_S, AGGREGATE_LEAST), AGGREGATE_MOST) if aggregates else 1
        lost = draws.random() < 1 - (1 - loss) ** (window / size)
        delivered += window * (1 - loss)
        time_s += round_s
        if lost or window > bdp * (1 + buffer_bdp):
            # Fast convergence (4.7) and the decrease (4.6). The recovery's round does not grow.
            most = window * (1 + BETA) / 2 if window < most else window
            window = max(window * BETA, 2.0)
            delivered += window * (1 - loss)
            time_s += max(rtt_s, window / per_s)
            reno, started, slow_start = window, time_s, False
        elif slow_start:
            window = min(2 * window, max(bdp, window))
            if window >= bdp:
                most, reno, started, slow_start = window, window, time_s, False
        else:
            since = time_s - started
            knee = (max(most - most * BETA, 0) / C) ** (1 / 3) if most > reno else 0.0
            target = C * (since + rtt_s - knee) ** 3 + max(most, reno)
            reno_window = reno + ALPHA * since / max(rtt_s, window / per_s)
            window = max(min(max(target, window), 1.5 * window), reno_window)
    return delivered * PAYLOAD * 8 / time_s / 1e6


def selective_repeat(
    draws: random.Random,
    *,
    loss: float,
    rtt_s: float,
    window_packets: float,
    rate_mbit: float = math.inf,
    packets: int = 100_000,
) -> float:
    """Return the goodput in Mbit/s of a flow with a fixed window.

    Packet i is sent when packet i - window is acknowledged in order, and takes a round trip for
    each time that it is sent. `rate_mbit` bounds the rate of packets, retransmissions included.
    """
    window = int(window_packets)
    gap_s = 0.0 if math.isinf(rate_mbit) else FRAME * 8 / (rate_mbit * 1e6) / (1 - loss)
    edge = [0.0] * packets  # time at which all packets up to i are acknowledged
    sent = 0.0
    for i in range(packets):
        sent = max(sent + gap_s, edge[i - window] if i >= window else 0.0)
        trips = 1
        while draws.random() < loss:
            trips += 1
        acknowledged = sent + trips * rtt_s
        edge[i] = max(acknowledged, edge[i - 1]) if i else acknowledged
    return packets * PAYLOAD * 8 / edge[-1] / 1e6


def cubic_rows() -> Iterator[str]:
    """Yield CUBIC's goodput in the conditions of the sources."""
    cases: list[tuple[str, dict[str, Any]]] = [
        (f"P1 {rtt} ms, aggregates {'on' if on else 'off'}", dict(
            loss=0.00025, rtt_s=rtt / 1e3, rate_mbit=1000, buffer_bdp=1, aggregates=on))
        for on in (True, False) for rtt in (20, 60, 100)
    ] + [
        (f"P2 {rate} Mbit/s {rtt} ms, {loss} %", dict(
            loss=loss / 100, rtt_s=rtt / 1e3, rate_mbit=rate, buffer_bdp=1, aggregates=False))
        for rate, rtt, losses in ((100, 500, (0.1, 1)), (10, 100, (5, 10))) for loss in losses
    ]  # fmt: skip
    for name, case in cases:
        draws = random.Random(1)
        runs = [cubic_mbit(draws, duration_s=60, **case) for _ in range(RUNS)]
        low, *_, high = quantiles(runs, n=20)
        yield (
            f"{name}: mean {fmean(runs):.3g} Mbit/s, {100 * stdev(runs) / fmean(runs):.0f} % "
            f"scatter, 90 % of the runs {low:.3g} to {high:.3g}"
        )


def window_rows() -> Iterator[str]:
    """Yield the goodput of flows that a window limits."""
    for loss in (0, 0.1, 0.25, 0.5, 1, 2, 5):
        rate = selective_repeat(
            random.Random(1), loss=loss / 100, rtt_s=0.05, window_packets=262_140 / PAYLOAD
        )
        yield f"P3 {loss} %: {rate:.4g} Mbit/s, {rate * 1e6 / 8 / 1024:.0f} KiB/s"
    for rtt, loss in [(rtt, loss) for rtt in (2, 100, 500) for loss in (1, 5, 10)]:
        for window_mib in (3, 4):
            rate = selective_repeat(
                random.Random(1), loss=loss / 100, rtt_s=rtt / 1e3,
                rate_mbit=100 * (1 - loss / 100), window_packets=window_mib * 2**20 / PAYLOAD,
            )  # fmt: skip
            yield f"P2 BBR {rtt} ms, {loss} %, window of {window_mib} MiB: {rate:.4g} Mbit/s"


def periodic_rows() -> Iterator[str]:
    """Yield the mean windows under periodic losses."""
    for rtt_s, loss in [(rtt, loss) for rtt in (0.1, 0.01) for loss in (1e-2, 1e-3, 1e-4)]:
        packets = average_window(loss, rtt_s)
        yield (
            f"P4 {1e3 * rtt_s:.0f} ms, 1 in {1 / loss:.0f}: {packets:.1f} packets, "
            f"{mbit_of(packets, rtt_s):.4g} Mbit/s"
        )


def main() -> None:
    """Print the models' numbers."""
    print(*cubic_rows(), *window_rows(), *periodic_rows(), sep="\n")


if __name__ == "__main__":
    main()
