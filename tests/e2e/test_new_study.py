"""New studies: YAML, published numbers, R files, chapter and claims under the study's name."""

import os
import random
import re
import shutil
import subprocess

import pytest
import yaml

from losslab.campaign import collect
from losslab.study import design
from tests import madeup

FIXTURE = "tests/fixtures/study"
# Parts of the repository that the workflow needs.
NEEDED = (
    "Snakefile", "analysis", "config", "containers", "profiles", "report", "scripts", "src",
    "workflow",
)  # fmt: skip
CAMPAIGN = {"studies": {"tiny": {"main": {"replicates": 6, "duration_s": 1, "warmup_s": 0}}}}


def run(folder, *command):
    """Run a command in a copy, with the copy's own losslab."""
    return subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def snakemake(folder, *words):
    """Run the workflow on the study alone, from a campaign outside the copy."""
    campaign = folder.parent / "campaign.yaml"
    campaign.write_text(yaml.safe_dump(CAMPAIGN))
    rules = ["collect_study", "summarise_study", "judge_claims", "tabulate_tiny", "plot_figure",
             "test_agreement", "compare_numbers", "trace_origin", "draw_claims", "draw_path",
             "render_report", "publish_report", "make_explorer", "all"]  # fmt: skip
    return run(
        folder, "snakemake", "--cores", "2", "--configfile", str(campaign),
        "--allowed-rules", *rules, *words,
    )  # fmt: skip


@pytest.fixture(scope="module")
def clone(root, tmp_path_factory):
    """Return a copy of the repository with the study and results of its cells."""
    folder = tmp_path_factory.mktemp("clone")
    for name in NEEDED:
        if (root / name).is_dir():
            shutil.copytree(
                root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(root / name, folder)
    for path in sorted((root / FIXTURE).rglob("*")):
        target = folder / path.relative_to(root / FIXTURE)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        else:
            assert not target.exists()
            shutil.copy(path, target)
    cells = design.load_cells(CAMPAIGN, folder)
    noise = random.Random(1)
    for cell in cells:
        rows = [madeup.replicate(cell, number, noise) for number in range(6)]
        madeup.write_cell(folder, cell, rows, {"kernel": {"pinned": True}, "image": {}})
    done = snakemake(folder)
    logs = "\n".join(path.read_text() for path in (folder / "logs").rglob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    return folder


def test_new_study_needs_only_files_under_its_name(root):
    found = {
        str(path.relative_to(root / FIXTURE))
        for path in (root / FIXTURE).rglob("*")
        if path.is_file()
    }
    assert found == {
        "config/studies/tiny.yaml", "config/published/tiny.csv", "report/_tiny.qmd",
        "report/claims/tiny.yaml", "analysis/studies/tiny/tables.R",
        "analysis/studies/tiny/figures/goodput.R",
        # An optional function that table and figure share.
        "analysis/studies/tiny/losses.R",
    }  # fmt: skip


def test_new_study_runs_in_a_campaign(clone):
    done = run(clone, "losslab", "cells", "tiny")
    assert done.returncode == 0, done.stderr
    assert "cubic_loss1_symmetric_iperf3_rtt10" in done.stdout


def test_new_studys_figure_table_claim_and_chapter_are_in_the_report(clone):
    results = clone / "results"
    for format in ("svg", "png", "pdf"):
        assert (results / f"figures/tiny_goodput.{format}").stat().st_size > 3000
    table = collect.read_rows(results / "tables/tiny_goodput.csv")
    assert [(row["algorithm"], row["published_mbit"]) for row in table] == [
        ("bbr", "9.4"), ("bbr", "NA"), ("cubic", "9.5"), ("cubic", "NA"),
    ]  # fmt: skip
    [claim] = collect.read_rows(results / "claims.csv")
    assert (claim["study"], claim["claim"], claim["verdict"]) == (
        "tiny",
        "tiny-cubic",
        "reproduced",
    )
    html = " ".join((results / "report/report.html").read_text().split())
    for words in ("A tiny study", "Goodput with and without loss.", "tiny loss of 1 %",
                  "Without loss CUBIC fills a tiny link."):  # fmt: skip
        assert words in html
    assert (results / "report/report.pdf").read_bytes().startswith(b"%PDF")


def made_again(done):
    """Return the rules that a dry run would run."""
    assert done.returncode == 0, done.stderr
    counted = re.findall(r"^(\w+) +\d+$", done.stdout + done.stderr, re.MULTILINE)
    return set(counted) - {"all", "total"}


ALL_R = {
    "summarise_study", "judge_claims", "draw_claims", "draw_path", "test_agreement",
    "tabulate_tiny", "plot_figure", "compare_numbers",
}  # fmt: skip


# Files, and the rules that an edit of their code runs again.
EDITS = {
    # Shared files can affect everything.
    ("analysis/R/theme.R",): ALL_R,
    ("analysis/studies/tiny/losses.R",): {"plot_figure", "tabulate_tiny", "compare_numbers"},
    ("analysis/studies/tiny/figures/goodput.R",): {"plot_figure"},
    # Files of other studies.
    ("analysis/studies/loss/figures/goodput.R", "analysis/studies/map/gains.R"): set(),
}


def remade(clone, files, text):
    """Return the rules that a dry run would run after a text is added to files."""
    before = {clone / file: (clone / file).read_text() for file in files}
    for path, its in before.items():
        path.write_text(its + text)
    try:
        return made_again(snakemake(clone, "-n"))
    finally:
        for path, its in before.items():
            path.write_text(its)


def test_comments_only_render_the_report_again(clone):
    # The report's copies of the scripts have other bytes.
    files = [file for files in EDITS for file in files]
    assert remade(clone, files, "# A comment.\n") == {"render_report", "publish_report"}


@pytest.mark.parametrize("files", EDITS)
def test_edited_file_remakes_exactly_its_dependents(clone, files):
    rules = EDITS[files]
    report = {"render_report", "publish_report"} if rules else set()
    assert remade(clone, files, "edited <- 1\n") == rules | report


def test_failed_render_leaves_the_last_report(clone):
    page, chapter = clone / "results/report/report.html", clone / "report/_tiny.qmd"
    last, text = page.read_bytes(), chapter.read_text()
    chapter.write_text(f"{text}\nSee @fig-nowhere.\n")
    assert snakemake(clone).returncode != 0
    assert "fig-nowhere" in (clone / "logs/render_report.log").read_text()
    assert page.read_bytes() == last
    assert made_again(snakemake(clone, "-n")) == {"render_report", "publish_report"}
    chapter.write_text(text)
