"""The seeds of a condition's replicates. Standard library only: the guest imports it."""

from __future__ import annotations

import hashlib
import json

from losslab.study.condition import AXES, NO_TRACE, Condition


def replicate_seed(condition: Condition, replicate: int) -> int:
    """Derive a replicate's seed from its condition without the algorithm or scheme.

    Algorithms thus meet the same losses, phases and start jitter, so that comparisons are paired,
    while different conditions stay independent. Which algorithm a competitor has does not count
    either, only that there is one. The app quic has the seeds of iperf3. Over a trace, the app and
    the link's queue do not count: schemes and the kernel's algorithms meet the same traces.
    """
    values = condition.to_json()
    if condition.app == "quic":
        values["app"] = "iperf3"
    if condition.trace != NO_TRACE:
        values |= {"app": "datagram", "queue": "fifo"}
    counting = {name: its.in_seed(values[name]) for name, its in AXES.items()}
    shared = {name: value for name, value in counting.items() if value is not None}
    text = json.dumps([shared, replicate], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & 0x7FFF_FFFF


def derived_seed(seed: int, purpose: str) -> int:
    """Derive the seed of one random source (`netem-data`, `kernel`, ...) from a replicate's."""
    digest = hashlib.sha256(f"{seed}:{purpose}".encode()).digest()
    return 1 + int.from_bytes(digest[:4], "big") % 0x7FFF_FFFE
