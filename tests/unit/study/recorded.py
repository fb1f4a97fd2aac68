"""Digests of cells' names and seeds: every block of every campaign, and unusual conditions.

`python -m tests.unit.study.recorded` rewrites recorded.tsv. Do this only after a change of a
study's design: names are folders of results, and seeds determine results.
"""

import csv
import hashlib
import random
from pathlib import Path

from losslab.reading import read_yaml
from losslab.repository import ROOT
from losslab.study import design
from losslab.study.condition import Condition, replicate_seed
from tests.sources import tracked

RECORDED = Path(__file__).with_name("recorded.tsv")
COLUMNS = ("campaign", "study", "block", "cells", "digest")
ODD = 500
# Combinations that no campaign has; do not add new values and axes here.
VALUES = {
    "algorithm": ("cubic", "bbr", "reno"),
    "loss_percent": (0, 0.01, 1, 2.5, 10),
    "path": ("symmetric", "asymmetric"),
    "app": ("iperf3", "ffmpeg", "web", "datagram"),
    "rtt_ms": (0, 0.44, 20, 20.0, 100.5, 1000),
    "rate_mbit": (0.5, 10, 1000.0, 1000, 10_000),
    "buffer_packets": (1, 37, 1000, 2_000_000),
    "offloads": ("off", "on"),
    "loss_direction": ("data", "both"),
    "competitor": ("none", "cubic", "bbr"),
    "queue": ("fifo", "bfifo", "two-fifos", "red", "pie", "codel", "fq_codel", "cake"),
    "sender_delay_ms": (0, 0.0, 0.2, 10),
    "trace": ("none", "cellular", "other-trace"),
    "scheme": ("none", "fixed", "ewma,alpha=0.9,scale=1.5", "aimd,rtt_gain=4"),
    "video": ("720p", "128x64"),
    "duration_s": (10, 30.0, 62.5),
    "warmup_s": (0, 1, 5.5),
}


def conditions(root):
    """Yield every recorded condition and its cell's name, under campaign, study and block."""
    for path in tracked(":(glob)config/campaigns/*.yaml", "config/config.yaml"):
        for cell in design.load_cells(read_yaml(path), root):
            yield (path.stem, cell.study, cell.block), cell.name, cell.condition
    draw = random.Random(1)
    for _ in range(ODD):
        condition = Condition(**{axis: draw.choice(values) for axis, values in VALUES.items()})
        yield ("-", "-", "odd"), condition.slug(), condition


def rows(root):
    """Return digests of the names and first seeds of each block's cells."""
    lines = {}
    for key, name, condition in conditions(root):
        seeds = [replicate_seed(condition, number) for number in range(2)]
        lines.setdefault(key, []).append(f"{name} {seeds}\n")
    return {
        key: (str(len(of)), hashlib.sha256("".join(of).encode()).hexdigest()[:16])
        for key, of in lines.items()
    }


def read():
    with RECORDED.open(newline="") as file:
        return {
            (row["campaign"], row["study"], row["block"]): (row["cells"], row["digest"])
            for row in csv.DictReader(file, delimiter="\t")
        }


if __name__ == "__main__":
    with RECORDED.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([COLUMNS, *((*key, *row) for key, row in rows(ROOT).items())])
