"""The workflow from the dry run to the rendered report, on made-up measurements."""

import math
import random
import subprocess

import pytest

from losslab import collect, design

CAMPAIGNS = ["quick", "map", "contest", "backends"]
STUDIES = ["calibration", "loss", "bufferbloat", "cloud", "map", "cellular", "backends"]
ANALYSIS = [
    "summarise_study", "judge_claims", *(f"tabulate_{study}" for study in STUDIES),
    "plot_figure", "render_report", "all",
]  # fmt: skip


def snakemake(root, *words):
    # Together they have every study.
    campaigns = [f"config/{name}.yaml" for name in CAMPAIGNS]
    return subprocess.run(
        ["snakemake", "--cores", "2", "--configfile", *campaigns, *map(str, words)],
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
    broken = cell.name.startswith("bbr_loss4") and number == 1
    row = {
        **c.to_json(),
        "study": cell.study,
        "block": cell.block,
        "cell": cell.name,
        "replicate": number,
        "seed": number,
        "valid": "FALSE" if broken else "TRUE",
        "reasons": "made up" if broken else "",
        "attempt": 2 if broken else 1,
        "earlier_reasons": "lost" if broken else "",
        "pinned": "FALSE" if broken else "TRUE",
        "rtt_measured_ms": c.rtt_ms,
        "loss_offered_packets": 100_000,
        "loss_packets": round(1000 * c.loss_percent * noise.uniform(0.99, 1.01)),
        "unexplained_packets": 0,
        "queue_mean_packets": 10,
        "rtt_loaded_ms": 1.1 * c.rtt_ms,
        "retransmits": 12,
    }
    if c.trace != "none":
        throughput, delay_ms = noise.uniform(1, 5), noise.uniform(80, 900)
        row |= {
            "link_throughput_mbit": throughput, "signal_delay_p95_ms": delay_ms,
            "queue_delay_p95_ms": delay_ms / 2, "power": 1000 * throughput / delay_ms,
            "trace_mbit": 5.04, "trace_rate_cv": 0.7, "trace_gap_max_ms": 400,
            "trace_gaps_percent": 3,
        }  # fmt: skip
    if c.app == "iperf3":
        row["goodput_mbit"] = min(goodput, 0.95 * c.rate_mbit) * noise.uniform(0.95, 1.0)
        row["total_goodput_mbit"] = row["goodput_mbit"]
        if c.competitor != "none":
            row |= {"jain_index": 0.999, "competitor_goodput_mbit": row["goodput_mbit"]}
    elif c.app == "web":
        loaded = c.competitor != "none"
        row |= {
            "download_s": noise.uniform(0.9, 1.1) * (4 if loaded else 1),
            "rtt_before_fetch_ms": noise.uniform(0.9, 1.1)
            * (c.buffer_packets * 6 if loaded else 20),
        }
    elif c.app == "ffmpeg":
        row |= {
            "time_to_first_frame_s": 0.07, "stall_count": 1, "stall_s": c.loss_percent / 10,
            "frames_on_time_percent": 100 - c.loss_percent, "frames_delivered_percent": 100,
            "completion_s": 5, "throughput_mbit": 6,
        }  # fmt: skip
    return row


def made_up_tables(study, noise):
    tables = collect.Tables()
    for cell in study.cells:
        rows = [made_up_replicate(cell, number, noise) for number in range(3)]
        tables.replicates += rows
        tables.intervals += [
            {**row, "t_s": t, "goodput_mbit": row["goodput_mbit"] * noise.uniform(0.9, 1.0)}
            for row in rows
            if row["valid"] == "TRUE" and row["app"] == "iperf3"
            for t in range(2, 6)
        ]
        if cell.name in study.series:
            samples = [{**rows[0], "t_s": t / 10} for t in range(50)]
            tables.flows += [
                {
                    **s,
                    "flow": {"iperf3": "first", "web": "web", "ffmpeg": "video"}[s["app"]],
                    "cwnd_packets": noise.randint(5, 90),
                    "ssthresh_packets": noise.randint(5, 90),
                    "srtt_ms": 0.5,
                }
                for s in samples
            ]
            tables.queue += [
                {**s, "backlog_packets": noise.randint(0, 90), "backlog_bytes": 0, "drops": 0}
                for s in samples
            ]
    return tables


@pytest.fixture(scope="module")
def rendered(root, tmp_path_factory):
    """A folder in which the analysis ran on made-up tables."""
    folder = tmp_path_factory.mktemp("workflow")
    campaigns = [design.load_yaml(root / f"config/{name}.yaml") for name in CAMPAIGNS]
    studies = [study for campaign in campaigns for study in design.load_studies(campaign, root)]
    noise = random.Random(1)
    for study in studies:
        made_up_tables(study, noise).write(
            *(
                folder / f"results/summary/{study.name}_{table}.csv"
                for table in ("replicates", "intervals", "flows", "queue")
            )
        )
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


def test_every_figure_has_three_formats(root, rendered):
    files = list((rendered / "results/figures").iterdir())
    figures = [design.load_yaml(root / f"config/studies/{s}.yaml")["figures"] for s in STUDIES]
    assert len(files) == 3 * sum(map(len, figures))
    assert all(f.stat().st_size > 3000 for f in files)


def test_invalid_replicates_are_shown_and_left_out(rendered):
    invalid = rows(rendered / "results/tables/loss_invalid.csv")
    assert {r["reasons"] for r in invalid} == {"made up"}
    assert {r["attempt"] for r in invalid} == {"2"}
    assert "made up" in (rendered / "results/report/report.html").read_text()
    summary = [
        r for r in rows(rendered / "results/summary/loss.csv")
        if r["cell"].startswith("bbr_loss4_symmetric_iperf3") and r["metric"] == "goodput_mbit"
        and r["statistic_over"] == "replicates"
    ]  # fmt: skip
    assert [(r["n"], r["n_invalid"]) for r in summary] == [("2", "1")]


def test_unpinned_replicates_are_told_at_the_beginning(rendered):
    html = " ".join((rendered / "results/report/report.html").read_text().split())
    count = sum(
        row["pinned"] == "FALSE"
        for study in STUDIES
        for row in rows(rendered / f"results/summary/{study}_replicates.csv")
    )
    assert count > 0
    assert f"{count} of these replicates were measured with a kernel or an image" in html


def test_claims_have_verdicts(rendered):
    claims = rows(rendered / "results/claims.csv")
    verdicts = {(r["study"], r["claim"]): r["verdict"] for r in claims}
    for claim in ("rtt", "loss", "fairness-cubic"):
        assert verdicts["calibration", claim] == "holds"
    assert verdicts["loss", "cubic-symmetric-1-percent"] == "holds"
    assert verdicts["loss", "cubic-asymmetric-baseline"] == "does not hold"
    assert {study for study, _ in verdicts} == set(STUDIES)


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
