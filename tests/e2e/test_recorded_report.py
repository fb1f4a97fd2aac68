"""The report of the full campaign, from its recorded numbers: every recorded sentence holds."""

import random
import shutil
import subprocess

import pytest

from losslab.campaign.verdicts import read_recorded
from losslab.reading import read_rows

pytestmark = pytest.mark.nightly

RECORD = "recorded/full"


def report(root, folder, record, *more):
    """Make the report in a folder, without measuring, and return its results."""
    command = ["snakemake", "--cores", "2", "--configfile", root / "config/config.yaml"]
    command += ["--directory", folder, "--config", f"recorded={record}", "measure=False", *more]
    done = subprocess.run(
        [*map(str, command)], cwd=root, capture_output=True, text=True, check=False
    )
    if "must have cells measured with today's sources" in done.stderr:
        pytest.skip(f"{RECORD} is of other sources: measure the full campaign and record it")
    logs = "\n".join(path.read_text() for path in (folder / "logs").rglob("*.log"))
    assert done.returncode == 0, done.stderr + logs
    return folder / "results"


def test_full_report_from_recorded_numbers_has_the_recorded_verdicts_and_all_its_sentences(
    root, tmp_path
):
    results = report(root, tmp_path, root / RECORD)
    recorded = read_recorded("full")
    judged = read_rows(results / "claims.csv")
    found = {(row["study"], row["claim"]): row["verdict"] for row in judged}
    assert found == {name: one.verdict for name, one in recorded.items()}
    page = (results / "report/report.html").read_text()
    cells = len(read_rows(root / RECORD / "record.tsv", "\t"))
    assert "in this one, all of them hold" in " ".join(page.split())
    assert f"{cells} of {cells} cells were not measured here" in page


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_report_is_made_of_any_part_of_the_campaign(root, tmp_path, share):
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")  # of the cells that are left
    draw = random.Random(seed)
    record = tmp_path / "record"
    shutil.copytree(root / RECORD, record)
    head, *cells = (record / "cells.tsv").read_text().splitlines(keepends=True)
    kept = [cell for cell in cells if draw.random() < share]
    (record / "cells.tsv").write_text(head + "".join(kept))
    # Verdicts of another part than the recorded one may differ.
    results = report(root, tmp_path, record, "campaign=part")
    assert f"{len(kept)} of {len(kept)} cells" in (results / "report/report.html").read_text()
