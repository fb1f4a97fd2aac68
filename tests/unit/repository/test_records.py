"""Records of measured campaigns (docs/results) and the campaigns that they are of."""

from statistics import fmean

import pytest

from losslab.campaign import records
from losslab.reading import read_config, read_rows
from losslab.repository import ROOT
from losslab.study import design, metrics

CONFIGS = {
    "contest": "config/contest.yaml",
    "full": "config/config.yaml",
    "quick": "config/quick.yaml",
}
NUMBERS = ROOT / "docs" / "results" / "full"
RECORDS = sorted((ROOT / "docs" / "results").glob("*.tsv"))


def cells(name):
    config = read_config(ROOT / CONFIGS[name])
    return {f"{cell.study}/{cell.name}": cell for cell in design.load_cells(config, ROOT)}


def test_recorded_cells_are_those_of_the_campaign():
    wrong = []
    for path in RECORDS:
        campaign = cells(path.stem)
        for name, row in records.read_record(path).items():
            rule = campaign[name].stopping if name in campaign else None
            if not rule or not rule.minimum <= row.replicates <= rule.maximum:
                wrong.append(f"{path.stem}: {name}")
    assert wrong == []


def test_every_cell_of_the_quick_campaign_is_recorded():
    recorded = records.read_record(ROOT / "docs" / "results" / "quick.tsv")
    assert recorded.keys() == cells("quick").keys()


@pytest.mark.nightly
def test_recorded_numbers_are_those_of_the_recorded_cells():
    record = records.read_record(ROOT / "docs" / "results" / "full.tsv")
    names = {}
    for row in read_rows(NUMBERS / "cells.tsv", "\t"):
        names.setdefault(row["study"], []).append(row["cell"])
    for study, cells in names.items():
        for name, cell in records.read(NUMBERS, study, cells).items():
            row, runs = record[f"{study}/{name}"], cell.content["replicates"]
            found = [metrics.value(run["summary"], row.metric) for run in runs if run["valid"]]
            assert (len(runs), len(found)) == (row.replicates, row.valid), row.name
            values = [value for value in found if value is not None]
            assert not row.mean or f"{fmean(values):.6g}" == row.mean, row.name
