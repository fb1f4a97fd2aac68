"""Limits of a sender: its congestion window or its pacing, from samples of its socket.

The kernel counts the time in which the receiver's window limited a flow (`rwnd_limited_percent`).
It does not count the other limits, so they follow from the samples of tcp.csv.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from losslab.emulation.qdiscs import FRAME_BYTES
from losslab.study.condition import Condition

# Payload of a full segment: without the headers of Ethernet (14 bytes), IP (20) and TCP (32).
PAYLOAD_BYTES = FRAME_BYTES - 14 - 20 - 32
# A limit counts as reached from this share on: packets that are lost are not delivered, and BBR
# sends at 3/4 to 5/4 of its rate.
REACHED = 0.8


def of_samples(
    rows: Sequence[Mapping[str, str]], source_port: str, condition: Condition
) -> dict[str, float]:
    """Return the shares of samples, in percent, at which cwnd or pacing limited a flow.

    What is in flight at a sample is delivered within the next RTT. The window limits if that is at
    least 80 % of it, and pacing limits if not the window does and the data of that RTT have at
    least 80 % of the pacing rate. In the remaining samples, the application has no data, the
    receiver's window limits, or the sender waits for a timeout or recovers from losses.

    Also returns the median of the pacing rate, and the share of samples with a window below the
    path's bandwidth-delay product; nothing without samples. `rows` are those of tcp.csv.
    """
    own = [row for row in rows if row["flow"] == source_port]
    times = [float(row["t_s"]) for row in own]
    delivered = [float(row["delivered_bytes"]) for row in own]
    bdp_packets = condition.rate_mbit * condition.rtt_ms * 1e3 / 8 / FRAME_BYTES
    rates: list[float] = []
    window = pacing = below = 0
    for index, row in enumerate(own):
        rtt_s = float(row["srtt_ms"]) / 1e3
        after = bisect_left(times, times[index] + rtt_s)
        inside = condition.warmup_s <= times[index] <= condition.duration_s
        if not inside or after in (index, len(own)):
            continue
        step_s, rest_s = times[after] - times[after - 1], times[index] + rtt_s - times[after - 1]
        end = delivered[after - 1] + rest_s / step_s * (delivered[after] - delivered[after - 1])
        flight_bytes = end - delivered[index]
        sent_mbit = flight_bytes * FRAME_BYTES / PAYLOAD_BYTES * 8 / 1e6 / rtt_s
        cwnd_packets, paced_mbit = int(row["cwnd_packets"]), float(row["pacing_mbit"])
        rates.append(paced_mbit)
        below += cwnd_packets < bdp_packets
        if flight_bytes >= REACHED * cwnd_packets * PAYLOAD_BYTES:
            window += 1
        elif 0 < REACHED * paced_mbit <= sent_mbit:
            pacing += 1
    if not rates:
        return {}
    return {
        "cwnd_limited_percent": 100 * window / len(rates),
        "pacing_limited_percent": 100 * pacing / len(rates),
        "pacing_median_mbit": statistics.median(rates),
        "below_bdp_percent": 100 * below / len(rates),
    }
