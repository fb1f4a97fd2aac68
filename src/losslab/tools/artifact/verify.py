"""Verify results by making them again.

Digests detect accidents but not forgeries, because anyone can compute them again. Verification
therefore makes every table and page again from the raw files, and measures a random sample of the
replicates again. A stage with findings is the last.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from losslab.campaign import plan, rerun
from losslab.campaign.plan import RecordedCampaign
from losslab.campaign.replicate import ATTEMPTS
from losslab.campaign.results import CELL_FILE, LOST_FILE, MANIFEST_FILE, differences, read_cell
from losslab.errors import LosslabError
from losslab.instrument.fetch import digest
from losslab.reading import UsageError
from losslab.repository import ROOT
from losslab.tools.artifact import appendix, remake
from losslab.tools.artifact.appendix import COMMIT, RESULTS, SAMPLE
from losslab.tools.artifact.remake import Finding, Remade

# List of all files, in the format of sha256sum(1).
DIGESTS = Path("SHA256SUMS")
LINE = re.compile(r"([0-9a-f]{64})  (.+)")
# Folder of the results: the records of kernels and images.
INSTRUMENT = "instrument"
# Folders that set-up and verification add to the archive's folder: anywhere, and at its root.
BYTE_CODE = "__pycache__"
MADE_THERE = frozenset({".venv", "src/losslab.egg-info"})
MAX_SHOWN = 30  # findings in the text; `--json` lists all
ALL = "all"


@dataclass(frozen=True)
class Options:
    """Options of a verification."""

    seed: int  # of the sample; the author of the results must not know it
    count: int | None = SAMPLE  # number of replicates to run again; None means all
    trust: bool = False  # also run the authors' own programs
    processors: int = 1
    repository: Path = ROOT  # sources of the verifying program


@dataclass
class Verdict:
    """Outcome of a verification."""

    seed: int  # as in the options
    count: int | None  # as in the options
    files: int = 0  # number of files in the archive's list
    own_sources: bool = False  # the archive's own sources verified it
    findings: list[Finding] = field(default_factory=list)
    remade: Remade | None = None  # None if an earlier stage has findings
    replicates: int = 0
    population: list[str] = field(default_factory=list)  # replicates that can be drawn
    drawn: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)  # drawn replicates that gave the same bytes
    # Problems of drawn replicates that could not run here, by path.
    cannot: dict[str, str] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Return whether nothing differs, and a replicate that had to run again did."""
        return not self.findings and (self.count == 0 or bool(self.same))

    def note(self, stage: str, path: object, problem: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(stage, str(path), problem))


def say(text: str) -> None:
    """Print progress to stderr."""
    print(f"losslab: {text}", file=sys.stderr, flush=True)


def verify(root: Path, options: Options) -> Verdict:
    """Verify an unpacked archive; LosslabError if there is none."""
    digests = read_digests(root)
    verdict = Verdict(options.seed, options.count, files=len(digests))
    verdict.own_sources = root.resolve() == options.repository.resolve()
    for name, problem in wrong_files(root, digests).items():
        verdict.note("files", name, problem)
    if verdict.findings:
        return verdict
    results = root / RESULTS
    campaign = plan.read_campaign(results, options.repository)
    path = options.repository / campaign.names[0]  # which the repository must have
    if not path.is_file() or (
        plan.load_campaign(path, options.repository).config != campaign.config
    ):
        verdict.note("cells", plan.FILE, f"is not the campaign of {path}")
    _draw(results, campaign, options, verdict)
    if verdict.findings:
        return verdict
    of_results = result_files(root, campaign)
    expected = {*map(str, of_results)}
    for name in sorted(name for name in digests if name.startswith(f"{RESULTS}/")):
        if name not in expected:
            verdict.note("cells", name, "not a file of the campaign's results")
    _remake(results, campaign, options, verdict)
    if not verdict.findings:
        size = sum((root / path).stat().st_size for path in of_results)
        verdict.findings += appendix.differences(root, campaign, size, options.repository)
    if not verdict.findings:
        _run_sample(results, options, verdict)
    return verdict


