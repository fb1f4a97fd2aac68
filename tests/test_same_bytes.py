"""Equal rows give equal bytes, in any order and with any version of R.

tests/expected/analysis has some replicates of the study cloud, and the output of the scripts.
"""

import random
import shutil

import pytest

from bench.golden import without_later_axes
from losslab.campaign import tables
from losslab.reading import read_rows
from losslab.study.condition import AXES
from tests import madeup

STANDARD = {name: its.default for name, its in AXES.items()}
INPUTS = ("cells", "replicates", "intervals", "flows", "queue")


@pytest.fixture(scope="module")
def made(root, tmp_path_factory):
    """Return the output for the same replicates in two orders."""
    folder = tmp_path_factory.mktemp("bytes")
    noise = random.Random(3)
    for name in ("as-they-are", "shuffled"):
        summary = folder / name / "results" / "summary" / "cloud"
        summary.mkdir(parents=True)
        for table in INPUTS:
            source = root / f"tests/expected/analysis/input/cloud/{table}.csv"
            # Axes that were added later have their default.
            rows = [STANDARD | row for row in read_rows(source)]
            if not rows:
                shutil.copy(source, summary)
                continue
            if name == "shuffled":
                noise.shuffle(rows)
            tables.write_csv(summary / source.name, list(rows[0]), rows)
    jobs = [
        {"name": name, "folder": name, "studies": ["cloud"], "until": "claims"}
        for name in ("as-they-are", "shuffled")
    ]
    done = madeup.run_scripts(root, folder, jobs)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def outputs(folder):
    """Return every table that the scripts wrote, by its path below results/."""
    results = folder / "results"
    inputs = {results / f"summary/cloud/{table}.csv" for table in INPUTS}
    return {
        str(path.relative_to(results)): without_later_axes(path.read_text())
        for path in sorted(results.rglob("*.csv"))
        if path not in inputs
    }


def test_analysis_of_made_up_data_gives_the_recorded_bytes(root, made):
    recorded = root / "tests/expected/analysis/output"
    found = outputs(made / "as-they-are")
    assert set(found) == {str(path.relative_to(recorded)) for path in recorded.rglob("*.csv")}
    for name, text in found.items():
        assert text == (recorded / name).read_text(), f"differs: {made / 'as-they-are' / name}"


def test_order_of_rows_does_not_change_the_analysis(made):
    assert outputs(made / "shuffled") == outputs(made / "as-they-are")
