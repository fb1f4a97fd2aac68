"""New studies: YAML, published numbers, R files, chapter and claims under the study's name."""

import os
import re
import shutil
import subprocess

import pytest

from losslab.reading import read_rows
from tests.e2e.conftest import snakemake

FIXTURE = "tests/fixtures/study"
pytestmark = pytest.mark.xdist_group("tiny campaign")


def test_new_study_needs_only_files_under_its_name(root):
    found = {
        str(path.relative_to(root / FIXTURE))
        for path in (root / FIXTURE).rglob("*")
        if path.is_file()
    }
    assert found == {
        "studies/tiny/study.yaml", "studies/tiny/published.csv", "studies/tiny/chapter.qmd",
        "studies/tiny/claims.yaml", "studies/tiny/tables.R",
        "studies/tiny/figures/goodput.R",
        # An optional function that table and figure share.
        "studies/tiny/losses.R",
    }  # fmt: skip
    assert [name for name in found if (root / name).exists()] == []


def test_new_study_runs_in_a_campaign(repository):
    done = subprocess.run(
        ["losslab", "cells", "tiny"], cwd=repository, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(repository / "src")},
    )  # fmt: skip
    assert "cubic_loss1_symmetric_iperf3_rtt10" in done.stdout


def test_new_studys_figure_table_claim_and_chapter_are_in_the_report(work):
    results = work / "results"
    for format in ("svg", "png", "pdf"):
        assert (results / f"figures/tiny/goodput.{format}").stat().st_size > 3000
    table = read_rows(results / "tables/tiny/goodput.csv")
    assert [(row["algorithm"], row["published_mbit"]) for row in table] == [
        ("bbr", "9.4"), ("bbr", "NA"), ("cubic", "9.5"), ("cubic", "NA"),
    ]  # fmt: skip
    [claim] = read_rows(results / "claims.csv")
    assert (claim["study"], claim["claim"]) == ("tiny", "tiny-cubic")
    # Three runs are too few for another verdict.
    assert claim["verdict"] == "inconclusive"
    assert float(claim["measured"]) == pytest.approx(9.5, abs=0.2)
    html = " ".join((results / "report/report.html").read_text().split())
    for words in ("A tiny study", "Goodput with and without loss.", "tiny loss of 1 %",
                  "Without loss CUBIC fills a tiny link."):  # fmt: skip
        assert words in html
    assert (results / "report/report.pdf").read_bytes().startswith(b"%PDF")
    assert "uPlot" in (results / "report/explorer.html").read_text()
    assert "5 cells" in (work / "logs/make_explorer.log").read_text()


def made_again(done):
    """Return the rules that a dry run would run."""
    assert done.returncode == 0, done.stderr
    counted = re.findall(r"^(\w+) +\d+$", done.stdout + done.stderr, re.MULTILINE)
    return set(counted) - {"all", "total"}


# Files, and the rules that an edit of their code runs again.
EDITS = {
    # Shared files can affect everything.
    ("analysis/R/theme.R",): {"analyse_tiny", "compare_studies"},
    # Files of other studies affect nothing. The comparison reads the statistics of each study.
    ("studies/tiny/figures/goodput.R", "studies/loss/figures/goodput.R",
     "studies/map/gains.R"): {"analyse_tiny", "compare_studies"},
}  # fmt: skip


@pytest.mark.parametrize("files", EDITS)
def test_edited_file_remakes_exactly_its_dependents(repository, work, files):
    before = {repository / file: (repository / file).read_text() for file in files}
    for path, its in before.items():
        path.write_text(its + "edited <- 1\n")
    try:
        again = made_again(snakemake(repository, work, "-n"))
    finally:
        for path, its in before.items():
            path.write_text(its)
    assert again == EDITS[files] | {"render_report", "publish_report"}


@pytest.mark.nightly
def test_failed_render_leaves_the_last_report(repository, work, tmp_path):
    copy = shutil.copytree(work, tmp_path / "copy", symlinks=True)
    page, chapter = copy / "results/report/report.html", repository / "studies/tiny/chapter.qmd"
    last, text = page.read_bytes(), chapter.read_text()
    chapter.write_text(f"{text}\nSee @fig-nowhere.\n")
    try:
        assert snakemake(repository, copy).returncode != 0
        assert "fig-nowhere" in (copy / "logs/render_report.log").read_text()
        assert page.read_bytes() == last
        again = made_again(snakemake(repository, copy, "-n"))
        assert again == {"render_report", "publish_report"}
    finally:
        chapter.write_text(text)
