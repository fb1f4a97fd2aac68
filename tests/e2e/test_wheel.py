"""`pip install losslab`: the wheel outside of any clone."""

import functools
import json
import os
import subprocess
import zipfile

import pytest

from tests import wheel

AXES = ("--loss-percent", "1", "--rate-mbit", "20", "--duration-s", "2", "--warmup-s", "0.5")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return wheel.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(built):
    return wheel.install(built, built.parent / "alone")


def run(folder, *words, good=True):
    """Run an installed program in a folder."""
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or not good, done.stdout + done.stderr
    return done


@pytest.fixture
def losslab(installed, tmp_path):
    """Return a function that runs the installed command in an empty folder."""
    return functools.partial(run, tmp_path, installed / "losslab")


def test_wheel_has_no_trace_of_others(built):
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
    assert "losslab/py.typed" in names  # PEP 561: type checkers read the annotations
    assert "losslab/share/config/traces/drawn-down" in names
    assert f"losslab/share/{wheel.OTHERS_TRACE}" not in names


def test_installed_command_reads_no_file_of_a_clone(losslab, root):
    for word in ("--help", "axes", "columns"):
        done = losslab(word)
        assert str(root) not in done.stdout + done.stderr


@pytest.mark.parametrize("word", ["cells", "--version"])
def test_installed_command_has_the_cells_and_the_instrument_of_the_clone(losslab, word):
    """Equal hashes: recipes, patches and locks in the wheel are those of the clone."""
    here = subprocess.run(["losslab", word], capture_output=True, text=True, check=True)
    assert losslab(word).stdout == here.stdout


def test_installed_command_measures_in_any_folder(losslab, tmp_path):
    losslab("measure", "--algorithm", "bbr", *AXES, "--out", "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["valid"]
    host = json.loads((tmp_path / "run" / "host.json").read_text())
    assert host["git"] == {"commit": None, "dirty": None}
    again = losslab("rerun", "run")
    assert again.stderr == ""
    assert "same bytes" in again.stdout


def test_installed_package_refuses_an_algorithm_that_an_upgrade_would_delete(losslab):
    done = losslab("new", "algorithm", "mine", good=False)
    assert done.returncode == 2
    assert "losslab init my-campaign" in done.stderr


def test_installed_command_needs_no_package_of_a_campaign(installed):
    """The environment has what the wheel requires: no Snakemake, pandoc or typst."""
    names = {path.name for path in installed.parent.glob("lib/*/site-packages/*")}
    assert {"pandas", "rich"} <= names
    assert not {"snakemake", "pypandoc", "typst"} & names


def test_rfc_9743_is_judged_without_the_extra(losslab, tmp_path):
    words = ("conform", "rfc9743", "reno", "--case", "rack", "--out", "card")
    assert "idle cores" in losslab(*words, "--estimate").stderr
    assert not (tmp_path / "card").exists()
    assert "1 PASS" in losslab(*words).stdout


@pytest.fixture(scope="module")
def campaigns(built):
    """Return the programs of an installation with the extra for campaigns."""
    return wheel.install(built, built.parent / "campaigns", ("", "campaign"))


def jobs(folder, python):
    """Return the number of jobs of each rule of a folder's workflow."""
    printed = run(folder, python, "-m", "snakemake", "--dry-run", "--quiet", "rules").stdout
    return dict(line.split() for line in printed.splitlines() if len(line.split()) == 2)


def test_init_makes_a_campaign_that_uses_the_installed_workflow(campaigns, tmp_path):
    run(tmp_path, campaigns / "losslab", "init", "mine")
    counts = jobs(tmp_path / "mine", campaigns / "python")
    assert counts["losslab_measure_cell"] == "44"
    assert counts["losslab_render_report"] == "1"


def test_own_algorithm_and_study_in_a_campaigns_folder(campaigns, tmp_path):
    losslab = campaigns / "losslab"
    run(tmp_path, losslab, "init", "here")
    here = tmp_path / "here"
    run(here, losslab, "new", "algorithm", "mine")
    run(here, losslab, "new", "study", "mystudy", "--title", "My question")
    study = here / "studies/mystudy/study.yaml"
    study.write_text(study.read_text().replace("[cubic, bbr]", "[cubic, bbr, mine]"))
    blocks = "  mystudy:\n    main: { replicates: 2, duration_s: 1, warmup_s: 0 }\n"
    (here / "config" / "config.yaml").write_text(f"campaign: mine\nstudies:\n{blocks}")
    assert "mine_loss1" in run(here, losslab, "cells", "--config", "config/config.yaml").stdout
    counts = jobs(here, campaigns / "python")
    assert (counts["losslab_measure_cell"], counts["losslab_analyse_mystudy"]) == ("6", "1")
    run(here, losslab, "measure", "--algorithm", "mine", "--rate-mbit", "20", "--duration-s", "2",
        "--out", "runs/mine")  # fmt: skip
    assert json.loads((here / "runs" / "mine" / "manifest.json").read_text())["valid"]
    # The package is unchanged: another folder does not have them.
    assert "mystudy" not in run(tmp_path, losslab, "cells").stdout
