"""A campaign that names recorded numbers measures only the other cells."""

from dataclasses import replace
from pathlib import Path

import pytest
from snakemake.exceptions import WorkflowError

from losslab import cli
from losslab.campaign import fingerprint, recorded_numbers
from losslab.reading import read_rows
from losslab.study.seed_family import seed_of
from losslab.workflow.campaign import Campaign
from tests import sealed
from tests.unit.workflow.conftest import CONFIG

RECORD = "numbers"


@pytest.fixture
def known(campaign, tmp_path):
    """Record the numbers of a campaign's first cell, and forget its raw files; return its name."""
    cell = next(iter(campaign.plan.cells.values())).cell
    folder = tmp_path / "elsewhere/cells/loss" / cell.name
    for number in range(cell.stopping.minimum):
        manifest = {
            "backend": cell.backend, "cell": cell.condition.to_json(),
            "seed": seed_of(cell.condition, number),
            "valid": True, "reasons": [], "summary": {"goodput_mbit": 9.0 + number / 100},
            "instrument": {}, "trace_sha256": {}, "video_sha256": None,
            "fingerprint": fingerprint.of(cell.condition, cell.backend, cell.where).to_json(),
        }  # fmt: skip
        files = {
            "intervals.csv": "t_s,goodput_mbit\n2,9\n3,9\n4,9\n", "tcp.csv": "t_s,flow\n",
            "queue.csv": "t_s,backlog_packets\n",
        }  # fmt: skip
        sealed.replicate(folder / str(number), manifest, files)
    sealed.cell(folder, cell.condition.to_json(), cell.stopping.minimum, "loss", cell.block)
    study = replace(campaign.studies["loss"], cells=[cell])
    recorded_numbers.update(
        tmp_path / "elsewhere", [study], tmp_path / RECORD, {f"loss/{cell.name}"}
    )
    return cell.name


def test_recorded_cells_are_collected_without_a_measurement(known):
    campaign = Campaign(CONFIG | {"recorded": RECORD}, [])
    assert {name for _, name in campaign.plan.cells} - {known} == {
        Path(path).parent.name for path in campaign.results("loss")
    }
    assert campaign.records("loss") == campaign.records() == [f"{RECORD}/loss.jsonl.xz"]
    only = {name: each for name, each in campaign.plan.cells.items() if each.recorded}
    replace(campaign.plan, cells=only, left_out={"loss": {}}).write()
    assert cli.main(["collect", "loss"]) == 0
    [row] = read_rows(Path("results/summary/loss_cells.csv"))
    assert (row["cell"], row["n_valid"], row["recorded"]) == (known, "5", "TRUE")
    values = [row["goodput_mbit"] for row in read_rows(Path("results/summary/loss_replicates.csv"))]
    assert values == ["9.0", "9.01", "9.02", "9.03", "9.04"]
    assert len(read_rows(Path("results/summary/loss_intervals.csv"))) == 10


def test_campaign_without_recorded_numbers_measures_every_cell(campaign):
    assert len(campaign.results()) == len(campaign.plan.cells)
    assert campaign.records() == campaign.record_option() == []


@pytest.mark.usefixtures("known")
def test_record_without_any_of_the_cells_changes_nothing(tmp_path):
    (tmp_path / RECORD / "cells.tsv").write_text("study\tcell\tmeasured_for\n")
    campaign = Campaign(CONFIG | {"recorded": RECORD}, [])
    assert len(campaign.results()) == len(campaign.plan.cells)
    assert campaign.records() == campaign.record_option() == []


@pytest.mark.usefixtures("campaign")
def test_folder_without_a_record_is_refused_before_anything_runs():
    with pytest.raises(WorkflowError, match=r"must have cells\.tsv, found none in nowhere"):
        Campaign(CONFIG | {"recorded": "nowhere"}, [])
