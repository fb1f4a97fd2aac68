"""Which replicates of an archive are run again, and what came of each.

The sample is drawn by the day and the list of digests: nobody knows it while results are made.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from losslab import asked
from losslab.backends.base import GUEST
from losslab.campaign import rerun
from losslab.campaign.folder import MANIFEST_FILE
from losslab.campaign.instrument import instrument
from losslab.campaign.integrity import FILES
from losslab.campaign.replicate import ATTEMPTS, run
from losslab.campaign.trust import require_trusted
from losslab.errors import LosslabError
from losslab.instrument.archive import digest
from losslab.lock import own_folder


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
        condition = require_trusted(manifest, trust)
        where = manifest["instrument"].get("where", GUEST)
        tools = instrument(manifest["backend"], where, condition)
        video = asked.video(condition, tools)
    except LosslabError as error:
        raise CannotRunError(str(error)) from error
    with own_folder(Path(tempfile.gettempdir()), "losslab-verify-") as temporary:
        out = temporary / "again"
        run(condition, manifest["seed"], out, tools, video, attempts=ATTEMPTS)
        difference = _difference(folder / MANIFEST_FILE, out)
        if difference:
            now = json.loads((out / MANIFEST_FILE).read_text())
            others = rerun.changes(manifest, now)
            return difference + "".join(f"; another instrument: {other}" for other in others)
        if keep is not None:
            for name in manifest[FILES]:
                (keep / name).parent.mkdir(parents=True, exist_ok=True)
                (out / name).rename(keep / name)
    return ""


def _difference(manifest: Path, out: Path) -> str:
    """Say which file of a second run is the first that is not as a manifest has it."""
    again = out / MANIFEST_FILE
    then, now = (json.loads(path.read_text()) for path in (manifest, again))
    if then.get("lost") and now.get("lost"):
        return ""  # what a lost guest leaves differs from run to run
    for name in sorted(then[FILES].keys() | now[FILES].keys()):
        if then[FILES].get(name) != now[FILES].get(name):
            both = name in then[FILES] and name in now[FILES]
            return f"{name}: {'another file' if both else 'on one side only'}"
    if manifest.read_bytes() == again.read_bytes():
        return ""
    parts = [key for key in sorted(then.keys() | now.keys()) if then.get(key) != now.get(key)]
    return f"{MANIFEST_FILE}: another {parts[0] if parts else 'text'}"
