"""Verify an archive: files, sources, cells, derived results, and a sample of replicates.

Each stage recomputes the input of the next, which detects a forger who recomputes all digests. A
stage with findings is the last.
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
from losslab.lock import own_folder
from losslab.repository import ROOT

# If 5 of 100 replicates are wrong, a sample of 20 has one with probability 68 %; 60 with 99 %.
SAMPLE = 20

# Files and folders of the results that are not cells.
KNOWN = {CAMPAIGN_FILE, INSTRUMENT, *MADE}


@dataclass(frozen=True)
class Options:
    """Options of a verification."""

    seed: int  # of the sample; the author of the archive must not know it
    count: int | None = SAMPLE  # number of replicates to run again; None means all
    # File of allowed signers; None requires no signature.
    allowed_signers: Path | None = None
    trust: bool = False  # also run the authors' own programs
    processors: int = 1
    repository: Path = ROOT  # sources of the verifying program


@dataclass
class Verdict:
    """Outcome of a verification."""

    seed: int  # as in the options
    files: int  # number of listed files
    count: int | None = SAMPLE  # as in the options
    commit: str = ""  # commit of the sources
    signer: str = ""  # signer of the list; empty if no signature was required
    findings: list[Finding] = field(default_factory=list)
    # Verification of the results; None if an earlier stage has findings.
    results: Verification | None = None
    drawn: list[str] = field(default_factory=list)  # replicates of the sample
    # Invalid replicates that are always run again.
    suspect: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)  # replicates of both that gave the same bytes
    # Problems of replicates that could not run here, by path.
    cannot: dict[str, str] = field(default_factory=dict)
    own_sources: bool = False  # the archive's own sources verified it

    @property
    def good(self) -> bool:
        """Return whether nothing was found and at least one replicate gave the same bytes."""
        return not self.findings and bool(self.same)

    @property
    def audit(self) -> Audit:
        """Audit of the cells."""
        return self.results.audit if self.results else Audit()

    @property
    def population(self) -> list[str]:
        """Replicates that can be drawn: all in virtual time, also invalid and lost ones."""
        return [each.path for each in self.audit.replicates if each.virtual]

    def note(self, stage: str, path: object, problem: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(stage, str(path), problem))


def verify(root: Path, options: Options) -> Verdict:
    """Verify an unpacked archive.

    Raises LosslabError if there is no archive or its workflow cannot make the tables.
    """
    digests = read_digests(root)
    verdict = Verdict(options.seed, len(digests), count=options.count)
    with own_folder(Path(tempfile.gettempdir()), "losslab-verify-raw-") as folder:
        _verify_files(root, digests, options, verdict)
        if not verdict.findings:
            _verify_sources(root, digests, options, verdict)
        campaign = None if verdict.findings else _campaign(root, digests, options, verdict)
        if campaign is None or verdict.findings:
            return verdict
        place = root / RESULTS
        if left_out := raw_left_out(root, digests):
            _run_all(root, digests, left_out, folder, options, verdict)
            place = folder / RESULTS
        if not verdict.findings:
            verdict.results = verify_results(
                place, campaign, options.repository, options.processors, say
            )
            verdict.findings += verdict.results.findings
        if not verdict.findings:
            _run_sample(root, options, verdict)
    return verdict


def say(text: str) -> None:
    """Print progress to stderr."""
    print(f"losslab: {text}", file=sys.stderr, flush=True)


def _verify_files(root: Path, digests: dict[str, str], options: Options, verdict: Verdict) -> None:
    """Compare the files with the list, and the list with its signature."""
    if options.allowed_signers is not None:
        verdict.signer = signing.signer(root, options.allowed_signers)
        if not verdict.signer:
            verdict.note(
                "signature", SIGNATURE, f"not a signature of one of {options.allowed_signers}"
            )
    left_out = set(raw_left_out(root, digests))
    for name, problem in wrong_files(root, digests).items():
        if name not in left_out:
            verdict.note("files", name, problem)
    if left_out and options.count is not None:
        verdict.note(
            "files", RESULTS / CELLS,
            f"{len(left_out)} raw files are not packed, so results cannot be recomputed from "
            "them: use --sample all, which runs every replicate again",
        )  # fmt: skip


def raw_left_out(root: Path, digests: dict[str, str]) -> list[str]:
    """List the raw files of which an archive has only the digests."""
    return [name for name in digests if is_raw(Path(name)) and not os.path.lexists(root / name)]


def _verify_sources(
    root: Path, digests: dict[str, str], options: Options, verdict: Verdict
) -> None:
    """Compare the sources with the commit and with the verifying program's sources."""
    sources = [Path(name) for name in digests if is_source(name)]
    try:
        verdict.commit = (root / COMMIT).read_text().strip()
        text = (root / COMMIT_TEXT).read_bytes()
    except (OSError, ValueError) as error:
        verdict.note("sources", COMMIT, f"no readable commit: {error}")
        return
    if problem := commit_problem(verdict.commit, text, root, sources):
        verdict.note("sources", COMMIT, problem)
    verdict.own_sources = root.resolve() == options.repository.resolve()
    for path in [] if verdict.own_sources else sources:
        there = options.repository / path
        if not there.is_file() or there.read_bytes() != (root / path).read_bytes():
            verdict.note(
                "sources", path, f"differs from the verifying program's in {options.repository}"
            )


