"""Made-up measurements of every study, for tests of the analysis."""

import math
import random
import subprocess
from collections.abc import Callable

import yaml

from losslab.campaign import criteria
from losslab.campaign.tables import REPLICATE_COLUMNS, Tables, cell_row
from losslab.reading import read_yaml
from losslab.repository import ROOT
from losslab.study import design, studyfiles
from losslab.study.condition import AXES
from tests.sources import tracked

# The minimum of a confidence interval, and one invalid replicate.
REPLICATES = 6
# Possible fates of a cell.
VALID, INVALID, ABSENT = "valid", "invalid", "absent"
REASON = "idle RTT must be 20 ms, found 41.2 | made_up"


def studies(root) -> list[design.Study]:
    """Return every study as the campaign of its name, or the smallest with its claims, runs it."""
    found: dict[str, design.Study] = {}
    rank = {"claims": 0, "quick": 1, "config": 3}
    campaigns = tracked(":(glob)config/campaigns/*.yaml", "config/config.yaml")
    for path in sorted(campaigns, key=lambda p: (rank.get(p.stem, 2), p)):
        for study in design.load_studies(read_yaml(path), root):
            own = (root / f"config/campaigns/{study.name}.yaml").exists()
            if not own or path.stem == study.name:
                found.setdefault(study.name, study)
    return list(found.values())


def campaign(measured) -> dict:
    """Return a campaign of these cells, in a short configuration.

    Snakemake gives the whole configuration to each R script, and R needs 1 s per MB.
    """
    studies: dict[str, dict] = {}
    for study in measured:
        described = studyfiles.load_study(study.name, ROOT, ())
        blocks = studies[study.name] = {}
        for block in dict.fromkeys(cell.block for cell in study.cells):
            points = [
                {name: point.get(name, its.default) for name, its in AXES.items()}
                for point in studyfiles.block_grid(described, described["blocks"][block])
            ]
            # Only axes with several values distinguish the block's cells.
            varying = [name for name in AXES if len({point[name] for point in points}) > 1]
            runs = []
            for cell in (cell for cell in study.cells if cell.block == block):
                values = cell.condition.to_json()
                runs.append({
                    "only": {name: values[name] for name in varying},
                    "replicates": REPLICATES,
                    "duration_s": values["duration_s"], "warmup_s": values["warmup_s"],
                    "backend": cell.backend, "where": cell.where,
                })  # fmt: skip
            alike = all(run | {"only": 0} == runs[0] | {"only": 0} for run in runs)
            if alike and len(runs) == len(points):
                runs = [{key: value for key, value in runs[0].items() if key != "only"}]
            blocks[block] = runs
    return {"studies": studies}


def ping_ms(condition):
    """Return the time of a ping of 98 bytes, and of 20 more over IPv6, on an exact link."""
    if condition.shaper != "link" or condition.trace != "none":
        return 0
    return (98 + 20 * (condition.ip_version == 6)) * 8 / 1e3 / condition.rate_mbit


def replicate(cell, number, noise, valid=True):
    """Return plausible series, so that every figure has data."""
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
        "valid": "FALSE" if broken or not valid else "TRUE",
        "reasons": "made up" if broken else "" if valid else REASON,
        "attempt": 2 if broken else 1,
        "earlier_reasons": "lost" if broken else "",
        "rtt_measured_ms": c.rtt_ms + ping_ms(c),
        "loss_offered_packets": 100_000,
        "loss_packets": round(1000 * c.loss_percent * noise.uniform(0.99, 1.01)),
        "unexplained_packets": 0,
        "queue_mean_packets": 10,
        "bottleneck_drops": 20,
        "rtt_loaded_ms": 1.1 * c.rtt_ms,
        "retransmits": 12,
        # Samples of the first flow.
        "srtt_mean_ms": 1.1 * c.rtt_ms + 0.01 * number, "srtt_std_ms": 0.1 + 0.01 * number,
        "srtt_median_ms": 1.1 * c.rtt_ms, "cwnd_median_packets": 50 + number,
        "ssthresh_changes": 3 + number, "window_cuts_per_s": 0.5 + 0.01 * number,
        "retransmits_first_second": 10 + number, "rwnd_limited_percent": 0.0,
    }  # fmt: skip
    if c.trace != "none":
        throughput, delay_ms = noise.uniform(1, 5), noise.uniform(80, 900)
        row |= {
            "link_throughput_mbit": throughput, "signal_delay_p95_ms": delay_ms,
            "queue_delay_p95_ms": delay_ms / 2, "power": 1000 * throughput / delay_ms,
            "trace_mbit": 5.04, "trace_rate_cv": 0.7, "trace_gap_max_ms": 400,
            "trace_gaps_percent": 3, "link_utilisation_percent": 99.5,
        }  # fmt: skip
    if c.app in ("iperf3", "quic", "command"):
        row["goodput_mbit"] = min(goodput, 0.95 * c.rate_mbit) * noise.uniform(0.95, 1.0)
        row["total_goodput_mbit"] = row["goodput_mbit"]
        if c.competitor != "none":
            row |= {"jain_index": 0.999, "competitor_goodput_mbit": row["goodput_mbit"]}
        if c.flows != "none":
            row |= {"jain_index": 0.9, "share_of_fair": 1.0, "flows_goodput_mbit": 1.0}
        if c.policer_mbit:
            row["goodput_mbit"] = 0.9 * c.policer_mbit * noise.uniform(0.95, 1.0)
            row["policer_drops"] = 100
    elif c.app == "web":
        loaded = c.competitor != "none"
        row |= {
            "download_s": noise.uniform(0.9, 1.1) * (4 if loaded else 1),
            "rtt_before_fetch_ms": noise.uniform(0.9, 1.1)
            * (c.buffer_packets * 6 if loaded else 20),
        }
    elif c.app == "stream":
        payload_kb = c.size_kb or c.response_kb
        took_s = 0.0015 * c.rtt_ms + 0.0085 * payload_kb / c.rate_mbit * noise.uniform(1.0, 1.01)
        row["goodput_mbit"] = row["total_goodput_mbit"] = 0.008 * payload_kb / took_s
        row |= {"completion_s": took_s} if c.size_kb else {"response_median_ms": 1e3 * took_s}
    elif c.app == "ffmpeg":
        row |= {
            "time_to_first_frame_s": 0.07, "stall_count": 1, "stall_s": c.loss_percent / 10,
            "frames_on_time_percent": 100 - c.loss_percent, "frames_delivered_percent": 100,
            "completion_s": 5, "throughput_mbit": 6,
        }  # fmt: skip
    return row


