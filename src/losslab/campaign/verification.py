"""Verification of a results folder: its cells, and all files made from them."""

from __future__ import annotations

import html
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from losslab import processes
from losslab.campaign import recorded, rerun
from losslab.campaign.audit import DAMAGE, SURPLUS, Audit, Finding, audit, path_of
from losslab.campaign.recompute import same_table
from losslab.campaign.recorded import RecordedCampaign
from losslab.errors import LosslabError
from losslab.lock import own_folder

# Maximum number of findings in the text output; `--json` lists all.
MAX_SHOWN = 30
STAGE = "tables"
RESULTS = "results"
# The workflow's rules after measuring; each study has another one for its tables.
RULES = (
    "collect_study", "summarise_study", "judge_claims", "draw_claims", "draw_path",
    "test_agreement", "compare_numbers", "trace_origin", "check_verdicts", "plot_figure",
    "render_report", "publish_report", "make_explorer", "all",
)  # fmt: skip
# Folders and files of a results folder that the workflow makes from cells.
MADE = ("summary", "tables", "figures", "report", "claims.csv")
# Files whose bytes depend on the versions of R packages.
DRAWN = frozenset({".svg", ".png", ".pdf", ".html", ".tex"})
MARKUP = re.compile(r"<(svg|script|style|head)\b.*?</\1>|<[^>]*>", re.DOTALL)
# Time stamps that R writes to a PDF.
PDF_DATES = re.compile(rb"/(CreationDate|ModDate) \(D:[^)]*\)")


@dataclass
class Verification:
    """The outcome of a verification."""

    audit: Audit  # of the cells
    remade: Remade | None = None  # of the files made from cells; None if not made again

    @property
    def findings(self) -> list[Finding]:
        """All findings."""
        return [*self.audit.findings, *(self.remade.findings if self.remade else [])]


def verify_results(
    results: Path,
    campaign: RecordedCampaign,
    repository: Path,
    processors: int,
    say: Callable[[str], None] = lambda line: None,
) -> Verification:
    """Compute a campaign's results again, from the raw files to the report, and compare.

    Raises LosslabError if the workflow failed to make the files again that follow from cells.
    """
    found = Verification(audit(results, campaign.cells, processors, say))
    if not found.findings:
        found.remade = remake(results, campaign, repository, processors, say)
    return found


def not_verified(found: Verification) -> list[str]:
    """List the parts of a results folder that were not verified."""
    audited, remade = found.audit, found.remade
    lines = []
    if audited.counted:
        lines.append(
            "metrics compared only with counters in the manifests, as raw files have none: "
            + ", ".join(sorted(audited.counted))
        )
    if audited.not_recomputed:
        lines.append("metrics not recomputed: " + ", ".join(sorted(audited.not_recomputed)))
    if audited.unpinned:
        lines.append(f"unpinned kernels or images of {audited.unpinned} replicates")
    lines.append("host.json and the report's lines from it: machine, times, attempts")
    if remade is None:
        lines.append("tables, figures and report, because cells have findings")
    elif remade.not_compared:
        lines.append(
            f"graphics of {len(remade.not_compared)} figures and pages, drawn with different "
            f"software ({'; '.join(remade.software)})"
        )
    return lines


def quoted(findings: list[Finding]) -> list[str]:
    """Return a line for each finding, up to a maximum."""
    lines = [f"  {finding.stage}: {finding}" for finding in findings[:MAX_SHOWN]]
    if len(findings) > MAX_SHOWN:
        lines.append(f"  and {len(findings) - MAX_SHOWN} more, which --json lists")
    return lines


def statement(found: Verification) -> str:
    """Return the text output of `losslab verify`."""
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
    """Return the fixes for findings."""
    lines = []
    surplus = defaultdict[str, list[str]](list)
    for finding in findings:
        if finding.what == SURPLUS:
            surplus[finding.path.rpartition("/")[0]].append(finding.path)
    if surplus:
        lines.append(
            "An earlier campaign with more replicates left surplus ones. Remove them in the "
            "results folder:"
        )
        lines += [f"  rm -r {' '.join(paths)}" for paths in surplus.values()]
    findings = [finding for finding in findings if finding.what != SURPLUS]
    if any(finding.stage == DAMAGE for finding in findings):
        lines.append("The next start of the workflow measures only the damaged replicates again.")
    if any(finding.stage != DAMAGE for finding in findings):
        lines.append(
            "Remove the other files and folders listed here, then start the workflow. It makes "
            "only these again."
        )
    return lines


