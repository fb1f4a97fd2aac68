"""The report of the full campaign, from its recorded numbers: every recorded sentence holds."""

import subprocess

import pytest

from losslab.campaign.verdicts import read_recorded
from losslab.reading import read_rows

pytestmark = pytest.mark.nightly

RECORD = "recorded/full"


@pytest.fixture(scope="module")
def results(root, tmp_path_factory):
    """Return the results of the full campaign, of which no cell was measured here."""
    folder = tmp_path_factory.mktemp("full")

    def snakemake(*words):
        command = ["snakemake", "--cores", "2", "--configfile", root / "config/config.yaml"]
        command += ["--directory", folder, "--config", f"recorded={root / RECORD}", *words]
        return subprocess.run(
            [*map(str, command)], cwd=root, capture_output=True, text=True, check=False
        )

    planned = snakemake("--dry-run")
    assert planned.returncode == 0, planned.stderr
    if "measure_cell" in planned.stdout + planned.stderr:
        pytest.skip(f"{RECORD} is of other sources: measure the full campaign and record it")
    done = snakemake()
    logs = "\n".join(path.read_text() for path in (folder / "logs").rglob("*.log"))
    assert done.returncode == 0, done.stderr + logs
    return folder / "results"


def test_full_report_from_recorded_numbers_has_the_recorded_verdicts_and_all_its_sentences(
    root, results
):
    recorded = read_recorded("full")
    judged = read_rows(results / "claims.csv")
    found = {(row["study"], row["claim"]): row["verdict"] for row in judged}
    assert found == {name: one.verdict for name, one in recorded.items()}
    page = (results / "report/report.html").read_text()
    cells = len(read_rows(root / RECORD / "record.tsv", "\t"))
    assert "in this one, all of them hold" in " ".join(page.split())
    assert f"{cells} of {cells} cells were not measured here" in page
