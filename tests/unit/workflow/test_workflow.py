"""What the workflow's rules ask, answered without Snakemake."""

import json
import re
from types import SimpleNamespace

import pytest

from losslab.campaign import fingerprint
from losslab.errors import LosslabError
from losslab.instrument import image, kernels
from losslab.workflow import instruments
from losslab.workflow.analysis import Analysis, require_defined_once
from losslab.workflow.campaign import Campaign, stopping_rule

CONFIG = {
    "campaign": "mine",
    "studies": {
        "loss": {
            "main": {
                "only": {"app": "iperf3", "path": "symmetric"},
                "replicates": 5,
                "max_replicates": 9,
                "half_width_percent": 3,
                "duration_s": 4,
                "warmup_s": 2,
            }
        }
    },
}


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Campaign(CONFIG, [])


@pytest.fixture
def job(campaign):
    """Wildcards of the first cell's job."""
    study, cell = next(iter(campaign.cells))
    return SimpleNamespace(study=study, cell=cell)


def test_a_cell_has_the_parameters_that_decide_whether_it_is_measured_again(campaign, job):
    cell = campaign.cell(job)
    words = campaign.options(job)
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert json.loads(options.pop("--condition")) == cell.condition.to_json()
    assert options == {
        "--block": "main", "--backend": "virtual", "--where": "guest",
        "--replicates": "5", "--max-replicates": "9", "--half-width-percent": "3",
    }  # fmt: skip
    assert campaign.fingerprint(job) == fingerprint.of(cell.condition, "virtual", "guest").digest
    assert campaign.real_time(job) == 0
    assert instruments.tried_record(cell) == "results/instrument/tried-virtual-guest.json"
    code, *looked_at = stopping_rule()
    assert re.fullmatch("[0-9a-f]{16}", code)
    assert "goodput_mbit" in looked_at


def test_a_lost_guest_changes_a_parameter_and_an_absent_part_does_so_once_it_is_there(
    campaign, job, monkeypatch
):
    assert campaign.lost(job) == ""
    folder = campaign_folder(job)
    note = {"replicate": "1", "reasons": ["lost"], "when_utc": "2026-01-31T12:00:00+00:00"}
    (folder / "lost.json").write_text(json.dumps(note))
    assert campaign.lost(job) == note["when_utc"]
    (folder / "lost.json").write_text(json.dumps(note | {"absent": "no kernel"}))
    monkeypatch.setattr("losslab.instrument.records.in_cache", lambda kind, name: None)
    assert campaign.lost(job) == ""
    monkeypatch.setattr("losslab.instrument.records.in_cache", lambda kind, name: {"hash": "1"})
    assert campaign.lost(job) == note["when_utc"]


def campaign_folder(job):
    from pathlib import Path

    folder = Path("results", "cells", job.study, job.cell)
    folder.mkdir(parents=True)
    return folder


def test_lost_cells_are_named_at_the_end(campaign, job, capsys):
    folder = campaign_folder(job)
    (folder / "lost.json").write_text("{}")
    (folder / "cell.json").write_text(json.dumps({"replicates": [{"lost": True}]}))
    campaign.name_lost_cells()
    assert f"a guest was lost in {folder}" in capsys.readouterr().err


def test_a_table_that_somebody_changed_changes_a_parameter(campaign, tmp_path):
    table = tmp_path / "results/summary/loss.csv"
    table.parent.mkdir(parents=True)
    table.write_text("a\n1\n")
    campaign.end()
    assert json.loads((tmp_path / "results/campaign.json").read_text())["config"] == CONFIG
    wildcards = SimpleNamespace(study="loss")
    assert Campaign(CONFIG, []).changed("summary")(wildcards) == ""
    table.write_text("a\n2\n")
    assert Campaign(CONFIG, []).changed("summary")(wildcards) != ""