def verify_results(results: Path, campaign: RecordedCampaign, options: Options) -> Verdict:
    """Verify a campaign's results in the folder where they were made."""
    verdict = Verdict(options.seed, options.count)
    _draw(results, campaign, options, verdict)
    _remake(results, campaign, options, verdict)
    if not verdict.findings:
        _run_sample(results, options, verdict)
    return verdict


def _remake(results: Path, campaign: RecordedCampaign, options: Options, verdict: Verdict) -> None:
    """Make the files again that follow from cells, unless there are findings."""
    if not verdict.findings:
        made = remake.remake(results, campaign, options.repository, options.processors, say)
        verdict.remade, verdict.findings = made, [*made.findings]


def _draw(results: Path, campaign: RecordedCampaign, options: Options, verdict: Verdict) -> None:
    """Compare each cell.json with the campaign, and draw the sample.

    Replicates of virtual time can be drawn, also invalid and lost ones.
    """
    for cell in campaign.cells:
        place = remake.path_of(cell)
        try:
            measured = read_cell(results / place / CELL_FILE)
        except LosslabError as error:
            verdict.note("cells", place, error.message)
            continue
        others = plan.contradictions(measured.content, cell)
        if "absent" in measured.content and not cell.optional:
            others.append("no instrument, which the campaign must have")
        for problem in others[:1]:
            verdict.note("cells", place, f"{CELL_FILE} is of another cell: {problem}")
        count = 0 if others else len(measured.rows)
        verdict.replicates += count
        verdict.population += [f"{place}/{n}" for n in range(count) if not cell.real_time]
    verdict.drawn = sample(verdict.population, options.count, options.seed)


def sample(paths: Iterable[str], count: int | None, seed: int) -> list[str]:
    """Return `count` replicates (None: all), drawn by a seed."""
    paths = sorted(paths)
    count = len(paths) if count is None else min(count, len(paths))
    return sorted(random.Random(seed).sample(paths, count))


def _run_sample(results: Path, options: Options, verdict: Verdict) -> None:
    for path in verdict.drawn:
        began = time.monotonic()
        try:
            difference = run_again(results / path, options.trust)
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


class CannotRunError(LosslabError):
    """Replicate that cannot run here: its instrument is missing or its programs untrusted."""


def run_again(folder: Path, trust: bool) -> str:
    """Run a replicate again; return how its bytes differ, or an empty string.

    A lost guest gets as many attempts as in a campaign; a result then counts as a difference.
    `trust`: also run programs of the manifest's author. Raises CannotRunError if the instrument is
    missing or its programs are untrusted.
    """
    manifest = rerun.load_manifest(folder)
    try:
        prepared = rerun.ready(manifest, trust)
    except LosslabError as error:
        raise CannotRunError(str(error)) from error
    with rerun.again(manifest, prepared, attempts=ATTEMPTS) as (out, now):
        if manifest.get("lost") and now.get("lost"):
            return ""  # the files of a lost guest differ from run to run
        different = rerun.compare(folder, out).different
        if different:
            # The manifest is last, as it lists the others' digests.
            name = min(different, key=lambda name: (name == MANIFEST_FILE, name))
            others = rerun.changes(manifest, now)
            return "; ".join([f"{name}: {different[name]}", *others])
    return ""


def statement(verdict: Verdict) -> str:
    """Return what was verified and what was not, and the outcome as the last line."""
    remade, lines = verdict.remade, list[str]()
    if verdict.files and not any(each.stage == "files" for each in verdict.findings):
        lines.append(f"{verdict.files} files have the digests of {DIGESTS}.")
    if remade and not remade.findings:
        same = remade.files - len(remade.not_compared)
        lines.append(f"{same} tables, figures and pages made again from the raw files are equal.")
        if verdict.files and not any(each.stage == appendix.STAGE for each in verdict.findings):
            lines.append("The appendix and the experiments made again from the results are equal.")
    if verdict.drawn and (verdict.same or verdict.cannot):
        count = ALL if verdict.count is None else verdict.count
        lines.append(
            f"{len(verdict.same)} of {len(verdict.drawn)} replicates, drawn from "
            f"{len(verdict.population)} with --sample {count} --seed {verdict.seed}, gave the same "
            "bytes again."
        )
    shown = verdict.findings[:MAX_SHOWN]
    lines += [f"  {each.stage}: {each.path}: {each.what}" for each in shown]
    if more := len(verdict.findings) - len(shown):
        lines.append(f"  and {more} more, which --json lists")
    lines += ["Not verified:", *(f"  {line}" for line in not_verified(verdict))]
    return "\n".join([*lines, "VERIFIED" if verdict.good else "NOT VERIFIED"])


