"""Draw a sample of an archive's replicates and run them again.

The verifier's seed decides the sample: from the system's random generator, unless it is given. The
author of the archive cannot know it while results are made.
"""

from __future__ import annotations

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


class CannotRunError(LosslabError):
    """Replicate that cannot run here: its instrument is missing or its programs untrusted."""


def sample(paths: Sequence[str], count: int | None, seed: int) -> list[str]:
    """Return `count` replicates (None: all), drawn by a seed."""
    count = len(paths) if count is None else min(count, len(paths))
    return sorted(random.Random(seed).sample(sorted(paths), count))


def unnoticed(population: int, wrong: int, count: int) -> float:
    """Return the probability that a sample has no wrong replicate (hypergeometric)."""
    return math.comb(population - wrong, count) / math.comb(population, count)


def run_again(folder: Path, trust: bool, keep: Path | None = None) -> str:
    """Run a replicate again; return how its bytes differ, or an empty string.

    A lost guest gets as many attempts as in a campaign; a result then counts as a difference.
    `trust`: also run programs of the manifest's author; `keep`: folder for the raw files if they
    are the same. Raises CannotRunError if the instrument is missing or its programs are untrusted.
    """
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    try:
        prepared = rerun.ready(manifest, trust)
    except LosslabError as error:
        raise CannotRunError(str(error)) from error
    with rerun.again(manifest, prepared, attempts=ATTEMPTS) as (out, now):
        if manifest.get("lost") and now.get("lost"):
            return ""  # the files of a lost guest differ from run to run
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
    """Name the first different file; the manifest is last, as it lists the others' digests."""
    name = min(different, key=lambda name: (name == MANIFEST_FILE, name))
    if name != MANIFEST_FILE:
        both = name in then[FILES] and name in now[FILES]
        return f"{name}: {'another file' if both else 'on one side only'}"
    parts = [key for key in sorted(then.keys() | now.keys()) if then.get(key) != now.get(key)]
    return f"{MANIFEST_FILE}: another {parts[0] if parts else 'text'}"
