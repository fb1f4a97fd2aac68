"""Make all files that follow from a campaign's cells again, with the workflow, and compare them."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from losslab import extensions, processes
from losslab.campaign import plan, rerun
from losslab.campaign.plan import RecordedCampaign
from losslab.campaign.results import replace_json
from losslab.errors import LosslabError
from losslab.lock import own_folder
from losslab.repository import find
from losslab.study.design import Cell

STAGE = "tables"
RESULTS = "results"
CELLS = "cells"
# Records of `losslab conform`, which are measured as cells are.
JUDGED = "conform/*.json"
# The workflow's rules after measuring, besides `analyse_STUDY`.
RULES = (
    "collect_study", "compare_studies", "trace_origin", "render_report", "publish_report",
    "make_explorer", "all",
)  # fmt: skip
# Folders and files of a results folder that the workflow makes from cells.
MADE = ("summary", "tables", "figures", "report", "claims.csv")
# Files whose bytes depend on the versions of R packages.
DRAWN = frozenset({".svg", ".png", ".pdf", ".html", ".tex"})
# Start of an error in the log of a rule.
ERROR = "losslab: error: "
# Time stamps that R writes to a PDF.
PDF_DATES = re.compile(rb"/(CreationDate|ModDate) \(D:[^)]*\)")
# Tolerance for numbers that another version of the software rounds differently.
RELATIVE, ABSOLUTE = 1e-5, 2e-6


@dataclass(frozen=True)
class Finding:
    """A discrepancy in a results folder or an artifact."""

    stage: str  # files, cells, tables or rerun
    path: str
    what: str


@dataclass
class Remade:
    """The outcome of making the files again that follow from cells."""

    findings: list[Finding] = field(default_factory=list)
    files: int = 0  # number of files made and compared
    # Figures and pages that differ because of the software.
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
    """Make all files that follow from a campaign's cells, and compare them.

    The workflow of the repository runs up to `processors` jobs at a time. It reads every raw file
    and refuses one that differs from its digest; its error is then the only finding. `say` is
    called with a line on the progress.
    """
    say("making tables, figures and report again from the cells")
    with own_folder(Path(tempfile.gettempdir()), "losslab-remake-") as folder:
        again = folder / RESULTS
        link_cells(results, again, campaign)
        try:
            run_workflow(campaign, repository, folder, processors)
        except LosslabError as error:
            return Remade([Finding(STAGE, CELLS, error.message)])
        return compare(results, again, campaign)


def path_of(cell: Cell) -> str:
    """Return the path of a cell's folder, relative to the results."""
    return f"{CELLS}/{cell.study}/{cell.name}"


def link_cells(results: Path, made: Path, campaign: RecordedCampaign) -> None:
    """Link what a campaign measured into a new results folder, whose rules only read it."""
    judged = [path.relative_to(results) for path in results.glob(JUDGED)]
    for name in [*judged, *map(Path, map(path_of, campaign.cells))]:
        link = made / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to((results / name).resolve())


def config_options(campaign: RecordedCampaign, repository: Path, folder: Path) -> list[str | Path]:
    """Return Snakemake's options of a campaign's configuration; write its files if there are none.

    The report has the same command as the campaign's only with the same files.
    """
    files = [find(name, repository) for name in campaign.names]
    more = plan.overrides(files, campaign.config) if all(map(Path.is_file, files)) else None
    if more is None:
        files, more = [folder / Path(name).name for name in campaign.names], {}
        for path in files:
            replace_json(campaign.config if path == files[0] else {}, path)
    return ["--configfile", *files, *plan.options(more)]


def run_workflow(
    campaign: RecordedCampaign, repository: Path, folder: Path, processors: int
) -> None:
    """Run the workflow's rules after measuring in a folder with linked cells.

    Raises LosslabError if a rule failed, with losslab's error or the last lines of its log.
    """
    studies = [f"analyse_{study.name}" for study in campaign.studies]
    campaign_folder = extensions.campaign()
    done = processes.attempt(
        [
            sys.executable, "-m", "snakemake", "--snakefile", repository / "Snakefile",
            "--directory", folder, "--cores", str(processors),
            # Not "all", which hides errors.
            "--quiet", "host", "progress", "reason", "rules",
            *config_options(campaign, repository, folder),
            "--allowed-rules", *RULES, *studies,
        ],
        limit_s=processes.WORK_LIMIT_S,
        more={"PYTHONPATH": str(repository / "src")}
        | ({extensions.VARIABLE: str(campaign_folder)} if campaign_folder else {}),
    )  # fmt: skip
    if not done.good:
        logs = sorted((folder / "logs").rglob("*.log"), key=lambda path: path.stat().st_mtime)
        texts = [log.read_text(errors="replace") for log in logs]
        for text in texts:
            if ERROR in text:  # Snakemake's output only says that a command failed
                raise LosslabError(text.partition(ERROR)[2].strip())
        lines = (done.err + done.out + "".join(texts[-1:])).strip().splitlines()
        raise LosslabError(
            "the workflow failed to make tables and report from the cells:\n"
            + "\n".join(lines[-processes.QUOTED_LINES :])
        )


def compare(results: Path, made: Path, campaign: RecordedCampaign) -> Remade:
    """Compare the files of a results folder with those made again."""
    remade = Remade()
    here = plan.software()
    then = campaign.software or here
    remade.software = [
        f"{name} {then.get(name, 'none')} then, {here.get(name, 'none')} now"
        for name in sorted(then.keys() | here.keys())
        if then.get(name) != here.get(name)
    ]
    names, made_names = set(files(results)), set(files(made))
    remade.files = len(made_names)
    for name in sorted(names | made_names):
        if name not in names:
            remade.findings.append(Finding(STAGE, name, "missing, though the workflow makes it"))
        elif name not in made_names:
            remade.findings.append(Finding(STAGE, name, "not made by the campaign's workflow"))
        elif difference := _difference(results / name, made / name, remade):
            remade.findings.append(Finding(STAGE, name, difference))
    return remade


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
    if found.software and then.suffix == ".csv" and same_numbers(one.decode(), other.decode()):
        return ""
    if found.software and then.suffix in DRAWN:
        found.not_compared.append(then.name)
        return ""
    return f"differs from the file made from the cells: {rerun.first_difference(one, other)}"


def same_numbers(one: str, other: str) -> bool:
    """Return whether two tables have the same text and, within the tolerance, numbers."""
    tables = [list(csv.reader(io.StringIO(text))) for text in (one, other)]
    if [len(row) for row in tables[0]] != [len(row) for row in tables[1]]:
        return False
    pairs = (pair for rows in zip(*tables, strict=True) for pair in zip(*rows, strict=True))
    return all(a == b or _close(a, b) for a, b in pairs)


def _close(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    except ValueError:
        return False
