"""Kernel and images, which lie in the user's cache: built there once, for all clones."""


rule build_image:
    output:
        "results/instrument/image-{variant}.json",
    log:
        "logs/build_image/{variant}.log",
    # Where the workflow runs, which looks into the cache; other nodes fetch what they lack.
    localrule: True
    conda:
        "../envs/tools.yaml"
    params:
        # Another one where the cache does not have what the record says.
        number=lambda wildcards: records.number("image", wildcards.variant),
        optional=campaign.image_optional,
    message:
        "Image {wildcards.variant}: a minute, where the cache does not have it"
    shell:
        "losslab image --variant {wildcards.variant} --number {params.number} {params.optional}"
        " --record {output:q} &> {log:q}"


rule build_kernel:
    input:
        only_with=instruments.only_with,
    output:
        "results/instrument/kernel-{kernel}.json",
    log:
        "logs/build_kernel/{kernel}.log",
    # Where the workflow runs, which looks into the cache; other nodes fetch what they lack.
    localrule: True
    conda:
        "../envs/tools.yaml"
    params:
        number=lambda wildcards: records.number("kernel", wildcards.kernel),
        which=instruments.kernel_options,
    message:
        "Kernel {wildcards.kernel}: ten minutes of CPU time, where the cache does not have it"
    shell:
        "losslab kernel {params.which} --number {params.number}"
        " --only-with {input.only_with:q} --record {output:q} &> {log:q}"


rule try_instrument:
    input:
        instruments.tried_parts,
    output:
        "results/instrument/tried-{backend}-{where}{on}{image}.json",
    log:
        "logs/try_instrument/{backend}-{where}{on}{image}.log",
    # Where the workflow runs, which looks into the cache; other nodes fetch what they lack.
    localrule: True
    conda:
        "../envs/tools.yaml"
    params:
        kernel=instruments.tried_kernel,
        image=instruments.tried_image,
    message:
        "Try the instrument: {wildcards.backend}, {wildcards.where} {wildcards.on} {wildcards.image}"
    shell:
        "losslab try --backend {wildcards.backend} --where {wildcards.where}"
        " --kernel {params.kernel} --image {params.image} --needs {input:q} --record {output:q} &> {log:q}"