def test_a_configuration_that_cannot_be_measured_is_snakemakes_error(tmp_path):
    from snakemake.exceptions import WorkflowError

    with pytest.raises(WorkflowError, match="nothing"):
        Campaign({"studies": {"nothing": {}}}, [])


@pytest.mark.parametrize(
    ("names", "command"),
    [
        (["config/config.yaml"], "snakemake --cores all"),
        (["config/quick.yaml"], "make report"),
        (["config/map.yaml"], "make report CONFIG=config/map.yaml"),
        (
            ["config/map.yaml", "config/imc.yaml"],
            "snakemake --cores all --configfile map.yaml imc.yaml",
        ),
        (["../mine.yaml"], "snakemake --cores all --configfile mine.yaml"),
    ],
)
def test_a_campaign_says_how_it_is_measured_again(root, campaign, names, command):
    campaign._configfiles = [root / name for name in names]
    assert campaign.command() == command


def test_records_and_options_of_an_instrument_follow_from_wildcards():
    wildcards = SimpleNamespace(backend="virtual", where="guest", on="", image="")
    assert instruments.tried_kernel(wildcards) == kernels.DEFAULT
    assert instruments.tried_image(wildcards) == image.HOST
    parts = instruments.tried_parts(wildcards)
    assert [part.split("/")[-1].split("-")[0] for part in parts] == ["image", "kernel"]
    plain = SimpleNamespace(kernel=parts[-1].removeprefix("results/instrument/kernel-")[:-5])
    assert instruments.only_with(plain) == []
    assert "--optional" not in instruments.kernel_options(plain)


# R code


@pytest.fixture
def project(tmp_path, campaign):
    """Scripts of two studies, and what rules ask about them."""
    for name, text in {
        "R/look.R": "look <- 1\n",
        "figure.R": "draw()\n",
        "tabulate.R": "write()\n",
        "studies/loss/helpers.R": "helper <- 2\n",
        "studies/loss/tables.R": "tables <- 3\n",
        "studies/loss/figures/one.R": "one <- 4\n",
        "studies/loss/figures/two.R": "two <- 5\n",
        "studies/map/gains.R": "gain <- 6\n",
    }.items():
        path = tmp_path / "analysis" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Analysis({"loss": campaign.studies["loss"]}, tmp_path)


@pytest.mark.parametrize(
    ("name", "redrawn"),
    [
        ("studies/loss/figures/one.R", {"one"}),
        ("studies/loss/tables.R", {"tables"}),
        ("studies/loss/helpers.R", {"one", "two", "tables"}),
        ("R/look.R", {"one", "two", "tables"}),
        ("figure.R", {"one", "two"}),
        ("studies/map/gains.R", set()),
    ],
)
def test_a_change_of_r_code_redraws_what_it_may_be_part_of(project, tmp_path, name, redrawn):
    def meanings():
        its = {
            figure: project.figure_meaning(SimpleNamespace(study="loss", figure=figure))
            for figure in ("one", "two")
        }
        return its | {"tables": project.meaning("tabulate.R", "loss", project.table_code("loss"))}

    path = tmp_path / "analysis" / name
    before, text = meanings(), path.read_text()
    path.write_text(text + "# A comment\n")
    assert meanings() == before
    path.write_text(text + "changed <- 1\n")
    assert {what for what, its in meanings().items() if its != before[what]} == redrawn


def test_r_functions_are_defined_once(tmp_path):
    one, two = tmp_path / "one.R", tmp_path / "inner" / "one.R"
    two.parent.mkdir()
    one.write_text("red <- 1\n")
    two.write_text("blue <- 2\n")
    with pytest.raises(LosslabError, match=r"differ in name, found one.R in"):
        require_defined_once([one, two])
    other = two.rename(tmp_path / "other.R")
    require_defined_once([one, other])
    other.write_text("blue <- function() {\n  red <- 2\n}\n")
    require_defined_once([one, other])
    other.write_text("red <- 2\n")
    with pytest.raises(LosslabError, match=r"found red in .*one.R and .*other.R"):
        require_defined_once([one, other])
