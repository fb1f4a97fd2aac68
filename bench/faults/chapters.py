"""Faults of the report: wrong claims and missing cells."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import yaml

from bench.faults.kit import ROOT, SNAKEMAKE, Outcome, first_line, run
from tests import madeup

COPIED = (
    "Snakefile", "analysis", "config", "containers", "profiles", "report", "scripts", "src",
    "workflow",
)  # fmt: skip
SOME_STUDIES = ("backends", "quic")


def broken_claim(folder: Path) -> Outcome:
    """A campaign with a misspelt statistic in a file of claims."""
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
        f"nothing ran: {first_line(words, 'claim rtt')}",
        good=done.returncode != 0 and claims.read_text() != text
        and "claim rtt: statistic: 'maximum' is not one of ['mean', 'std'" in words
        and "Traceback" not in words and not (folder / "results").exists(),
    )  # fmt: skip


def missing_cells(folder: Path) -> Outcome:
    """A report on studies with an absent cell and a cell without a valid replicate."""
    noise = random.Random(1)
    fates = (madeup.ABSENT, madeup.INVALID)
    named: list[str] = []
    # Two short studies suffice: tests/test_missing.py draws all figures with missing cells.
    studies = [study for study in madeup.studies(ROOT) if study.name in SOME_STUDIES]
    for study in studies:
        lost = {cell.name: fate for cell, fate in zip(study.cells, fates, strict=False)}
        tables = madeup.tables(study, noise, lambda cell, f=lost: f.get(cell.name, madeup.VALID))
        madeup.write(tables, folder, study.name)
        named += [name for name, fate in lost.items() if fate == madeup.INVALID]
    campaign = folder / "campaign.yaml"
    campaign.write_text(yaml.safe_dump(madeup.campaign(studies), sort_keys=False))
    # The analysis after the tables of replicates, which are made up.
    rules = [
        "collect_study", "summarise_study", "judge_claims", "check_verdicts", "test_agreement",
        "compare_numbers", "trace_origin", "plot_figure", "draw_claims", "draw_path",
    ]  # fmt: skip
    rules = [name for name in rules if name != "collect_study"]
    rules += [f"tabulate_{study.name}" for study in studies]
    done = run(
        *SNAKEMAKE, "--cores", "2", "--configfile", campaign, "--directory", folder,
        "results/report/report.html",
        "--allowed-rules", *rules, "render_report", "publish_report",
    )  # fmt: skip
    page = folder / "results" / "report" / "report.html"
    html = page.read_text() if page.exists() else ""
    said = sum(f"<li>{study.name}: Block" in html for study in studies)
    absent = [name for name in named if name not in html]
    return Outcome(
        "an absent cell and one without a valid result in each of some studies",
        f"the complete report; its appendix names what {said} of {len(studies)} studies miss",
        good=done.returncode == 0 and said == len(studies) and not absent
        and "Error in" not in done.stdout + done.stderr
        and page.with_suffix(".pdf").exists(),
    )  # fmt: skip
