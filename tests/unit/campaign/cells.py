"""Small measured cells in a folder, for tests that compare or read them."""

import json
from dataclasses import replace

from losslab.campaign.integrity import FIRST_FORMAT
from tests import sealed
from tests.unit.study.test_condition import CONDITION

INSTRUMENT = {"kernel": {"hash": "aa"}}


def write_cell(root, name, values, seeds=None, digests=True, **changes):
    """Write a cell and the folders of its replicates; return the cell's folder.

    Args:
        root: The results folder.
        name: Name of the cell.
        values: Goodput of each replicate; None makes an invalid replicate.
        seeds: Seed of each replicate; from 0 by default.
        digests: False writes results of format 1.0.
        changes: `instrument`, `fingerprint`, `backend`, `metric`, and axes of the condition.
    """
    usual = {"instrument": {"of": root.name}, "fingerprint": {}, "backend": "virtual"}
    more = {key: changes.pop(key, value) for key, value in usual.items()}
    metric = changes.pop("metric", "goodput_mbit")
    condition = replace(CONDITION, **changes).to_json()
    folder = root / "cells" / "loss" / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, value in enumerate(values):
        manifest = more | {
            "cell": condition, "seed": seeds[number] if seeds else number,
            "valid": value is not None, "reasons": [] if value is not None else ["no reason"],
            "summary": {} if value is None else {metric: value},
        }  # fmt: skip
        files = {"tcp.csv": f"t,cwnd\n0,10\n1,{value}\n", "sender.log": "done\n"}
        sealed.replicate(folder / str(number), manifest, files)
    path = sealed.cell(folder, condition, len(values), study="loss")
    if not digests:
        forget_digests(path)
    return folder


def forget_digests(path):
    """Convert a cell to format 1.0, which has no digests."""
    cell = json.loads(path.read_text())
    for row in cell["replicates"]:
        del row["manifest_sha256"]
    sealed.edit(path, format=FIRST_FORMAT, replicates=cell["replicates"])
    for manifest in path.parent.glob("*/manifest.json"):
        record = json.loads(manifest.read_text())
        del record["files"]
        manifest.write_text(json.dumps(record))
