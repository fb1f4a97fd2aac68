"""Progress of a campaign, from its plan and its cells."""

import json
from dataclasses import replace

import pytest

from losslab import cli, lock
from losslab.campaign.plan import CampaignPlan, Planned
from losslab.errors import LosslabError
from losslab.study.design import Cell
from losslab.study.intervals import StoppingRule
from losslab.ui import status
from tests import sealed
from tests.unit.study.test_condition import CONDITION

NAMES = ("first", "second", "third")


@pytest.fixture
def folder(tmp_path):
    """Plan three cells, of which one is measured and one has an earlier fingerprint."""
    cells = {}
    for number, block in enumerate(NAMES):
        cell = Cell("loss", block, CONDITION, StoppingRule(2, 5))
        cells["loss", cell.name] = Planned(cell, f"now {number}", recorded=False)
    CampaignPlan(cells, {"loss": []}, {"loss": {}}, None).write(tmp_path / "results")
    first, second, _ = cells.values()
    measured(tmp_path, first, True, False, True)
    measured(tmp_path, replace(second, fingerprint="then"), True, True)
    return tmp_path


def measured(folder, planned, *valid):
    its = planned.file(folder / "results").parent
    for number, good in enumerate(valid):
        manifest = {
            "cell": CONDITION.to_json(), "seed": number, "valid": good, "reasons": [],
            "summary": {}, "instrument": {},
            "fingerprint": {"digest": planned.fingerprint, "parts": {}},
        }  # fmt: skip
        sealed.replicate(its / str(number), manifest)
    sealed.cell(its, CONDITION.to_json(), len(valid))


def test_status_counts_cells_and_runs_that_are_measured_as_planned(folder, capsys):
    assert cli.main(["status", str(folder)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("1 of 3 cells, 3 runs of at least 6: not running; repeat the same")
    assert second.startswith("invalid: 1 runs of loss/first_")
    assert cli.main(["status", "--json", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["cells_done"] == 1


def test_status_says_whether_a_workflow_runs(folder):
    assert not status.running(folder)
    lock.hold_for_life(folder / ".snakemake")
    assert status.report(folder)[0].endswith(": running")


def test_status_needs_a_started_campaign(tmp_path):
    with pytest.raises(LosslabError, match="must be the plan of a campaign"):
        status.report(tmp_path)
