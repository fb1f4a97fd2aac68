"""Commands of the workflow's rules: absent parts, few imports, and the same usage errors."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from losslab import cli
from losslab.campaign.instrument import smoke_test_record
from losslab.campaign.plan import CampaignPlan, Planned
from losslab.instrument import built
from losslab.reading import read_rows
from losslab.study.design import Cell
from losslab.study.intervals import StoppingRule
from tests.unit.study.test_condition import CONDITION

WHY = "Containernet's commit must be had from somewhere, found: no route"


@pytest.fixture
def absent(tmp_path):
    path = tmp_path / "image.json"
    built.write({"absent": WHY}, path)
    return path


def test_smoke_test_without_a_part_is_recorded_as_absent(absent, tmp_path):
    out = tmp_path / "tried.json"
    words = f"smoke-test --backend containernet --needs {absent} --record {out}".split()
    assert cli.main(words) == 0
    assert built.absent(out) == WHY


CELL = Cell("s", "b", CONDITION, StoppingRule(3, 3), backend="containernet")


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    """Plan a study of one cell, in the current folder."""
    monkeypatch.chdir(tmp_path)
    left_out = {"main": 3, "other": 88}
    cells = {("s", CELL.name): Planned(CELL, "f", recorded=False)}
    CampaignPlan(cells, {"s": []}, {"s": left_out}, None).write()


@pytest.mark.usefixtures("campaign")
def test_cell_without_an_instrument_has_a_reason_and_no_replicate():
    built.write({"absent": WHY}, Path(smoke_test_record(CELL)))
    assert cli.main(["cell", f"s/{CELL.name}"]) == 0
    # The workflow retries the cell because of this file.
    note = json.loads((Path("results/cells/s") / CELL.name / "lost.json").read_text())
    assert note["absent"] == WHY
    assert note["when_utc"]
    assert cli.main(["collect", "s"]) == 0
    first, *others = read_rows(Path("results/summary/s/cells.csv"))
    assert (first["block"], first["n_replicates"], first["n_valid"]) == ("b", "0", "0")
    assert first["reasons"] == WHY
    assert [(r["block"], r["n_left_out"]) for r in others] == [("main", "3"), ("other", "88")]


@pytest.mark.parametrize("optional", [True, False])
def test_only_an_optional_cell_goes_without_its_public_trace(optional, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LOSSLAB_TRACES", str(tmp_path))
    condition = replace(CONDITION, trace="Verizon-LTE-short.down@c918436fbd6246af")
    cell = replace(CELL, condition=condition, optional=optional)
    CampaignPlan({("s", cell.name): Planned(cell, "f", False)}, {"s": []}, {"s": {}}, None).write()
    assert cli.main(["cell", f"s/{cell.name}"]) == (0 if optional else 1)
    note = Path("results/cells/s", cell.name, "lost.json")
    assert note.exists() == optional
    assert not optional or "trace" in json.loads(note.read_text())["absent"]


@pytest.mark.usefixtures("campaign")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cell", "s/other"], "must be one of results/plan.json, found s/other"),
        (["collect", "t"], "must be one of results/plan.json (s), found t"),
    ],
)
def test_cell_or_study_without_a_plan_is_refused(capsys, words, message):
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err
    Path("results/plan.json").write_text("{}")
    assert cli.main(words) == 2
    assert "results/plan.json must be the plan of a campaign" in capsys.readouterr().err


# Modules that other commands need.
NOT_FOR_A_CELL = (
    "campaign.tables", "emulation.plan", "runs", "report", "score", "ui",
    "sweep",
)  # fmt: skip

HEAVY = ("pandas", "scipy", "urllib3")

WATCHED = """\
import json, sys
from losslab import cli, steps
from losslab.errors import LosslabError
def refuse(*_):
    raise LosslabError("before anything is measured")
steps.instrument = refuse
status = cli.main(sys.argv[1:])
print(json.dumps([status, sorted(sys.modules)]))
"""


@pytest.mark.usefixtures("campaign")
def test_cell_command_imports_no_other_command():
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "cell", f"s/{CELL.name}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    status, modules = json.loads(done.stdout)
    assert (status, "before anything is measured" in done.stderr) == (1, True)
    assert "losslab.campaign.cellrun" in modules
    unwanted = (*(f"losslab.{name}" for name in NOT_FOR_A_CELL), *HEAVY)
    assert [m for m in modules if m in unwanted or m.startswith("losslab.ui")] == []
