"""Small measured cells in a folder, for tests that compare or read them."""

import json
from dataclasses import replace

from tests.unit.study.test_condition import CONDITION

INSTRUMENT = {"kernel": {"hash": "aa"}, "source": "bb"}


def write_cell(root, name, values, seeds=None, **changes):
    """Write a cell and the folders of its replicates; return the cell's folder.

    Args:
        root: The results folder.
        name: The cell's.
        values: Each replicate's goodput; None makes an invalid replicate.
        seeds: Theirs; from 0 by default.
        changes: `instrument`, `backend`, `metric`, and axes of the condition.
    """
    more = {key: changes.pop(key, value) for key, value in
            (("instrument", {"of": root.name}), ("backend", "virtual"))}  # fmt: skip
    metric = changes.pop("metric", "goodput_mbit")
    condition = replace(CONDITION, **changes).to_json()
    folder = root / "cells" / "loss" / name
    rows = []
    for number, value in enumerate(values):
        seed = seeds[number] if seeds else number
        row = {"seed": seed, "valid": value is not None}
        row["summary"] = {} if value is None else {metric: value}
        rows.append(row)
        replicate = folder / str(number)
        replicate.mkdir(parents=True)
        manifest = row | more | {"cell": condition}
        (replicate / "manifest.json").write_text(json.dumps(manifest))
        (replicate / "tcp.csv").write_text(f"t,cwnd\n0,10\n1,{value}\n")
        (replicate / "sender.log").write_text("done\n")
        (replicate / "host.json").write_text(str(replicate))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cell.json").write_text(json.dumps({"condition": condition, "replicates": rows}))
    return folder
