"""The workflow as a module of another workflow."""

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


def test_module_statement_of_another_workflow_runs_the_rules(root, tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(root=root))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    done = subprocess.run(
        ["snakemake", "--dry-run"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    counts = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
    assert counts["conclude"] == "1"
    assert counts["losslab_collect_study"] == "1"
    assert int(counts["losslab_measure_cell"]) > 10
