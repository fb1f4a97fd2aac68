"""What the report does with claims that are wrong and with cells that are missing."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import yaml

from bench.faults.kit import ROOT, SNAKEMAKE, Outcome, first_line, run
from losslab.screen import progress
from tests import madeup

COPIED = (
    "Snakefile", "analysis", "config", "containers", "profiles", "report", "src", "workflow",
)  # fmt: skip
SOME_STUDIES = ("calibration", "bufferbloat")


def broken_claim(folder: Path) -> Outcome:
    """A misspelt statistic in a file of claims, and then a campaign."""
    clone = folder / "clone"
    clone.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, clone / name)
    claims = clone / "report" / "claims" / "calibration.yaml"
    text = claims.read_text()
    claims.write_text(text.replace("statistic: max\n", "statistic: maximum\n", 1))
    done = run(
        *SNAKEMAKE, "--cores", "1", "--snakefile", clone / "Snakefile", "--directory", folder,
        "--configfile", clone / "config" / "quick.yaml",
        env=os.environ | {"PYTHONPATH": str(clone / "src")},
    )  # fmt: skip
    words = done.stdout + done.stderr
    return Outcome(
        "a claim with `statistic: maximum`, and then a campaign",
        f"nothing ran: {first_line(words, 'found')}",
        good=done.returncode != 0 and claims.read_text() != text and "'maximum'" in words
        and "Traceback" not in words and not (folder / "results").exists(),
    )  # fmt: skip


def missing_cells(folder: Path) -> Outcome:
    """In some studies one cell without results and one without a valid one; then the report."""
    noise = random.Random(1)
    fates = (madeup.ABSENT, madeup.INVALID)
    named: list[str] = []
    # A few: tests/test_missing.py draws every study's figures without some of their cells.
    studies = [study for study in madeup.studies(ROOT) if study.name in SOME_STUDIES]
    for study in studies:
        lost = {cell.name: fate for cell, fate in zip(study.cells, fates, strict=False)}
        tables = madeup.tables(study, noise, lambda cell, f=lost: f.get(cell.name, madeup.VALID))
        madeup.write(tables, folder, study.name)
        named += [name for name, fate in lost.items() if fate == madeup.INVALID]
    campaign = folder / "campaign.yaml"
    campaign.write_text(yaml.safe_dump(madeup.campaign(studies), sort_keys=False))
    # All that comes after the tables of a study's replicates, which are made up here.
    rules = [name for name, stage in progress.RULES.items() if stage in ("tables", "figures")]
    rules = [name for name in rules if name != "collect_study"]
    rules += [f"{progress.TABULATE}{study.name}" for study in studies]
    done = run(
        *SNAKEMAKE, "--cores", "2", "--configfile", campaign, "--directory", folder,
        "results/report/report.html",
        "--allowed-rules", *rules, "render_report",
    )  # fmt: skip
    page = folder / "results" / "report" / "report.html"
    html = page.read_text() if page.exists() else ""
    said = html.count("What is missing here.")
    absent = [name for name in named if name not in html]
    return Outcome(
        "a cell without results and one without a valid result in each of some studies",
        f"the whole report, and in {said} of {len(studies)} chapters what is missing",
        good=done.returncode == 0 and said == len(studies) and not absent
        and "Error in" not in done.stdout + done.stderr
        and page.with_suffix(".pdf").exists(),
    )  # fmt: skip
