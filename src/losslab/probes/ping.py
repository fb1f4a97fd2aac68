"""Round-trip times from iputils' `ping`."""

from __future__ import annotations

import re
from pathlib import Path

COLUMNS = "t_s,rtt_ms"
BEFORE_COUNT = 20  # at 10 % loss each way, all of 20 are lost in one of 10^14 runs
BEFORE_INTERVAL_S = 0.02
DURING_INTERVAL_S = 0.1

_REPLY = re.compile(r"icmp_seq=(\d+).* time=([\d.]+) ms")


def command(address: str, interval_s: float, count: int) -> list[str]:
    """Write the command line; `-n` keeps name resolution out, `-W` bounds the wait for the last."""
    return [
        "ping", "-n", "-c", str(count), "-i", f"{interval_s:g}", "-W", "5", address,
    ]  # fmt: skip


def parse(text: str, interval_s: float) -> list[tuple[float, float]]:
    """Return (time sent in s since the first, round-trip time in ms) of each answered request."""
    return [((int(match[1]) - 1) * interval_s, float(match[2])) for match in _REPLY.finditer(text)]


def write_csv(replies: list[tuple[float, float]], path: Path) -> None:
    """Write replies as `COLUMNS`."""
    lines = [f"{t_s:.3f},{rtt_ms:.3f}" for t_s, rtt_ms in replies]
    path.write_text("\n".join([COLUMNS, *lines]) + "\n")
