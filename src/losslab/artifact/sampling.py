"""Which replicates of an archive are run again, and what came of each.

The sample is drawn by the day and the list of digests: nobody knows it while results are made.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab.campaign import rerun
from losslab.campaign.folder import MANIFEST_FILE
from losslab.campaign.integrity import FILES
from losslab.campaign.replicate import ATTEMPTS
from losslab.errors import LosslabError
from losslab.instrument.archive import digest


class CannotRunError(LosslabError):
    """A replicate that cannot be run here, for want of its instrument or of trust."""


def sample(paths: Sequence[str], count: int | None, day: str, digests: Path) -> list[str]:
    """Draw replicates; whoever knows the day and the digests draws the same.

    `count`: how many; None stands for all.
    """
    seed = hashlib.sha256(f"{day} {digest(digests)}".encode()).hexdigest()
    count = len(paths) if count is None else min(count, len(paths))
    return sorted(random.Random(seed).sample(sorted(paths), count))


def unnoticed(population: int, wrong: int, count: int) -> float:
    """Return the probability that a sample has none of the wrong ones (hypergeometric)."""
    return math.comb(population - wrong, count) / math.comb(population, count)


def run_again(folder: Path, trust: bool, keep: Path | None = None) -> str:
    """Run a replicate again and say how its bytes differ; empty if they do not.

    A lost guest gets as many attempts as in a campaign; one that gives a result now is a
    difference. `trust`: run what its author's manifest names besides losslab's own programs, too;
    `keep`: where the raw files go if they are the same. Raises CannotRunError if what measured it
    is not here, or its programs are not trusted.
    """
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    try:
        what = rerun.ready(manifest, trust)
    except LosslabError as error:
        raise CannotRunError(str(error)) from error
    with rerun.again(manifest, what, attempts=ATTEMPTS) as (out, now):
        if manifest.get("lost") and now.get("lost"):
            return ""  # what a lost guest leaves differs from run to run
        different = rerun.compare(folder, out, manifest[FILES]).different
        if different:
            others = rerun.changes(manifest, now)
            return _first(different, manifest, json.loads((out / MANIFEST_FILE).read_text())) + (
                "".join(f"; another instrument: {other}" for other in others)
            )
        if keep is not None:
            for name in manifest[FILES]:
                (keep / name).parent.mkdir(parents=True, exist_ok=True)
                (out / name).rename(keep / name)
    return ""


def _first(different: Iterable[str], then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Name the first file that differs, the manifest last: it lists the digests of the others."""
    name = min(different, key=lambda name: (name == MANIFEST_FILE, name))
    if name != MANIFEST_FILE:
        both = name in then[FILES] and name in now[FILES]
        return f"{name}: {'another file' if both else 'on one side only'}"
    parts = [key for key in sorted(then.keys() | now.keys()) if then.get(key) != now.get(key)]
    return f"{MANIFEST_FILE}: another {parts[0] if parts else 'text'}"
