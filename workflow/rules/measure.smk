"""Measure every cell; a job per cell, its replicates inside."""

# What decides a measured number. Analysis code is not among it.
MEASURING = [
    workflow.source_path(f"../../src/losslab/{module}.py")
    for module in [
        "cell",
        "checks",
        "condition",
        "configuration",
        "netns",
        "offloads",
        "shaping",
        "topology",
        "apps/ffmpeg",
        "apps/iperf3",
        "backends/guest",
        "backends/virtual",
        "probes/ping",
        "probes/queue",
        "probes/tcp",
    ]
]


rule measure_cell:
    input:
        modules=MEASURING,
        kernel=workflow.source_path("../../containers/kernel/fragment.config"),
        image=workflow.source_path("../../containers/host/packages.txt"),
    output:
        "results/cells/{study}/{cell}/cell.json",
    log:
        "logs/measure_cell/{study}/{cell}.log",
    benchmark:
        "benchmarks/measure_cell/{study}/{cell}.tsv"
    conda:
        "../envs/tools.yaml"
    threads: 1
    resources:
        # The guest's memory is sparse; a 1 Gbit/s cell touches about 500 MB of it.
        mem="1GB",
    params:
        condition=cell_condition,
        replicates=cell_replicates,
        block=cell_block,
    message:
        "Measure {wildcards.cell} ({params.replicates} replicates)"
    shell:
        "losslab cell --study {wildcards.study} --block {params.block}"
        " --condition {params.condition:q} --replicates {params.replicates}"
        " --out {output} &> {log}"


rule collect_study:
    input:
        cell_files,
    output:
        replicates="results/summary/{study}_replicates.csv",
        intervals="results/summary/{study}_intervals.csv",
        cwnd="results/summary/{study}_cwnd.csv",
    log:
        "logs/collect_study/{study}.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Collect the cells of {wildcards.study}"
    shell:
        "losslab collect {input} --replicates {output.replicates}"
        " --intervals {output.intervals} --cwnd {output.cwnd} &> {log}"
