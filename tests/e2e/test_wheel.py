"""`pip install losslab`: the wheel outside of any clone."""

import json
import os
import subprocess

import pytest

from tests import wheel

AXES = ("--loss-percent", "1", "--rate-mbit", "20", "--duration-s", "3")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    return wheel.install(wheel.build(folder), folder / "venv")


@pytest.fixture
def losslab(installed, tmp_path):
    """Return a function that runs the installed command in an empty folder."""

    def run(*words):
        variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        return subprocess.run(
            [installed / "losslab", *words], cwd=tmp_path, env=variables,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["cells"], ["axes"], ["pins"]])
def test_installed_command_reads_no_file_of_a_clone(losslab, root, words):
    done = losslab(*words)
    assert done.returncode == 0, done.stderr
    assert str(root) not in done.stdout + done.stderr


def test_installed_command_lists_the_same_cells_as_the_clone(losslab):
    cells = subprocess.run(["losslab", "cells"], capture_output=True, text=True, check=True)
    assert losslab("cells").stdout == cells.stdout


def test_installed_command_has_the_instrument_of_the_clone(losslab):
    """Equal hashes: recipes, patches and locks in the wheel are those of the clone."""
    version = subprocess.run(["losslab", "--version"], capture_output=True, text=True, check=True)
    assert losslab("--version").stdout == version.stdout


def test_installed_command_measures_in_any_folder(losslab, tmp_path):
    done = losslab("measure", "--algorithm", "bbr", *AXES, "--out", "run")
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["valid"]
    host = json.loads((tmp_path / "run" / "host.json").read_text())
    assert host["git"] == {"commit": None, "dirty": None}
    again = losslab("rerun", "run")
    assert (again.returncode, again.stderr) == (0, "")
    assert "same bytes" in again.stdout


def test_installed_command_sweeps_in_any_folder(losslab, tmp_path):
    words = ("--algorithm", "cubic,bbr", *AXES, "--replicates", "1", "--out", "swept")
    done = losslab("sweep", *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "swept" / "sweep.csv").read_text().count("\n") == 3


def test_installed_package_refuses_an_algorithm_that_an_upgrade_would_delete(losslab):
    done = losslab("new", "algorithm", "mine")
    assert done.returncode == 2
    assert "clone losslab's repository" in done.stderr


def test_doctor_of_an_installed_package_names_no_make_target(losslab):
    done = losslab("doctor", "--json")
    analysis = next(s for s in json.loads(done.stdout) if s["name"] == "analysis and report")
    fixes = {each["requirement"]: each["fix"] for each in analysis["findings"]}
    assert fixes["Snakemake"] == "install losslab with its extra `campaign`"
    assert fixes["R"].startswith("apt-get install --no-install-recommends r-base-core")


def test_installed_command_needs_no_package_of_a_campaign(installed):
    """The environment has what the wheel requires: no Snakemake, pandoc or typst."""
    names = {path.name for path in installed.parent.glob("lib/*/site-packages/*")}
    assert {"pandas", "rich"} <= names
    assert not {"snakemake", "pypandoc", "typst"} & names


def test_init_makes_a_campaign_that_uses_the_installed_workflow(tmp_path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign")
    programs = wheel.install(wheel.build(folder), folder / "venv", ("", "campaign"))
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [programs / "losslab", "init", "mine"]
    subprocess.run(command, cwd=tmp_path, env=variables, check=True)
    done = subprocess.run(
        [programs / "python", "-m", "snakemake", "--dry-run", "--quiet", "rules"],
        cwd=tmp_path / "mine", env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
    assert counts["losslab_measure_cell"] == "44"
    assert counts["losslab_render_report"] == "1"
