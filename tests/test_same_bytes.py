"""The same rows make the same bytes, in any order and with any version of R.

tests/expected/analysis has a few replicates of the study cloud, and what the scripts make of them.
"""

import random
import shutil

import pytest

from bench.golden import without_later
from losslab.campaign import collect
from losslab.study.condition import AXES
from tests import madeup

STANDARD = {name: its.default for name, its in AXES.items()}
INPUTS = ("cells", "replicates", "intervals", "flows", "queue")


@pytest.fixture(scope="module")
def made(root, tmp_path_factory):
    """What comes of the same replicates as they are, and shuffled."""
    folder = tmp_path_factory.mktemp("bytes")
    noise = random.Random(3)
    for name in ("as-they-are", "shuffled"):
        summary = folder / name / "results" / "summary"
        summary.mkdir(parents=True)
        for table in INPUTS:
            source = root / f"tests/expected/analysis/input/cloud_{table}.csv"
            # Axes that came later are at what they were then.
            rows = [STANDARD | row for row in collect.read_csv(source)]
            if not rows:
                shutil.copy(source, summary)
                continue
            if name == "shuffled":
                noise.shuffle(rows)
            collect.write_csv(summary / source.name, list(rows[0]), rows)
    jobs = [
        {"name": name, "folder": name, "studies": ["cloud"], "numbers": True}
        for name in ("as-they-are", "shuffled")
    ]
    done = madeup.run_scripts(root, folder, jobs)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def outputs(folder):
    """Every table that the scripts wrote, by its path below results/."""
    results = folder / "results"
    inputs = {f"cloud_{table}.csv" for table in INPUTS}
    return {
        str(path.relative_to(results)): without_later(path.read_text())
        for path in sorted(results.rglob("*.csv"))
        if path.name not in inputs
    }


def test_the_bytes_are_those_that_were_recorded(root, made):
    recorded = root / "tests/expected/analysis/output"
    found = outputs(made / "as-they-are")
    assert set(found) == {str(path.relative_to(recorded)) for path in recorded.rglob("*.csv")}
    for name, text in found.items():
        assert text == (recorded / name).read_text(), f"differs: {made / 'as-they-are' / name}"


def test_the_order_of_the_rows_does_not_count(made):
    assert outputs(made / "shuffled") == outputs(made / "as-they-are")
