"""Families of seeds: the same cells with other random draws.

Limits and set-ups may have been tuned on the first family's results. A campaign with another family
(`seed_family`) measures the same cells with seeds that nothing was tuned on. This is not a part of
`seeds.py`, because the guest imports that module, and its code enters every cell's fingerprint.
"""

from __future__ import annotations

from losslab.study.condition import Condition
from losslab.study.seeds import derived_seed, replicate_seed

FIRST = 1


def seed_of(condition: Condition, replicate: int, family: int = FIRST) -> int:
    """Derive a replicate's seed in a family; all algorithms share it, as in `replicate_seed`."""
    seed = replicate_seed(condition, replicate)
    return seed if family == FIRST else derived_seed(seed, f"family {family}")
