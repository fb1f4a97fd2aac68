"""Verify an archive: files, sources, cells, everything made from them, and a sample run again.

Each stage computes anew what the next relies on, so that a forger who makes all digests anew is
found. A stage with findings is the last.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from losslab.artifact import signing
from losslab.artifact.commits import commit_problem
from losslab.artifact.results import (
    CAMPAIGN,
    COMMIT,
    COMMIT_TEXT,
    DIGESTS,
    INSTRUMENT,
    RESULTS,
    SIGNATURE,
    is_raw,
    is_source,
    link,
    read_digests,
    wrong_files,
)
from losslab.artifact.sampling import CannotRunError, run_again, sample
from losslab.campaign import recorded
from losslab.campaign.audit import CELLS, Audit, Finding, path_of
from losslab.campaign.recorded import CAMPAIGN_FILE, RecordedCampaign
from losslab.campaign.verification import MADE, Verification, verify_results
from losslab.errors import LosslabError
from losslab.instrument.cache import ROOT
from losslab.lock import own_folder

# Of a hundred results with five wrong ones, 20 show one with 68 %; 60 with 99 %.
SAMPLE = 20

# Of the results, what is no cell.
KNOWN = {CAMPAIGN_FILE, INSTRUMENT, *MADE}


@dataclass(frozen=True)
class Wish:
    """How an archive is to be verified."""

    day: str  # the day whose sample is drawn, as 2026-01-31
    count: int | None = SAMPLE  # how many replicates are run again; None stands for all
    # A file of those whose signature counts; None asks for no signature.
    allowed_signers: Path | None = None
    trust: bool = False  # run the authors' own programs, too
    processors: int = 1  # how many to use
    repository: Path = ROOT  # the sources that verify


@dataclass
class Verdict:
    """Outcome of a verification."""

    day: str  # as wished
    files: int  # how many files the archive lists
    commit: str = ""  # the name of the commit that the sources are
    signer: str = ""  # who signed the list; empty if nobody was asked for
    # What is not as it must be; empty if nothing was found.
    findings: list[Finding] = field(default_factory=list)
    # What was found in the results; None where an earlier stage has findings.
    results: Verification | None = None
    drawn: list[str] = field(default_factory=list)  # replicates that were drawn to be run again
    # Invalid ones that are run again whatever is drawn.
    suspect: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)  # those of both that gave the same bytes
    # Those that could not be run here, and why.
    cannot: dict[str, str] = field(default_factory=dict)
    own_sources: bool = False  # the archive's own sources verified it

    @property
    def good(self) -> bool:
        """Tell whether nothing was found, and something was run again."""
        return not self.findings and bool(self.same)

    @property
    def audit(self) -> Audit:
        """Return what the cells hold."""
        return self.results.audit if self.results else Audit()

    @property
    def population(self) -> list[str]:
        """List the replicates that can be drawn: all in virtual time, invalid and lost ones too."""
        return [each.path for each in self.audit.replicates if each.virtual]

    def note(self, stage: str, path: object, what: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(stage, str(path), what))


def verify(root: Path, wish: Wish) -> Verdict:
    """Verify an unpacked archive.

    Raises LosslabError if there is none, or its workflow cannot make the tables.
    """
    digests = read_digests(root)
    verdict = Verdict(wish.day, len(digests))
    with own_folder(Path(tempfile.gettempdir()), "losslab-verify-raw-") as folder:
        _verify_files(root, digests, wish, verdict)
        if not verdict.findings:
            _verify_sources(root, digests, wish, verdict)
        campaign = None if verdict.findings else _campaign(root, digests, wish, verdict)
        if campaign is None or verdict.findings:
            return verdict
        place = root / RESULTS
        if left_out := raw_left_out(root, digests):
            _run_all(root, digests, left_out, folder, wish, verdict)
            place = folder / RESULTS
        if not verdict.findings:
            verdict.results = verify_results(place, campaign, wish.repository, wish.processors, say)
            verdict.findings += verdict.results.findings
        if not verdict.findings:
            _run_sample(root, wish, verdict)
    return verdict


def say(words: str) -> None:
    """Report progress."""
    print(f"losslab: {words}", file=sys.stderr, flush=True)


def _verify_files(root: Path, digests: dict[str, str], wish: Wish, verdict: Verdict) -> None:
    """Compare the files with the list, and the list with its signature."""
    if wish.allowed_signers is not None:
        verdict.signer = signing.signer(root, wish.allowed_signers)
        if not verdict.signer:
            verdict.note(
                "signature", SIGNATURE, f"not a signature of one of {wish.allowed_signers}"
            )
    left_out = set(raw_left_out(root, digests))
    for name, what in wrong_files(root, digests).items():
        if name not in left_out:
            verdict.note("files", name, what)
    if left_out and wish.count is not None:
        verdict.note(
            "files", RESULTS / CELLS,
            f"{len(left_out)} raw files were left out, without which nothing can be computed "
            "again: only --sample all, which runs every replicate, can verify it",
        )  # fmt: skip


def raw_left_out(root: Path, digests: dict[str, str]) -> list[str]:
    """List the raw files that an archive has only the digests of."""
    return [name for name in digests if is_raw(Path(name)) and not os.path.lexists(root / name)]


def _verify_sources(root: Path, digests: dict[str, str], wish: Wish, verdict: Verdict) -> None:
    """Compare the sources with the commit, and with those that verify."""
    sources = [Path(name) for name in digests if is_source(name)]
    try:
        verdict.commit = (root / COMMIT).read_text().strip()
        text = (root / COMMIT_TEXT).read_bytes()
    except (OSError, ValueError) as error:
        verdict.note("sources", COMMIT, f"no readable commit: {error}")
        return
    if problem := commit_problem(verdict.commit, text, root, sources):
        verdict.note("sources", COMMIT, problem)
    verdict.own_sources = root.resolve() == wish.repository.resolve()
    for path in [] if verdict.own_sources else sources:
        there = wish.repository / path
        if not there.is_file() or there.read_bytes() != (root / path).read_bytes():
            verdict.note("sources", path, f"not as in {wish.repository}, which verifies")


def _campaign(
    root: Path, digests: dict[str, str], wish: Wish, verdict: Verdict
) -> RecordedCampaign | None:
    """Read the campaign of the packed sources, and compare it with what the results are of."""
    try:
        said = recorded.read(root / RESULTS, wish.repository)
        name = (root / CAMPAIGN).read_text().strip()
        if name not in digests or not is_source(name):
            verdict.note("sources", CAMPAIGN, f"a file of the sources is needed, found {name!r}")
            return None
        campaign = recorded.load(wish.repository / name, wish.repository, said.software)
    except (OSError, ValueError, LosslabError) as error:
        verdict.note("sources", CAMPAIGN, f"no campaign of these sources: {error}")
        return None
    if campaign.config != said.config:
        verdict.note("sources", RESULTS / CAMPAIGN_FILE, f"not the campaign of {name}")
    cells = {path_of(cell) for cell in campaign.cells}
    below = [
        Path(each).relative_to(RESULTS) for each in digests if Path(each).parts[0] == str(RESULTS)
    ]
    for place in sorted({_place(path) for path in below} - cells - KNOWN):
        verdict.note("cells", place, f"not among the results of {name}")
    return campaign


def _place(path: Path) -> str:
    """Return what a file below the results belongs to: a cell's folder, another one, or itself."""
    return "/".join(path.parts[: 3 if path.parts[0] == CELLS else 1])


