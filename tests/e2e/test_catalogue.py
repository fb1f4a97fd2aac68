"""The configurations of `.test`, the workflow catalogue's place, and Snakemake's own report."""

import re
import subprocess
import zipfile

import pytest

from losslab.reading import read_yaml
from tests.e2e.conftest import snakemake
from tests.sources import tracked


def test_configurations_of_the_catalogue_are_tiny_and_need_every_rule(root, tmp_path):
    files = tracked(".test/config/*.yaml")
    assert [file.stem for file in files] == ["calibration", "config", "conform"]
    rules = set()
    for file in files:
        done = subprocess.run(
            ["snakemake", "--dry-run", "--configfile", file, "--directory", tmp_path], cwd=root,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        counts = dict(re.findall(r"^(\w+) +(\d+)$", done.stdout, re.MULTILINE))
        assert int(counts["measure_cell"]) <= 2
        rules |= counts.keys()
    assert {
        "measure_cell",
        "judge_algorithm",
        "analyse_loss",
        "make_explorer",
        "publish_report",
    } <= rules


def test_continuous_integration_makes_the_report_of_the_catalogue(root):
    steps = read_yaml(root / ".github/workflows/test.yml")["jobs"]["catalogue"]["steps"]
    commands = "\n".join(step.get("run", "") for step in steps)
    assert "--directory .test" in commands
    assert "--report report.zip" in commands


@pytest.mark.xdist_group("tiny campaign")
def test_snakemake_reports_the_campaigns_figures_claims_and_report(repository, work):
    done = snakemake(repository, work, "--report", "snakemake-report.zip")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    with zipfile.ZipFile(work / "snakemake-report.zip") as archive:
        names = {name.rpartition("/")[2] for name in archive.namelist()}
    assert {"report.html", "claims.csv", "goodput.svg"} <= names
