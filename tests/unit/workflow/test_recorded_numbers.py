"""A campaign that names recorded numbers measures only the other cells."""

from dataclasses import replace
from types import SimpleNamespace

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
TABLES = ("overview", "replicates", "intervals", "flows", "queue")
LOSS = SimpleNamespace(study="loss")


@pytest.fixture
def known(campaign, tmp_path):
    """Record the numbers of a campaign's first cell, and forget its raw files; return its name."""
    cell = next(iter(campaign.cells.values()))
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


def test_recorded_cells_are_collected_without_a_measurement(known, tmp_path):
    campaign = Campaign(CONFIG | {"recorded": RECORD}, [])
    to_measure, every = campaign.results("loss"), campaign.all_results(LOSS)
    assert set(every) - set(to_measure) == {f"results/cells/loss/{known}/cell.json"}
    assert (
        campaign.recorded.files("loss") == campaign.recorded.files() == [f"{RECORD}/loss.jsonl.xz"]
    )
    files = {table: tmp_path / f"{table}.csv" for table in TABLES}
    options = [word for table, path in files.items() for word in (f"--{table}", str(path))]
    cell = f"results/cells/loss/{known}/cell.json"
    assert cli.main(["collect", cell, *campaign.recorded.cells(LOSS), *options]) == 0
    [row] = read_rows(files["overview"])
    assert (row["cell"], row["n_valid"], row["recorded"]) == (known, "5", "TRUE")
    values = [row["goodput_mbit"] for row in read_rows(files["replicates"])]
    assert values == ["9.0", "9.01", "9.02", "9.03", "9.04"]
    assert len(read_rows(files["intervals"])) == 10


def test_campaign_without_recorded_numbers_measures_every_cell(campaign):
    assert campaign.results("loss") == campaign.all_results(LOSS)
    assert campaign.recorded.files() == campaign.recorded.cells(LOSS) == []


@pytest.mark.usefixtures("known")
def test_record_without_any_of_the_cells_changes_nothing(tmp_path):
    (tmp_path / RECORD / "cells.tsv").write_text("study\tcell\tmeasured_for\n")
    campaign = Campaign(CONFIG | {"recorded": RECORD}, [])
    assert campaign.results("loss") == campaign.all_results(LOSS)
    assert campaign.recorded.files() == campaign.recorded.option() == []


@pytest.mark.usefixtures("campaign")
def test_folder_without_a_record_is_refused_before_anything_runs():
    with pytest.raises(WorkflowError, match=r"must have cells\.tsv, found none in nowhere"):
        Campaign(CONFIG | {"recorded": "nowhere"}, [])
