"""Campaign object that the rules use, without Snakemake."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.exceptions import WorkflowError

from losslab import analysis, cli, lock, workflow
from losslab.campaign import fingerprint, plan, records
from losslab.campaign.plan import CampaignPlan
from losslab.errors import LosslabError
from losslab.instrument import image, kernels
from losslab.reading import read_rows
from losslab.repository import ROOT
from losslab.study.condition import seed_of
from losslab.workflow import Campaign, require_defined_once
from tests import sealed

MAP = "config/campaigns/map.yaml"
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
    """Return wildcards of the first cell's job."""
    study, cell = next(iter(campaign.plan.cells))
    return SimpleNamespace(study=study, cell=cell)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"studies": {"nothing": {}}}, "nothing"),
        (CONFIG | {"recorded": "nowhere"}, r"must have cells\.tsv, found none in nowhere"),
    ],
)
def test_impossible_campaign_is_an_error_of_snakemake(config, said):
    with pytest.raises(WorkflowError, match=said):
        Campaign(config, [])


def test_cell_rule_runs_again_for_another_plan_or_stopping_rule(campaign, job):
    planned = json.loads(campaign.planned(job))
    cell = campaign.cell(job)
    assert planned["condition"] == cell.condition.to_json()
    assert [*planned["stopping"].values()] == [5, 9, 3]
    assert planned["fingerprint"] == fingerprint.of(cell.condition, "virtual", "guest").digest
    assert campaign.real_time(job) == 0
    assert campaign.smoke_test(job) == "results/instrument/smoke-test-virtual-guest.json"
    assert "goodput_mbit" in campaign.stopping_rule(job)


def test_tables_are_collected_again_for_another_plan_or_another_axis(campaign, job, monkeypatch):
    before = campaign.planned_study(job)
    assert campaign.planned_study(job) == before
    with monkeypatch.context() as changed:
        changed.setattr(workflow, "AXES", [*workflow.AXES, "another_axis"])
        assert campaign.planned_study(job) != before
    longer = json.loads(json.dumps(CONFIG).replace('"duration_s": 4', '"duration_s": 5'))
    assert Campaign(longer, []).planned_study(job) != before


@pytest.mark.parametrize(
    ("campaign", "family", "described"),
    [("quick", 1, True), ("quick-fresh", 2, False), ("mine", 1, False)],
)
def test_text_describes_recorded_campaigns_with_the_first_seeds(campaign, family, described):
    config = CONFIG | {"campaign": campaign, "seed_family": family}
    assert Campaign(config, []).described() is described


def test_campaign_with_suites_judges_each_algorithm_on_its_kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suites = {"bbr-draft": {"algorithms": ["bbr", "bbr3"], "seeds": 2}}
    campaign = Campaign(CONFIG | {"conform": suites}, [])
    files = campaign.conformed()
    assert files == [f"results/conform/bbr-draft_{name}.json" for name in ("bbr", "bbr3")]
    job = SimpleNamespace(suite="bbr-draft", algorithm="bbr3")
    assert campaign.conform_seeds(job) == 2
    assert campaign.conform_smoke_test(job).endswith("guest+6.12-bbr3.json")
    assert [path.name for path in campaign.conform_chapter()] == ["_conform.qmd"]
    assert campaign.conform_tables() == ["results/tables/conform_verdicts.csv"]


def test_plan_is_read_as_it_was_written(campaign):
    campaign.plan.write(more=plan.facts(["config/campaigns/quick.yaml"], CONFIG))
    again = CampaignPlan.read()
    assert again == campaign.plan
    assert plan.read_campaign(Path("results"), ROOT).config == CONFIG
    assert again.to_json("loss") == campaign.plan.to_json()
    # A chapter may ask for cells that the campaign leaves out.
    assert "sensitivity" in json.loads(campaign.declared(None))["block"]


def test_deleted_cells_are_wanted_again_if_their_tables_are_there(campaign, job):
    assert campaign.deleted(None) == []  # a first run, whose tables need all cells
    table = Path("results/summary") / job.study / "cells.csv"
    table.parent.mkdir(parents=True)
    table.touch()
    assert campaign.deleted(None) == campaign.results(job.study)
    kept, *others = campaign.deleted(None)
    Path(kept).parent.mkdir(parents=True)
    Path(kept).touch()
    assert campaign.deleted(None) == others


