"""Measure every cell; a job per cell, its replicates inside."""


rule measure_cell:
    input:
        cell_code,
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
        real_time=cell_real_time,
    params:
        condition=cell_condition,
        stopping=cell_stopping,
        block=cell_block,
        backend=cell_backend,
        instrument=cell_instrument,
        lost=cell_lost,
    message:
        "Measure {wildcards.cell}"
    shell:
        "losslab cell --study {wildcards.study} --block {params.block}"
        " --condition {params.condition:q} {params.stopping} {params.backend}"
        " --out {output} &> {log}"


rule collect_study:
    input:
        cells=cell_files,
        code=workflow.source_path("../../src/losslab/collect.py"),
    output:
        replicates="results/summary/{study}_replicates.csv",
        intervals="results/summary/{study}_intervals.csv",
        flows="results/summary/{study}_flows.csv",
        queue="results/summary/{study}_queue.csv",
    log:
        "logs/collect_study/{study}.log",
    conda:
        "../envs/tools.yaml"
    params:
        series=series_cells,
    message:
        "Collect the cells of {wildcards.study}"
    shell:
        "losslab collect {input.cells} --series {params.series} --replicates {output.replicates}"
        " --intervals {output.intervals} --flows {output.flows} --queue {output.queue} &> {log}"
