"""The run explorer: one page next to the report with every cell and its runs over time."""

from losslab.ui import series


rule make_explorer:
    input:
        cells=campaign.summaries("cells"),
        runs=campaign.results(),
        records=campaign.records(),
        algorithms=find("config/algorithms.tsv", ROOT),
        code=[*commands.sources("explorer"), series.__file__],
    output:
        "results/report/explorer.html",
    log:
        "logs/make_explorer.log",
    conda:
        "../envs/tools.yaml"
    # Beside the report, which waits for other jobs and mostly uses one core.
    threads: max(1, workflow.cores // 2)
    params:
        recorded=campaign.record_option(),
    message:
        "Make the run explorer"
    shell:
        "losslab explorer {input.cells:q} {params.recorded:q} --processes {threads} --out {output:q} &> {log:q}"