@dataclass
class Remade:
    """The outcome of making the files again that follow from cells."""

    findings: list[Finding] = field(default_factory=list)
    files: int = 0  # number of files made and compared
    # Figures and pages that differ because of the software. The text of pages is the same.
    not_compared: list[str] = field(default_factory=list)
    # Differences between the software now and then.
    software: list[str] = field(default_factory=list)


def remake(
    results: Path,
    campaign: RecordedCampaign,
    repository: Path,
    processors: int,
    say: Callable[[str], None] = lambda line: None,
) -> Remade:
    """Make all files that follow from a campaign's audited cells, and compare them.

    The workflow of the repository runs up to `processors` jobs at a time. `say` is called with
    lines on the progress. Raises LosslabError if the workflow failed.
    """
    say("making tables, figures and report again from the cells")
    with own_folder(Path(tempfile.gettempdir()), "losslab-remake-") as folder:
        made = folder / RESULTS
        link_cells(results, made, campaign)
        run_workflow(campaign, repository, folder, processors)
        return compare(results, made, campaign)


def link_cells(results: Path, made: Path, campaign: RecordedCampaign) -> None:
    """Link a campaign's cells into a new results folder, whose rules only read them."""
    for cell in campaign.cells:
        link = made / path_of(cell)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to((results / path_of(cell)).resolve())


def run_workflow(
    campaign: RecordedCampaign, repository: Path, folder: Path, processors: int
) -> None:
    """Run the workflow's rules after measuring in a folder with linked cells.

    Raises LosslabError if a rule failed; the message has the last lines of its log.
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
        log = logs[-1].read_text(errors="replace") if logs else ""
        lines = (done.err + done.out + log).strip().splitlines()
        raise LosslabError(
            "the workflow failed to make tables and report from the cells:\n"
            + "\n".join(lines[-processes.QUOTED_LINES :])
        )


def compare(results: Path, made: Path, campaign: RecordedCampaign) -> Remade:
    """Compare the files of a results folder with those made again."""
    found = Remade()
    here = recorded.software()
    then = campaign.software or here
    found.software = [
        f"{name} {then.get(name, 'none')} then, {here.get(name, 'none')} now"
        for name in sorted(then.keys() | here.keys())
        if then.get(name) != here.get(name)
    ]
    names, made_names = set(files(results)), set(files(made))
    found.files = len(made_names)
    for name in sorted(names | made_names):
        if name not in names:
            found.findings.append(Finding(STAGE, name, "missing, though the workflow makes it"))
        elif name not in made_names:
            found.findings.append(Finding(STAGE, name, "not made by the campaign's workflow"))
        elif difference := _difference(results / name, made / name, found):
            found.findings.append(Finding(STAGE, name, difference))
    return found


def files(results: Path) -> list[str]:
    """List the files of a results folder that the workflow made from cells, by relative path."""
    parts = [results / part for part in MADE]
    found = [part for part in parts if part.is_file()]
    found += [path for part in parts for path in part.rglob("*") if not path.is_dir()]
    return sorted(str(path.relative_to(results)) for path in found)


def _difference(then: Path, now: Path, found: Remade) -> str:
    one, other = (PDF_DATES.sub(b"", path.read_bytes()) for path in (then, now))
    if one == other:
        return ""
    if found.software and then.suffix == ".csv" and same_table(then, now):
        return ""
    drawn = found.software and then.suffix in DRAWN
    if drawn and (then.suffix != ".html" or text_of(one) == text_of(other)):
        found.not_compared.append(then.name)
        return ""
    return f"differs from the file made from the cells: {rerun.first_difference(one, other)}"


def text_of(page: bytes) -> str:
    """Return the text of an HTML page, without pictures, scripts and markup."""
    return " ".join(html.unescape(MARKUP.sub(" ", page.decode(errors="replace"))).split())
