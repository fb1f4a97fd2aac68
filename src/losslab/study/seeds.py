"""The seeds of replicates. Use only the standard library: the guest imports this module."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from losslab.study import features
from losslab.study.axes import NONE

if TYPE_CHECKING:
    from losslab.study.condition import Condition


def replicate_seed(condition: Condition, replicate: int) -> int:
    """Derive a replicate's seed from its condition, without the algorithm and the scheme.

    All algorithms see the same losses, phases and start jitter, so comparisons are paired.
    Different conditions are independent. The seed depends on whether there is a competitor, not on
    its algorithm. An app may share the seeds of another. Over a trace, the seed does not depend on
    the app and the link's queue, so schemes and the kernel's algorithms see the same traces.
    """
    from losslab.study.condition import AXES  # its import of features imports this module

    values = condition.to_json()
    values["app"] = features.apps()[condition.app].seeds_as or condition.app
    if condition.trace != NONE:
        values |= {"app": "datagram", "queue": "fifo"}
    parts = {name: axis.in_seed(values[name]) for name, axis in AXES.items()}
    shared = {name: value for name, value in parts.items() if value is not None}
    text = json.dumps([shared, replicate], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & 0x7FFF_FFFF


def derived_seed(seed: int, purpose: str) -> int:
    """Derive the seed of a random source (`netem-data`, `kernel`, ...) from a replicate's seed."""
    digest = hashlib.sha256(f"{seed}:{purpose}".encode()).digest()
    return 1 + int.from_bytes(digest[:4], "big") % 0x7FFF_FFFE
