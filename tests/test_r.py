import csv
import subprocess

import pytest


def test_r_unit_tests_pass(root):
    done = subprocess.run(
        ["Rscript", "--vanilla", "analysis/tests/testthat.R"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
def test_interval_coverage_is_simulated_from_a_campaigns_runs(root, tmp_path):
    """Coverage of confidence intervals on made-up runs: 16 cells of 5 replicates each."""
    recorded = root / "tests" / "expected" / "analysis" / "input" / "cloud_replicates.csv"
    with recorded.open(newline="") as file:
        reader = csv.DictReader(file)
        row = next(
            row for row in reader
            if (row["algorithm"], row["app"], row["competitor"]) == ("cubic", "iperf3", "none")
        )  # fmt: skip
    summary = tmp_path / "results" / "summary" / "cloud_replicates.csv"
    summary.parent.mkdir(parents=True)
    with summary.open("w", newline="") as file:
        writer = csv.DictWriter(file, reader.fieldnames)
        writer.writeheader()
        for number in range(80):
            goodput = 100 + number % 5 + number % 7
            made_up = {"cell": f"made-up-{number // 5}", "replicate": number % 5}
            writer.writerow(row | made_up | {"goodput_mbit": goodput})
    for name in ("analysis", "bench"):
        (tmp_path / name).symlink_to(root / name)
    (tmp_path / "report").mkdir()
    words = ["Rscript", "--vanilla", "bench/coverage.R", "results", "40"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "report" / "coverage.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert {row["population"] for row in found} == {"CUBIC between two hosts"}
    assert {row["runs"] for row in found} == {"80"}
    assert all(0 < float(row["coverage_percent"]) <= 100 for row in found)