def result(cell, rows, instrument):
    """Return the content of a cell.json."""
    replicates = [
        {
            "valid": row["valid"] == "TRUE",
            "reasons": [row["reasons"]] if row["reasons"] else [],
            "seed": row["seed"],
            "attempt": row["attempt"],
            "earlier_reasons": [],
            "instrument": instrument,
            "summary": {
                key: value for key, value in row.items()
                if key not in REPLICATE_COLUMNS and key != "rtt_measured_ms"
            } | {"rtt_ms": row["rtt_measured_ms"]},
        }
        for row in rows
    ]  # fmt: skip
    return {
        "study": cell.study, "block": cell.block, "cell": cell.name,
        "condition": cell.condition.to_json(), "replicates": replicates,
    }  # fmt: skip


def tables(
    study: design.Study,
    noise: random.Random,
    fate: Callable[[design.Cell], str] = lambda cell: VALID,
    unpinned: tuple[str, ...] = (),
) -> Tables:
    """Return made-up tables of a study's cells, as `losslab collect` writes them.

    Args:
        study: The study.
        noise: Random numbers of the variation.
        fate: Fate of each cell.
        unpinned: Parts of the instrument that are not pinned.
    """
    found = Tables()
    instrument = {"kernel": {"version": "6.12.1"}, "image": {}}
    instrument |= {part: {"pinned": False} for part in unpinned}
    for cell in study.cells:
        became = fate(cell)
        rows = [
            replicate(cell, number, noise, became == VALID)
            for number in range(0 if became == ABSENT else REPLICATES)
        ]
        found.replicates += rows
        found.cells.append(cell_row(result(cell, rows, instrument), cell.condition))
        counting = [row for row in rows if row["valid"] == "TRUE"]
        found.intervals += [
            {**row, "t_s": t, "goodput_mbit": row["goodput_mbit"] * noise.uniform(0.9, 1.0)}
            for row in counting
            if row["app"] == "iperf3"
            for t in range(2, 6)
        ]
        if cell.name in study.series and counting:
            samples = [{**counting[0], "t_s": t / 10} for t in range(50)]
            found.flows += [
                {
                    **s,
                    "flow": {"iperf3": "first", "web": "web", "ffmpeg": "video"}[s["app"]],
                    "cwnd_packets": noise.randint(5, 90),
                    "ssthresh_packets": noise.randint(5, 90),
                    "srtt_ms": 0.5,
                }
                for s in samples
            ]
            found.queue += [
                {**s, "backlog_packets": noise.randint(0, 90), "backlog_bytes": 0, "drops": 0}
                for s in samples
            ]
    found.cells += [
        {"study": study.name, "block": block, "n_left_out": count}
        for block, count in study.left_out.items()
    ]
    return found


def write(found: Tables, folder, study: str) -> None:
    """Write a study's tables to the workflow's paths."""
    found.criteria = criteria.of_study(study, found)
    found.write(folder / "results" / "summary", study)


def run_scripts(root, folder, jobs):
    """Run the jobs of tests/scripts.R; their folders are relative to `folder`."""
    jobs = [job | {"folder": str(folder / job["folder"])} for job in jobs]
    path = folder / "jobs.yaml"
    path.write_text(yaml.safe_dump(jobs))
    command = ["Rscript", "--vanilla", "tests/scripts.R", str(path)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