def _run_all(
    root: Path,
    digests: dict[str, str],
    left_out: list[str],
    folder: Path,
    wish: Wish,
    verdict: Verdict,
) -> None:
    """Make a copy of the results whose raw files come from running every replicate again."""
    for name in digests:
        if name.startswith(f"{RESULTS}/") and name not in left_out:
            link(root / name, folder / name)
    for path in sorted({str(Path(*Path(name).parts[:5])) for name in left_out}):
        below = str(Path(path).relative_to(RESULTS))
        _again(folder / RESULTS, below, wish, verdict, keep=folder / path)
        if below in verdict.cannot:
            verdict.note("rerun", below, f"cannot be run here: {verdict.cannot[below]}")


def _run_sample(root: Path, wish: Wish, verdict: Verdict) -> None:
    """Run the day's sample again, and every invalid replicate that raw files do not explain."""
    population = verdict.population
    verdict.suspect = [each.path for each in verdict.audit.replicates if each.suspect]
    if population:
        verdict.drawn = sample(population, wish.count, wish.day, root / DIGESTS)
    for path in sorted({*verdict.drawn, *verdict.suspect} - {*verdict.same}):
        _again(root / RESULTS, path, wish, verdict)


def _again(
    results: Path, path: str, wish: Wish, verdict: Verdict, keep: Path | None = None
) -> None:
    """Run a replicate again and note what came of it."""
    began = time.monotonic()
    try:
        difference = run_again(results / path, wish.trust, keep)
    except CannotRunError as error:
        verdict.cannot[path] = error.message
        said = f"cannot be run here: {error.message.splitlines()[0]}"
    else:
        said = difference or "same bytes"
        if difference:
            verdict.note("rerun", path, difference)
        else:
            verdict.same.append(path)
    say(f"{path}: {said} ({time.monotonic() - began:.1f} s)")
