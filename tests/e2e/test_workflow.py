"""The workflow from the dry run to the rendered report, on made-up measurements."""

import csv
import math
import random
import subprocess

import pytest

from losslab import collect, design

ANALYSIS = ["summarise_study", "judge_claims", "tabulate_loss", "plot_loss", "render_report", "all"]


def snakemake(root, *words):
    return subprocess.run(
        ["snakemake", "--cores", "2", "--configfile", "config/quick.yaml", *map(str, words)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


def made_up_replicate(cell, number, noise):
    """A plausible shape, so that every figure has something to draw."""
    c = cell.condition
    capacity = 956.0
    if c.loss_percent == 0:
        goodput = capacity
    elif c.algorithm == "bbr":
        goodput = capacity * (1 - 0.02 * c.loss_percent)
    else:
        goodput = min(capacity, 105 / c.rtt_ms * math.exp(-0.4 * c.loss_percent))
    row = {
        **c.to_json(),
        "study": cell.study,
        "block": cell.block,
        "cell": cell.name,
        "replicate": number,
        "seed": number,
        "valid": "FALSE" if (cell.name.startswith("bbr_loss4") and number == 1) else "TRUE",
        "reasons": "made up" if (cell.name.startswith("bbr_loss4") and number == 1) else "",
        "rtt_measured_ms": c.rtt_ms,
    }
    if c.app == "iperf3":
        row["goodput_mbit"] = goodput * noise.uniform(0.95, 1.05)
    else:
        row |= {
            "time_to_first_frame_s": 0.07, "stall_count": 1, "stall_s": c.loss_percent / 10,
            "frames_on_time_percent": 100 - c.loss_percent, "frames_delivered_percent": 100,
            "completion_s": 5, "throughput_mbit": 6,
        }  # fmt: skip
    return row


@pytest.fixture(scope="module")
def rendered(root, tmp_path_factory):
    """A folder in which the analysis ran on made-up tables."""
    folder = tmp_path_factory.mktemp("workflow")
    cells = design.load_cells(design.load_yaml(root / "config/quick.yaml"), root)
    noise = random.Random(1)
    replicates = [made_up_replicate(cell, number, noise) for cell in cells for number in range(3)]
    intervals = [
        {**row, "t_s": t, "goodput_mbit": row["goodput_mbit"] * noise.uniform(0.9, 1.1)}
        for row in replicates
        if row["valid"] == "TRUE" and row["app"] == "iperf3"
        for t in range(2, 6)
    ]
    cwnd = [
        {**row, "t_s": t / 10, "cwnd_packets": noise.randint(5, 90), "srtt_ms": 0.5}
        for row in replicates
        if row["block"] == "main" and row["app"] == "iperf3" and row["replicate"] == 0
        and row["loss_percent"] in collect.CWND_LOSSES_PERCENT
        for t in range(50)
    ]  # fmt: skip
    (folder / "results/summary").mkdir(parents=True)
    for name, columns, rows in (
        ("replicates", collect.REPLICATE_COLUMNS, replicates),
        ("intervals", collect.INTERVAL_COLUMNS, intervals),
        ("cwnd", collect.CWND_COLUMNS, cwnd),
    ):
        with (folder / f"results/summary/loss_{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
    done = snakemake(root, "--directory", folder, "--allowed-rules", *ANALYSIS)
    logs = "\n".join(p.read_text() for p in (folder / "logs").rglob("*.log"))
    assert done.returncode == 0, done.stderr + logs
    return folder


def rows(path):
    return collect.read_csv(path)


def test_report_is_there_in_both_formats(rendered):
    html = (rendered / "results/report/report.html").read_text()
    assert html.count("<img") + html.count("<svg") >= 6
    assert "@fig-" not in html
    assert "Figure 1" in html
    assert "not measured" not in html
    assert (rendered / "results/report/report.pdf").read_bytes().startswith(b"%PDF")


def test_every_figure_has_three_formats(rendered):
    files = list((rendered / "results/figures").iterdir())
    assert len(files) == 18
    assert all(f.stat().st_size > 3000 for f in files)


def test_invalid_replicates_are_shown_and_left_out(rendered):
    assert {r["reasons"] for r in rows(rendered / "results/tables/loss_invalid.csv")} == {"made up"}
    summary = [
        r for r in rows(rendered / "results/summary/loss.csv")
        if r["cell"].startswith("bbr_loss4_symmetric_iperf3") and r["metric"] == "goodput_mbit"
        and r["statistic_over"] == "replicates"
    ]  # fmt: skip
    assert [(r["n"], r["n_invalid"]) for r in summary] == [("2", "1")]


def test_claims_have_verdicts(rendered):
    verdicts = {r["claim"]: r["verdict"] for r in rows(rendered / "results/claims.csv")}
    assert verdicts["cubic-symmetric-1-percent"] == "holds"
    assert verdicts["cubic-asymmetric-baseline"] == "does not hold"


def test_a_second_run_does_nothing(root, rendered):
    done = snakemake(root, "--directory", rendered, "--allowed-rules", *ANALYSIS)
    assert "Nothing to be done" in done.stdout + done.stderr


def test_dry_run_of_the_full_campaign(root, tmp_path):
    done = snakemake(root, "-n", "--configfile", "config/config.yaml", "--directory", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "measure_cell" in done.stdout + done.stderr


def test_bad_configuration_stops_before_anything_runs(root, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("studies: {loss: {main: {replicates: 3, duration_s: 5, warm_up: 1}}}\n")
    done = snakemake(root, "-n", "--configfile", bad)
    assert done.returncode != 0
    assert "warm_up" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