def run_of(jobs, **settings):
    """Return what `Campaign.start` asks of Snakemake's workflow before it measures."""
    named = {"local_exec": True, "deployment_settings": SimpleNamespace(deployment_method=set())}
    dag = SimpleNamespace(needrun_jobs=lambda: iter(jobs))
    manager = SimpleNamespace(plugin_handlers=[])
    return SimpleNamespace(
        dag=dag, scheduler=SimpleNamespace(), logger_manager=manager, **(named | settings)
    )


@pytest.mark.parametrize(
    ("part", "missing", "job"),
    [
        ("missing_r_packages", ["ragg"], ("analysis/study.R", [])),
        ("renderer", "", (None, [".snakemake/losslab/rendered"])),
    ],
)
def test_campaign_without_r_or_a_renderer_is_refused_before_it_measures(
    campaign, monkeypatch, part, missing, job
):
    monkeypatch.setattr(analysis, part, lambda: missing)
    script, output = job
    jobs = [SimpleNamespace(rule=SimpleNamespace(script=script), output=output)]
    with pytest.raises(WorkflowError, match="this campaign needs"):
        campaign.start(run_of(jobs))


def test_campaign_whose_jobs_run_elsewhere_needs_no_r_here(campaign, monkeypatch):
    monkeypatch.setattr(analysis, "missing_r_packages", lambda: ["ragg"])

    def hold(folder):
        raise LosslabError("it begins")

    monkeypatch.setattr(lock, "hold_for_life", hold)
    jobs = [SimpleNamespace(rule=SimpleNamespace(script="study.R"), output=[])]
    run = run_of(jobs, local_exec=False)
    with pytest.raises(WorkflowError, match="it begins"):
        campaign.start(run)
    assert vars(run.scheduler) == {}, "a cluster keeps its limit of jobs per second"


def test_lost_guest_and_newly_available_part_change_a_parameter(campaign, job, monkeypatch):
    assert campaign.lost(job) == ""
    folder = campaign_folder(job)
    note = {"replicate": "1", "reasons": ["lost"], "when_utc": "2026-01-31T12:00:00+00:00"}
    (folder / "lost.json").write_text(json.dumps(note))
    assert campaign.lost(job) == note["when_utc"]
    (folder / "lost.json").write_text(json.dumps(note | {"absent": "no kernel"}))
    monkeypatch.setattr("losslab.instrument.built.in_cache", lambda kind, name: None)
    assert campaign.lost(job) == ""
    monkeypatch.setattr("losslab.instrument.built.in_cache", lambda kind, name: {"hash": "1"})
    assert campaign.lost(job) == note["when_utc"]
    monkeypatch.setattr("losslab.campaign.inputs.has_public_traces", lambda condition: False)
    assert campaign.lost(job) == ""


def campaign_folder(job):
    folder = Path("results", "cells", job.study, job.cell)
    folder.mkdir(parents=True)
    return folder


