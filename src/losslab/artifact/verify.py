"""Verify an artifact: every file against its digest, and a sample of its replicates by re-running.

The sample is drawn by the day and the list of digests: nobody knows it while results are made.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from losslab import asked
from losslab.artifact.results import DIGESTS, Digest, Replicate, read_digests, replicates
from losslab.backends.base import GUEST
from losslab.campaign import rerun, trust
from losslab.campaign.folder import MANIFEST_FILE
from losslab.campaign.instrument import instrument
from losslab.campaign.replicate import run
from losslab.errors import HostError, LosslabError
from losslab.instrument.archive import digest
from losslab.lock import own_folder

# Of a hundred results with five wrong ones, 20 show one with 68 %; 60 with 99 %.
SAMPLE = 20
FRACTIONS = (0.01, 0.05, 0.1, 0.2)


@dataclass
class Verdict:
    """What came of it."""

    day: str
    population: int
    files: int
    wrong_files: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    different: dict[str, str] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Tell whether nothing was found, and something was looked at."""
        return not self.wrong_files and not self.different and bool(self.same)


def sample(paths: Sequence[str], count: int, day: str, digests: Path) -> list[str]:
    """Draw replicates; whoever knows the day and the digests draws the same.

    Args:
        paths: All replicates.
        count: How many.
        day: As 2026-01-31.
        digests: The list of the artifact's files.
    """
    seed = hashlib.sha256(f"{day} {digest(digests)}".encode()).hexdigest()
    return sorted(random.Random(seed).sample(sorted(paths), min(count, len(paths))))


def unnoticed(population: int, wrong: int, count: int) -> float:
    """Return the probability that a sample has none of the wrong ones (hypergeometric).

    Args:
        population: Replicates in all.
        wrong: Those of them that are wrong.
        count: Replicates that were drawn.
    """
    return math.comb(population - wrong, count) / math.comb(population, count)


def verify(root: Path, count: int, day: str, trusted: bool = False) -> Verdict:
    """Compare all files with their digests, and re-run a sample.

    Args:
        root: The artifact's folder.
        count: How many replicates to run again.
        day: As of `sample`.
        trusted: Whether programs of the artifact's author may run.

    Raises:
        LosslabError: there is no artifact, or no replicate in it.
    """
    digests = read_digests(root)
    verdict = Verdict(day, 0, len(digests), wrong_files=wrong_files(root, digests))
    by_path = {each.path: each for each in replicates(root)}
    if not by_path:
        raise LosslabError(
            f"{root} must hold replicates in results/cells, found none that is valid"
        )
    verdict.population = len(by_path)
    for path in sample(list(by_path), count, day, root / DIGESTS):
        began = time.monotonic()
        _again(root, by_path[path], digests, verdict, trusted)
        found = "same bytes" if path in verdict.same else "NOT THE SAME"
        found = "cannot be run here" if path in verdict.cannot else found
        print(f"{path}: {found} ({time.monotonic() - began:.1f} s)", file=sys.stderr, flush=True)
    return verdict


def wrong_files(root: Path, digests: dict[str, Digest]) -> list[str]:
    """List the files that are not there, or are others than the list says."""
    return [
        name
        for name, its in digests.items()
        if not (root / name).is_file() or digest(root / name) != its.sha256
    ]


def _again(
    root: Path, one: Replicate, digests: dict[str, Digest], verdict: Verdict, trusted: bool
) -> None:
    """Run a replicate again and note what came of it."""
    manifest = json.loads((root / one.path / MANIFEST_FILE).read_text())
    try:
        condition = trust.require_trusted(manifest, trusted)
        tools = instrument(one.backend, manifest["instrument"].get("where", GUEST), condition)
        video = asked.video(condition, tools)
    except (HostError, LosslabError) as error:
        verdict.cannot[one.path] = str(error)
        return
    with own_folder(Path(tempfile.gettempdir()), "losslab-verify-") as folder:
        out = folder / "again"
        run(condition, manifest["seed"], out, tools, video, attempts=1)
        problem = _difference(one.path, out, digests)
        now = json.loads((out / MANIFEST_FILE).read_text())["instrument"]
    if problem:
        others = rerun.instrument_differences(one.instrument, now)
        problem += "".join(f"; another instrument: {other}" for other in others)
        verdict.different[one.path] = problem
    else:
        verdict.same.append(one.path)


def _difference(path: str, out: Path, digests: dict[str, Digest]) -> str:
    """Compare a folder with the list of what should be in it; return the first difference."""
    wanted = {
        name.removeprefix(f"{path}/"): its.sha256
        for name, its in digests.items()
        if name.startswith(f"{path}/")
    }
    found = {file.name: digest(file) for file in out.iterdir()}
    for name in sorted({*wanted, *found} - {*rerun.NOT_COMPARED}):
        if wanted.get(name) != found.get(name):
            which = "another file" if name in wanted and name in found else "on one side only"
            return f"{name}: {which}"
    return ""


def statement(verdict: Verdict) -> str:
    """Say what was verified, and how much that is worth."""
    lines = [
        f"{verdict.files - len(verdict.wrong_files)} of {verdict.files} files have their digests.",
        *(f"  WRONG: {name}" for name in verdict.wrong_files),
    ]
    drawn = len(verdict.same) + len(verdict.different)
    lines.append(
        f"{len(verdict.same)} of {drawn} replicates, drawn on {verdict.day} from "
        f"{verdict.population}, gave the same bytes when they were run again."
    )
    lines += [f"  DIFFERENT: {path}: {what}" for path, what in verdict.different.items()]
    lines += [f"  not run: {path}: {why}" for path, why in verdict.cannot.items()]
    if verdict.good:
        lines.append("If of all replicates a part were wrong, this would have gone unnoticed with:")
        for fraction in FRACTIONS:
            wrong = math.ceil(fraction * verdict.population)
            chance = unnoticed(verdict.population, wrong, drawn)
            lines.append(f"  {100 * fraction:4.0f} % wrong ({wrong}): probability {chance:.3g}")
    lines.append("VERIFIED" if verdict.good else "NOT VERIFIED")
    return "\n".join(lines)
