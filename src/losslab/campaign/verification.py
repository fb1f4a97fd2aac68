"""Verify a results folder: its cells, and everything that was made from them."""

from __future__ import annotations

import html
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from losslab import processes
from losslab.campaign import recorded, rerun
from losslab.campaign.audit import DAMAGE, Audit, Finding, audit, path_of
from losslab.campaign.recompute import same_table
from losslab.campaign.recorded import RecordedCampaign
from losslab.errors import LosslabError
from losslab.lock import own_folder

# Findings of one stage that are printed; `--json` has all.
SHOWN = 30
STAGE = "tables"
RESULTS = "results"
# The workflow's rules that come after measuring; each study has one more for its tables.
RULES = (
    "collect_study", "summarise_study", "judge_claims", "draw_claims", "draw_path",
    "test_agreement", "trace_origin", "check_verdicts", "plot_figure", "render_report",
    "make_explorer", "all",
)  # fmt: skip
# Of a results folder, what the workflow makes from cells: folders and files.
MADE = ("summary", "tables", "figures", "report", "claims.csv")
# What other versions of R's packages draw and write differently.
DRAWN = frozenset({".svg", ".png", ".pdf", ".html", ".tex"})
UNSEEN = re.compile(r"<(svg|script|style|head)\b.*?</\1>|<[^>]*>", re.DOTALL)
# R writes into a PDF when it was drawn.
DRAWN_WHEN = re.compile(rb"/(CreationDate|ModDate) \(D:[^)]*\)")


@dataclass
class Verification:
    """Parts verified, and findings."""

    audit: Audit  # what the cells hold
    remade: Remade | None = None  # what was made from them; None where the cells have findings

    @property
    def findings(self) -> list[Finding]:
        """List everything that is not as it must be."""
        return [*self.audit.findings, *(self.remade.findings if self.remade else [])]


def verify_results(
    results: Path,
    campaign: RecordedCampaign,
    repository: Path,
    processors: int,
    say: Callable[[str], None] = lambda words: None,
) -> Verification:
    """Compute a campaign's results again, from the raw files to the report, and compare.

    Raises LosslabError if the workflow failed to make tables or report from the cells.
    """
    found = Verification(audit(results, campaign.cells, processors, say))
    if not found.findings:
        found.remade = remake(results, campaign, repository, processors, say)
    return found


def not_verified(found: Verification) -> list[str]:
    """Say what was not verified."""
    audited, remade = found.audit, found.remade
    lines = []
    if audited.counted:
        lines.append(
            "compared with the manifests' own counters only, which raw files do not have: "
            + ", ".join(sorted(audited.counted))
        )
    if audited.not_recomputed:
        lines.append("metrics not recomputed: " + ", ".join(sorted(audited.not_recomputed)))
    if audited.unpinned:
        lines.append(f"kernel or image of {audited.unpinned} replicates: they are not pinned")
    lines.append("what host.json says: machine, times, attempts, and the report's lines on them")
    if remade is None:
        lines.append("tables, figures and report: the cells' findings come first")
    elif remade.not_compared:
        lines.append(
            f"pixels of {len(remade.not_compared)} figures and pages, which other software drew "
            f"({'; '.join(remade.software)})"
        )
    return lines


def quoted(findings: list[Finding]) -> list[str]:
    """Print findings, a line each; of many, the first."""
    lines = [f"  {finding.stage}: {finding}" for finding in findings[:SHOWN]]
    if len(findings) > SHOWN:
        lines.append(f"  and {len(findings) - SHOWN} more, which --json lists")
    return lines


def statement(found: Verification) -> str:
    """Say what was verified in a results folder."""
    audited, remade = found.audit, found.remade
    lines = [
        f"{len(audited.replicates)} replicates: {len(audited.metrics)} metrics recomputed from "
        "raw files.",
    ]
    if remade:
        lines.append(f"{remade.files} tables, figures and pages made again from the cells.")
    lines += quoted(found.findings)
    lines += ["Not verified:", *(f"  {line}" for line in not_verified(found))]
    lines += advice(found.findings)
    lines.append("NOT VERIFIED" if found.findings else "VERIFIED")
    return "\n".join(lines)


def advice(findings: list[Finding]) -> list[str]:
    """Say how to have a right result in place of a wrong one."""
    lines = []
    if any(finding.stage == DAMAGE for finding in findings):
        lines.append("The next workflow measures damaged replicates again, and only those.")
    if any(finding.stage != DAMAGE for finding in findings):
        lines.append(
            "Remove the other files and folders named here and start the workflow: it makes just "
            "these again."
        )
    return lines


