"""Measure every cell, in one job for all its replicates."""


rule measure_cell:
    input:
        # Not `ancient`: Snakemake skips a job if all its `ancient` inputs are remade, even if it
        # has other reasons to run (dag.update_needrun in Snakemake 9.27). A new record makes
        # Snakemake check every cell; finished replicates are kept.
        smoke_test=campaign.smoke_test,
    output:
        "results/cells/{study}/{cell}/cell.json",
    log:
        "logs/measure_cell/{study}/{cell}.log",
    conda:
        "../envs/tools.yaml"
    threads: 1
    resources:
        # The guest's memory is sparse; a 1 Gbit/s cell uses about 500 MB of it.
        mem="1GB",
        # Cells in real time disturb each other, so one runs at a time. Virtual time has no limit.
        real_time=campaign.real_time,
    params:
        # A change of any of them makes Snakemake run the job again.
        planned=campaign.planned,
        rule=campaign.stopping_rule,
        lost=campaign.lost,
    message:
        "Measure {wildcards.study}/{wildcards.cell}"
    shell:
        "losslab cell {wildcards.study}/{wildcards.cell} &> {log:q}"


rule collect_study:
    input:
        cells=lambda wildcards: campaign.results(wildcards.study),
        records=lambda wildcards: campaign.records(wildcards.study),
        code=[tables.__file__, criteria.__file__],
        suite=lambda wildcards: studyfiles.suite_files(ROOT, wildcards.study),
    output:
        expand("results/summary/{{study}}/{table}.csv", table=COLLECTED),
    log:
        "logs/collect_study/{study}.log",
    conda:
        "../envs/tools.yaml"
    params:
        planned=campaign.planned_study,
    message:
        "Collect the cells of {wildcards.study}"
    shell:
        "losslab collect {wildcards.study} &> {log:q}"
