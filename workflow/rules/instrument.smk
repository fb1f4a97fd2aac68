"""Kernel and images, which lie in the user's cache: built there once, for all clones."""


rule build_image:
    output:
        "results/instrument/image-{variant}.json",
    log:
        "logs/build_image/{variant}.log",
    conda:
        "../envs/tools.yaml"
    params:
        # Another one where the cache does not have what the record says.
        number=lambda wildcards: records.number(records.IMAGE, wildcards.variant),
        optional=lambda wildcards: optional(records.IMAGE, wildcards.variant),
    message:
        "Image {wildcards.variant}: a minute, where the cache does not have it"
    shell:
        "losslab image --variant {wildcards.variant} --number {params.number} {params.optional}"
        " --record {output:q} &> {log:q}"


rule build_kernel:
    input:
        only_with=ancient(only_with),
    output:
        "results/instrument/kernel-{variant}.json",
    log:
        "logs/build_kernel/{variant}.log",
    conda:
        "../envs/tools.yaml"
    params:
        number=lambda wildcards: records.number(records.KERNEL, wildcards.variant),
    message:
        "Kernel {wildcards.variant}: ten minutes of CPU time, where the cache does not have it"
    shell:
        "losslab kernel --variant {wildcards.variant} --number {params.number}"
        " --only-with {input.only_with:q} --record {output:q} &> {log:q}"


rule try_instrument:
    input:
        tried_parts,
    output:
        "results/instrument/tried-{backend}-{where}.json",
    log:
        "logs/try_instrument/{backend}-{where}.log",
    conda:
        "../envs/tools.yaml"
    message:
        "Try the instrument: {wildcards.backend}, {wildcards.where}"
    shell:
        "losslab try --backend {wildcards.backend} --where {wildcards.where} --needs {input:q}"
        " --record {output:q} &> {log:q}"