def _campaign(
    root: Path, digests: dict[str, str], options: Options, verdict: Verdict
) -> RecordedCampaign | None:
    """Read the campaign of the packed sources, and compare it with that of the results."""
    try:
        record = recorded.read(root / RESULTS, options.repository)
        name = (root / CAMPAIGN).read_text().strip()
        if name not in digests or not is_source(name):
            verdict.note("sources", CAMPAIGN, f"must name a file of the sources, found {name!r}")
            return None
        campaign = recorded.load(options.repository / name, options.repository, record.software)
    except (OSError, ValueError, LosslabError) as error:
        verdict.note("sources", CAMPAIGN, f"no campaign of these sources: {error}")
        return None
    if campaign.config != record.config:
        verdict.note("sources", RESULTS / CAMPAIGN_FILE, f"not the campaign of {name}")
    cells = {path_of(cell) for cell in campaign.cells}
    below = [
        Path(each).relative_to(RESULTS) for each in digests if Path(each).parts[0] == str(RESULTS)
    ]
    for place in sorted({_place(path) for path in below} - cells - KNOWN):
        verdict.note("cells", place, f"not among the results of {name}")
    return campaign


def _place(path: Path) -> str:
    """Return the folder of a file below the results: of its cell, or the topmost."""
    return "/".join(path.parts[: 3 if path.parts[0] == CELLS else 1])


def _run_all(
    root: Path,
    digests: dict[str, str],
    left_out: list[str],
    folder: Path,
    options: Options,
    verdict: Verdict,
) -> None:
    """Copy the results, with raw files from running every replicate again."""
    for name in digests:
        if name.startswith(f"{RESULTS}/") and name not in left_out:
            link(root / name, folder / name)
    for path in sorted({str(Path(*Path(name).parts[:5])) for name in left_out}):
        below = str(Path(path).relative_to(RESULTS))
        _again(folder / RESULTS, below, options, verdict, keep=folder / path)
        if below in verdict.cannot:
            verdict.note("rerun", below, f"cannot be run here: {verdict.cannot[below]}")


def _run_sample(root: Path, options: Options, verdict: Verdict) -> None:
    """Run again the sample, and invalid replicates whose raw files show no violation."""
    population = verdict.population
    verdict.suspect = [each.path for each in verdict.audit.replicates if each.suspect]
    if population:
        verdict.drawn = sample(population, options.count, options.seed)
    for path in sorted({*verdict.drawn, *verdict.suspect} - {*verdict.same}):
        _again(root / RESULTS, path, options, verdict)


def _again(
    results: Path, path: str, options: Options, verdict: Verdict, keep: Path | None = None
) -> None:
    """Run a replicate again and record the result."""
    began = time.monotonic()
    try:
        difference = run_again(results / path, options.trust, keep)
    except CannotRunError as error:
        verdict.cannot[path] = error.message
        outcome = f"cannot be run here: {error.message.splitlines()[0]}"
    else:
        outcome = difference or "same bytes"
        if difference:
            verdict.note("rerun", path, difference)
        else:
            verdict.same.append(path)
    say(f"{path}: {outcome} ({time.monotonic() - began:.1f} s)")
