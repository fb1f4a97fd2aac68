"""The workflow as a module of another workflow, and as the workflow catalogue deploys it."""

import os
import shutil
import subprocess

import pytest
import yaml

from tests import sources

SNAKEFILE = """\
configfile: "config.yaml"


module losslab:
    snakefile:
        "{root}/workflow/Snakefile"
    config:
        config["losslab"]


use rule * from losslab as losslab_*


onstart:
    losslab.onstart()


rule conclude:
    default_target: True
    input:
        "results/claims.csv",
    output:
        "conclusions.txt",
    shell:
        "wc -l {{input}} >{{output}}"
"""
CONFIG = {
    "losslab": {
        "studies": {
            "loss": {
                "main": {"only": {"app": "iperf3"}, "replicates": 2, "duration_s": 4, "warmup_s": 2}
            }
        }
    }
}


def dry_run(folder, **variables):
    """Return the number of jobs of each rule."""
    done = subprocess.run(
        ["snakemake", "--dry-run"], cwd=folder, env=os.environ | variables,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)


def test_module_statement_of_another_workflow_runs_the_rules(root, tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(root=root))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    counts = dry_run(tmp_path)
    assert counts["conclude"] == "1"
    assert counts["losslab_collect_study"] == "1"
    assert int(counts["losslab_measure_cell"]) > 10


@pytest.fixture
def hosted(tmp_path):
    """Return the address of these sources as a repository with the tag `v1`.

    snakedeploy takes an address with "github" in it as one of that host, and writes
    `github("owner/losslab", ...)` into the Snakefile.
    """
    repository = sources.copy(tmp_path / "github" / "owner" / "losslab")
    author = ("-c", "user.name=losslab", "-c", "user.email=losslab@localhost")
    commit = (*author, "commit", "--quiet", "--message", "sources")
    for words in (("init", "--quiet"), ("add", "."), commit, ("tag", "v1")):
        subprocess.run(["git", *words], cwd=repository, check=True)
    return f"file://{repository}"


@pytest.mark.nightly
def test_snakedeploy_writes_a_folder_that_runs_with_its_edited_configuration(hosted, tmp_path):
    """snakedeploy and Snakemake clone the repository as they clone one of the host.

    git takes the local repository in place of the host's address.
    """
    snakedeploy = shutil.which("snakedeploy")
    if snakedeploy is None:
        pytest.skip("scripts/group.sh users")
    folder = tmp_path / "mine"
    folder.mkdir()
    deploy = [snakedeploy, "deploy-workflow", hosted, folder, "--tag", "v1"]
    subprocess.run(deploy, check=True, capture_output=True)
    deployed = (folder / "workflow" / "Snakefile").read_text()
    assert 'github("owner/losslab", path="workflow/Snakefile", tag="v1")' in deployed
    assert (folder / "profiles" / "default" / "profile.yaml").is_file()
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump(CONFIG["losslab"]))
    local = f"url.{hosted.removesuffix('owner/losslab')}.insteadOf"
    counts = dry_run(
        folder, XDG_CACHE_HOME=str(tmp_path / "cache"), GIT_CONFIG_COUNT="1",
        GIT_CONFIG_KEY_0=local, GIT_CONFIG_VALUE_0="https://github.com/",
    )  # fmt: skip
    assert (counts["all"], counts["render_report"], counts["collect_study"]) == ("1", "1", "1")
    assert int(counts["measure_cell"]) > 10
