"""What the samples of a flow's connection say of its window and its round-trip time."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

# A window is cut when it falls below so much of its largest since the last cut ended, however many
# samples the fall takes: recovery lowers it packet by packet. CUBIC keeps 0.7 of its window, Reno
# 0.5; windows that only shrink a little while BBR probes are none.
CUT_SHARE = 0.85
FIRST_S = 1.0


def describe(
    rows: Sequence[dict[str, str]], source_port: int | None, warmup_s: float, duration_s: float
) -> dict[str, float | None]:
    """Describe a connection between the warm-up and the end.

    Args:
        rows: Those of tcp.csv, of all connections.
        source_port: The connection's.
        warmup_s: Where the window begins.
        duration_s: Where it ends.

    Returns:
        TCP's own RTT (ms), its congestion window (packets), how often the slow start threshold
        changed after it was first set, how often per second the window was cut, and how many
        packets were sent again in the replicate's first second, warm-up or not. None where there is
        no sample.
    """
    own = [(float(row["t_s"]), row) for row in rows if row["flow"] == str(source_port)]
    inside = [row for t_s, row in own if warmup_s <= t_s <= duration_s]
    rtts = [float(row["srtt_ms"]) for row in inside]
    windows = [int(row["cwnd_packets"]) for row in inside]
    thresholds = [row["ssthresh_packets"] for row in inside if row["ssthresh_packets"]]
    early = [int(row["retransmits"]) for t_s, row in own if t_s <= FIRST_S]
    return {
        "srtt_mean_ms": statistics.fmean(rtts) if rtts else None,
        "srtt_std_ms": statistics.pstdev(rtts) if rtts else None,
        "srtt_median_ms": statistics.median(rtts) if rtts else None,
        "cwnd_median_packets": statistics.median(windows) if windows else None,
        "ssthresh_changes": sum(a != b for a, b in itertools.pairwise(thresholds)),
        "window_cuts_per_s": cuts(windows) / (duration_s - warmup_s) if windows else None,
        "retransmits_first_second": early[-1] if early else None,
    }


def cuts(windows: Sequence[int]) -> int:
    """Count how often a window was cut: it falls from a peak, and then grows again."""
    found, top, falling = 0, 0, False
    for before, window in itertools.pairwise([0, *windows]):
        if falling and window > before:
            falling, top = False, window
        elif not falling:
            top = max(top, window)
            falling = window < CUT_SHARE * top
            found += falling
    return found
