"""The workflow as a module of another workflow, and as the workflow catalogue deploys it."""

import shutil
import subprocess

import yaml

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

# As snakedeploy writes it, with a path instead of `github(...)`.
DEPLOYED = """\
configfile: "config/config.yaml"


module losslab:
    snakefile:
        "{root}/workflow/Snakefile"
    config:
        config


use rule * from losslab
"""


def dry_run(folder):
    """Return the number of jobs of each rule."""
    done = subprocess.run(
        ["snakemake", "--dry-run"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)


def test_module_statement_of_another_workflow_runs_the_rules(root, tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(root=root))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    counts = dry_run(tmp_path)
    assert counts["conclude"] == "1"
    assert counts["losslab_collect_study"] == "1"
    assert int(counts["losslab_measure_cell"]) > 10


def test_catalogue_finds_what_it_deploys(root):
    """Files that the catalogue asks of a workflow with standardized usage."""
    for name in ("workflow/Snakefile", "config/README.md", "config/config.yaml", "LICENSE"):
        assert (root / name).is_file()
    shown = yaml.safe_load((root / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert shown["software-stack-deployment"] == {"conda": True}
    assert "docs/how-to/install.md" in shown["mandatory-flags"]["desc"]


def test_deployed_workflow_runs_with_the_edited_copy_of_its_configuration(root, tmp_path):
    shutil.copytree(root / "config", tmp_path / "config")
    (tmp_path / "config" / "config.yaml").write_text(yaml.safe_dump(CONFIG["losslab"]))
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "Snakefile").write_text(DEPLOYED.format(root=root))
    counts = dry_run(tmp_path)
    assert (counts["all"], counts["render_report"], counts["collect_study"]) == ("1", "1", "1")
    assert int(counts["measure_cell"]) > 10
