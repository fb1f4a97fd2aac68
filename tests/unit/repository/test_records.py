"""Records of measured campaigns (docs/results) and the campaigns that they are of."""

import pytest

from losslab.campaign import cellrecord
from losslab.reading import read_config
from losslab.repository import ROOT
from losslab.study import design

CONFIGS = {"quick": "config/quick.yaml", "full": "config/config.yaml"}
RECORDS = sorted((ROOT / "docs" / "results").glob("*.tsv"))


def cells(name):
    config = read_config(ROOT / CONFIGS[name])
    return {f"{cell.study}/{cell.name}": cell for cell in design.load_cells(config, ROOT)}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_recorded_cells_are_those_of_the_campaign(path):
    campaign = cells(path.stem)
    for name, row in cellrecord.read(path).items():
        assert name in campaign, f"{name} is no cell of {CONFIGS[path.stem]}"
        rule = campaign[name].stopping
        assert rule.minimum <= row.replicates <= rule.maximum, name


def test_every_cell_of_the_quick_campaign_is_recorded():
    recorded = cellrecord.read(ROOT / "docs" / "results" / "quick.tsv")
    assert recorded.keys() == cells("quick").keys()