def test_lost_cells_are_named_at_the_end(campaign, job, capsys):
    folder = campaign_folder(job)
    (folder / "lost.json").write_text("{}")
    cell = campaign.cell(job)
    row = {"seed": 1, "valid": False, "reasons": [], "summary": {}, "instrument": {}, "lost": True}
    content = {
        "study": cell.study, "block": cell.block, "cell": cell.name,
        "condition": cell.condition.to_json(), "replicates": [row],
    }  # fmt: skip
    (folder / "cell.json").write_text(json.dumps(content))
    campaign.end()
    assert f"a guest was lost in {folder}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "command"),
    [
        (["config/config.yaml"], "snakemake --cores all"),
        (["config/campaigns/quick.yaml"], "make report"),
        ([MAP], f"make report CONFIG={MAP}"),
        (
            [MAP, "config/campaigns/quic.yaml"],
            f"snakemake --cores all --configfile {MAP} config/campaigns/quic.yaml",
        ),
        (["../mine.yaml"], "snakemake --cores all --configfile mine.yaml"),
        (["../my file.yaml"], "snakemake --cores all --configfile 'my file.yaml'"),
    ],
)
def test_campaign_has_the_command_that_repeats_it(root, campaign, names, command, monkeypatch):
    campaign._configfiles = [root / name for name in names]
    monkeypatch.setattr("losslab.campaign.plan.overrides", lambda *_: None)
    assert campaign.command() == command
    more = {"seed_family": 2, "recorded": "a b"}
    monkeypatch.setattr("losslab.campaign.plan.overrides", lambda *_: more)
    files = ["--configfile", *[name.removeprefix("../") for name in names]]
    files = [] if names == ["config/config.yaml"] else files
    words = ["snakemake", "--cores", "all", *files, "--config", "seed_family=2", "recorded=a b"]
    assert shlex.split(campaign.command()) == words


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
    records.update(tmp_path / "elsewhere", [study], tmp_path / RECORD, {f"loss/{cell.name}"})
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
    [row] = read_rows(Path("results/summary/loss/cells.csv"))
    assert (row["cell"], row["n_valid"], row["recorded"]) == (known, "5", "TRUE")
    values = [row["goodput_mbit"] for row in read_rows(Path("results/summary/loss/replicates.csv"))]
    assert values == ["9.0", "9.01", "9.02", "9.03", "9.04"]
    assert len(read_rows(Path("results/summary/loss/intervals.csv"))) == 10


def test_campaign_that_may_not_measure_says_which_cells_are_not_recorded(known, capsys):
    config = CONFIG | {
        "recorded": RECORD, "measure": False,
        "conform": {"bbr-draft": {"algorithms": ["bbr"], "seeds": 2}},
    }  # fmt: skip
    campaign = Campaign(config, [])
    assert (campaign.results(), campaign.conformed(), campaign.conform_chapter()) == ([], [], [])
    others = len(campaign.plan.cells) - 1
    assert f"{others} of {others + 1} cells have no recorded numbers" in capsys.readouterr().err
    campaign.plan.write()
    assert cli.main(["collect", "loss"]) == 0
    rows = [row for row in read_rows(Path("results/summary/loss/cells.csv")) if row["cell"]]
    assert len(rows) == others + 1
    for row in rows:
        if row["cell"] == known:
            assert (row["n_valid"], row["reasons"]) == ("5", "")
        else:
            assert (row["n_replicates"], row["reasons"]) == ("0", records.NOT_RECORDED)


def test_campaign_that_may_not_measure_needs_a_recorded_cell(known):
    (Path(RECORD) / "cells.tsv").write_text("study\tcell\tmeasured_for\n")
    with pytest.raises(WorkflowError, match=r"must have cells measured .* found none of \d+"):
        Campaign(CONFIG | {"recorded": RECORD, "measure": False}, [])


def test_records_and_options_of_an_instrument_follow_from_wildcards(campaign):
    wildcards = SimpleNamespace(backend="virtual", where="guest", on="", image="")
    assert campaign.smoke_test_kernel(wildcards) == kernels.DEFAULT
    assert campaign.smoke_test_image(wildcards) == image.HOST
    parts = campaign.smoke_test_parts(wildcards)
    assert [part.split("/")[-1].split("-")[0] for part in parts] == ["image", "kernel"]
    plain = SimpleNamespace(kernel=parts[-1].removeprefix("results/instrument/kernel-")[:-5])
    assert "--optional" not in campaign.kernel_options(plain)


def test_r_functions_must_be_defined_once(tmp_path):
    one, two = tmp_path / "one.R", tmp_path / "inner" / "one.R"
    two.parent.mkdir()
    one.write_text("red <- 1\n")
    two.write_text("blue <- 2\n")
    with pytest.raises(LosslabError, match=r"unique names, found one.R in"):
        require_defined_once([one, two])
    other = two.rename(tmp_path / "other.R")
    other.write_text("blue <- function() {\n  red <- 2\n}\n")
    require_defined_once([one, other])
    other.write_text("red <- 2\n")
    with pytest.raises(LosslabError, match=r"found red in .*one.R and .*other.R"):
        require_defined_once([one, other])