@dataclass
class Remade:
    """Outcome of making tables again."""

    findings: list[Finding] = field(default_factory=list)  # what is not as the cells give it
    files: int = 0  # how many files were made and compared
    # Files that other software draws differently; of pages, the text is the same.
    not_compared: list[str] = field(default_factory=list)
    # How the software differs from what made them.
    software: list[str] = field(default_factory=list)


def remake(
    results: Path,
    campaign: RecordedCampaign,
    repository: Path,
    processors: int,
    say: Callable[[str], None] = lambda words: None,
) -> Remade:
    """Make everything that follows from a campaign's cells, and compare it with what is there.

    `results`: the results folder, whose cells have been audited; `processors`: how many of its jobs
    may run at once. Raises LosslabError if the workflow failed.
    """
    say("making tables, figures and report again from the cells")
    with own_folder(Path(tempfile.gettempdir()), "losslab-remake-") as folder:
        made = folder / RESULTS
        link_cells(results, made, campaign)
        run_workflow(campaign, repository, folder, processors)
        return compare(results, made, campaign)


def link_cells(results: Path, made: Path, campaign: RecordedCampaign) -> None:
    """Give a new results folder a campaign's cells; nothing below them is written to."""
    for cell in campaign.cells:
        place = made / path_of(cell)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to((results / path_of(cell)).resolve())


def run_workflow(
    campaign: RecordedCampaign, repository: Path, folder: Path, processors: int
) -> None:
    """Run the rules after measuring in a folder that has the cells.

    Raises LosslabError if a rule failed; with the last lines of its log.
    """
    tables = [f"tabulate_{study.name}" for study in campaign.studies]
    done = processes.attempt(
        [
            sys.executable, "-m", "snakemake", "--snakefile", repository / "Snakefile",
            "--directory", folder, "--cores", str(processors), "--quiet", "all",
            "--configfile", *campaign.files(repository, folder),
            "--allowed-rules", *RULES, *tables,
        ],
        limit_s=processes.WORK_LIMIT_S,
        more={"PYTHONPATH": str(repository / "src")},
    )  # fmt: skip
    if not done.good:
        logs = sorted((folder / "logs").rglob("*.log"), key=lambda path: path.stat().st_mtime)
        words = logs[-1].read_text(errors="replace") if logs else ""
        lines = (done.err + done.out + words).strip().splitlines()
        raise LosslabError(
            "the workflow must make tables and report from the cells, found:\n"
            + "\n".join(lines[-processes.QUOTED_LINES :])
        )


def compare(results: Path, made: Path, campaign: RecordedCampaign) -> Remade:
    """Compare what was shipped with what was made."""
    found = Remade()
    here = recorded.software()
    then = campaign.software or here
    found.software = [
        f"{name} {then.get(name, 'none')} there, {here.get(name, 'none')} here"
        for name in sorted(then.keys() | here.keys())
        if then.get(name) != here.get(name)
    ]
    names = [set(files(place)) for place in (results, made)]
    found.files = len(names[1])
    for name in sorted(names[0] | names[1]):
        if name not in names[0]:
            found.findings.append(Finding(STAGE, name, "missing, though the cells give it"))
        elif name not in names[1]:
            found.findings.append(Finding(STAGE, name, "not made by the campaign's workflow"))
        elif what := _difference(results / name, made / name, found):
            found.findings.append(Finding(STAGE, name, what))
    return found


def files(results: Path) -> list[str]:
    """List what the workflow made from cells in a results folder, by the paths in it."""
    places = [results / part for part in MADE]
    found = [place for place in places if place.is_file()]
    found += [path for place in places for path in place.rglob("*") if not path.is_dir()]
    return sorted(str(path.relative_to(results)) for path in found)


def _difference(then: Path, now: Path, found: Remade) -> str:
    """Say how a file differs from the one that was made again; empty if it does not."""
    one, other = (DRAWN_WHEN.sub(b"", path.read_bytes()) for path in (then, now))
    if one == other:
        return ""
    if found.software and then.suffix == ".csv" and same_table(then, now):
        return ""
    drawn = found.software and then.suffix in DRAWN
    if drawn and (then.suffix != ".html" or text_of(one) == text_of(other)):
        found.not_compared.append(then.name)
        return ""
    return f"differs from what the cells give: {rerun.first_difference(one, other)}"


def text_of(page: bytes) -> str:
    """Return what a reader reads of a page: without pictures, scripts and markup."""
    return " ".join(html.unescape(UNSEEN.sub(" ", page.decode(errors="replace"))).split())
