"""Make a campaign's tables, figures and report again from its cells, and compare them.

The workflow itself does it, in a folder of its own, with the rules that come after measuring.
"""

from __future__ import annotations

import html
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from losslab import processes
from losslab.campaign import recorded
from losslab.campaign.audit import CELLS, Finding
from losslab.campaign.recompute import same_table
from losslab.campaign.recorded import Campaign
from losslab.errors import LosslabError
from losslab.lock import own_folder

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
    campaign: Campaign,
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


def link_cells(results: Path, made: Path, campaign: Campaign) -> None:
    """Give a new results folder a campaign's cells; nothing below them is written to."""
    for study in campaign.studies:
        for cell in study.cells:
            place = made / CELLS / study.name / cell.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to((results / CELLS / study.name / cell.name).resolve())


def run_workflow(campaign: Campaign, repository: Path, folder: Path, processors: int) -> None:
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


def compare(results: Path, made: Path, campaign: Campaign) -> Remade:
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
    return f"differs from what the cells give{first_difference(one, other)}"


def text_of(page: bytes) -> str:
    """Return what a reader reads of a page: without pictures, scripts and markup."""
    return " ".join(html.unescape(UNSEEN.sub(" ", page.decode(errors="replace"))).split())


def first_difference(one: bytes, other: bytes) -> str:
    """Quote the first line in which two texts differ."""
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    for number, (a, b) in enumerate(pairs, start=1):
        if a != b:
            if b"\0" in a + b:
                return ""
            quoted = [line.decode(errors="replace").strip()[:120] for line in (a, b)]
            return f": line {number} is {quoted[0]!r}, must be {quoted[1]!r}"
    return f": {len(one)} bytes, must be {len(other)}"
