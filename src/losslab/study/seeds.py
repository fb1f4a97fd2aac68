"""The seeds of a condition's replicates. Standard library only: the guest imports it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from losslab.study import features
from losslab.study.axes import NONE

if TYPE_CHECKING:
    from losslab.study.condition import Condition


def replicate_seed(condition: Condition, replicate: int) -> int:
    """Derive a replicate's seed from its condition without the algorithm or scheme.

    Algorithms thus meet the same losses, phases and start jitter, so that comparisons are paired,
    while different conditions stay independent. Which algorithm a competitor has does not count
    either, only that there is one. An app may have the seeds of another. Over a trace, the app and
    the link's queue do not count: schemes and the kernel's algorithms meet the same traces.
    """
    from losslab.study.condition import AXES  # which imports features, and they this

    values = condition.to_json()
    values["app"] = features.apps()[condition.app].seeds_as or condition.app
    if condition.trace != NONE:
        values |= {"app": "datagram", "queue": "fifo"}
    counting = {name: its.in_seed(values[name]) for name, its in AXES.items()}
    shared = {name: value for name, value in counting.items() if value is not None}
    text = json.dumps([shared, replicate], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & 0x7FFF_FFFF


def derived_seed(seed: int, purpose: str) -> int:
    """Derive the seed of one random source (`netem-data`, `kernel`, ...) from a replicate's."""
    digest = hashlib.sha256(f"{seed}:{purpose}".encode()).digest()
    return 1 + int.from_bytes(digest[:4], "big") % 0x7FFF_FFFE
