"""Measure every cell; a job per cell, its replicates inside."""


rule measure_cell:
    input:
        # Not `ancient`: a job of which all such inputs are made anew is not looked at any more,
        # whatever else it lacks (dag.update_needrun in Snakemake 9.27). Made anew, it is a reason
        # to look at every cell; its replicates are kept.
        tried=lambda wildcards: instruments.tried_record(campaign.cell(wildcards)),
    output:
        "results/cells/{study}/{cell}/cell.json",
    log:
        "logs/measure_cell/{study}/{cell}.log",
    conda:
        "../envs/tools.yaml"
    threads: 1
    resources:
        # The guest's memory is sparse; a 1 Gbit/s cell touches about 500 MB of it.
        mem="1GB",
        # Cells in real time disturb each other; those in virtual time do not.
        real_time=campaign.real_time,
    params:
        options=campaign.options,
        fingerprint=campaign.fingerprint,
        rule=stopping_rule(),
        lost=campaign.lost,
        damaged=campaign.damaged,
    message:
        "Measure {wildcards.cell}"
    shell:
        "losslab cell --study {wildcards.study} {params.options:q}"
        " --tried {input.tried:q} --out {output:q} &> {log:q}"


rule collect_study:
    input:
        cells=lambda wildcards: campaign.results(wildcards.study),
    output:
        overview="results/summary/{study}_cells.csv",
        replicates="results/summary/{study}_replicates.csv",
        intervals="results/summary/{study}_intervals.csv",
        flows="results/summary/{study}_flows.csv",
        queue="results/summary/{study}_queue.csv",
    log:
        "logs/collect_study/{study}.log",
    conda:
        "../envs/tools.yaml"
    params:
        code=collecting(),
        series=lambda wildcards: campaign.studies[wildcards.study].series,
        left_out=campaign.left_out,
        changed=campaign.changed("cells", "replicates", "intervals", "flows", "queue"),
    message:
        "Collect the cells of {wildcards.study}"
    shell:
        "losslab collect {input.cells:q} --series {params.series:q} --left-out {params.left_out:q}"
        " --overview {output.overview:q} --replicates {output.replicates:q}"
        " --intervals {output.intervals:q} --flows {output.flows:q} --queue {output.queue:q}"
        " &> {log:q}"
