"""Small measured cells in a folder, for tests that compare or read them."""

from dataclasses import replace

from tests import sealed
from tests.unit.study.test_condition import CONDITION

INSTRUMENT = {"kernel": {"hash": "aa"}}
CODE = {"digest": "aa", "parts": {}}


def write_cell(root, name, values, seeds=None, **changes):
    """Write a cell and the folders of its replicates; return the cell's folder.

    Args:
        root: The results folder.
        name: Name of the cell.
        values: Goodput of each replicate; None makes an invalid replicate.
        seeds: Seed of each replicate; from 0 by default.
        changes: `instrument`, `fingerprint`, `backend`, `metric`, and axes of the condition.
    """
    usual = {"instrument": {"of": root.name}, "fingerprint": CODE, "backend": "virtual"}
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
    sealed.cell(folder, condition, len(values), study="loss")
    return folder