def not_verified(verdict: Verdict) -> list[str]:
    """List what was not verified."""
    lines = [
        f"who packed it and when, host.json, packed instruments, the description "
        f"ro-crate-metadata.json, and {appendix.PDF}: typeset {appendix.TEX} yourself"
    ]
    lines = lines if verdict.files else ["host.json"]
    if verdict.own_sources:
        lines.append(f"the verifying program, which is the archive's: use a clone of its {COMMIT}")
    elif verdict.files:
        lines.append("the archive's sources: a clone's made and measured everything")
    if verdict.findings:
        lines.append("later stages: fix the findings first")
    if verdict.remade and verdict.remade.not_compared:
        lines.append(
            f"{len(verdict.remade.not_compared)} figures and pages, drawn with other software ("
            f"{'; '.join(verdict.remade.software)})"
        )
    if left := verdict.replicates - len(verdict.same):
        lines.append(f"raw files of {left} of {verdict.replicates} replicates, not run again")
    return lines + [f"{path}, not run: {problem}" for path, problem in verdict.cannot.items()]


def link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it across file systems."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def result_files(work: Path, campaign: RecordedCampaign) -> list[Path]:
    """List the files of a campaign's results, relative to the folder where it was measured.

    Files of other campaigns or of a killed workflow in the same folder are omitted.
    """
    results = work / RESULTS
    found = [results / plan.FILE, *(results / name for name in remake.files(results))]
    found += [*(results / INSTRUMENT).glob("*.json"), *results.glob(remake.JUDGED)]
    for place in map(remake.path_of, campaign.cells):
        found.append(results / place / CELL_FILE)
        lost = results / place / LOST_FILE
        found += [lost] if lost.is_file() else []
        for each in read_cell(results / place / CELL_FILE).replicates:
            found += [path for path in each.folder.rglob("*") if path.is_file()]
    return sorted(path.relative_to(work) for path in found)


def contents(root: Path) -> Iterator[str]:
    """Yield every file, link and device below a folder, except those that set-up adds."""
    for place, folders, names in os.walk(root):
        inside = Path(place).relative_to(root)
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if name not in (BYTE_CODE, *links) and str(inside / name) not in MADE_THERE
        )
        yield from (str(inside / name) for name in sorted([*names, *links]))


def write_digests(root: Path, names: Iterable[str]) -> None:
    """Write the list of files with their digests; `sha256sum --check` reads it, too."""
    lines = [f"{digest(root / name)}  {name}\n" for name in sorted(names)]
    (root / DIGESTS).write_text("".join(lines))


def read_digests(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each file by path, from the list of `write_digests`."""
    path = root / DIGESTS
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{path} must list the artifact's files, found: {found}",
            hint="unpack the archive of `make artifact`, and run this in the unpacked folder",
        ) from error
    digests: dict[str, str] = {}
    for line in lines:
        match = LINE.fullmatch(line)
        if match is None or not _inside(match[2]) or match[2] in digests:
            raise UsageError(
                f"{path} must list each file once, by its relative path, found {line!r}"
            )
        digests[match[2]] = match[1]
    return digests


def _inside(name: str) -> bool:
    """Return whether a path is normalised and stays inside its folder."""
    path = PurePosixPath(name)
    return str(path) == name and not path.is_absolute() and ".." not in path.parts and name != "."


def wrong_files(root: Path, digests: dict[str, str]) -> dict[str, str]:
    """Return the problems of missing, changed and unlisted files by path."""
    return differences(root, digests, {*contents(root)} - {str(DIGESTS)})
