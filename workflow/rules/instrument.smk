"""Build kernels and images once in the user's cache, which all clones share."""


rule build_image:
    output:
        "results/instrument/image-{variant}.json",
    log:
        "logs/build_image/{variant}.log",
    # Run on the node of the workflow, whose cache losslab checks. Other nodes fetch missing parts.
    localrule: True
    conda:
        "../envs/tools.yaml"
    params:
        optional=campaign.image_optional,
    message:
        "Image {wildcards.variant} (takes a minute if it is not in the cache)"
    shell:
        "losslab image --variant {wildcards.variant} {params.optional}"
        " --record {output:q} &> {log:q}"


rule build_kernel:
    output:
        "results/instrument/kernel-{kernel}.json",
    log:
        "logs/build_kernel/{kernel}.log",
    # Run on the node of the workflow, whose cache losslab checks. Other nodes fetch missing parts.
    localrule: True
    conda:
        "../envs/tools.yaml"
    params:
        which=campaign.kernel_options,
    message:
        "Kernel {wildcards.kernel} (takes ten minutes of CPU time if it is not in the cache)"
    shell:
        "losslab kernel {params.which} --record {output:q} &> {log:q}"


rule smoke_test:
    input:
        campaign.smoke_test_parts,
    output:
        "results/instrument/smoke-test-{backend}-{where}{on}{image}.json",
    log:
        "logs/smoke_test/{backend}-{where}{on}{image}.log",
    # Run on the node of the workflow, whose cache losslab checks. Other nodes fetch missing parts.
    localrule: True
    conda:
        "../envs/tools.yaml"
    params:
        kernel=campaign.smoke_test_kernel,
        image=campaign.smoke_test_image,
    message:
        "Smoke-test the instrument: {wildcards.backend}, {wildcards.where} {wildcards.on} {wildcards.image}"
    shell:
        "losslab smoke-test --backend {wildcards.backend} --where {wildcards.where}"
        " --kernel {params.kernel} --image {params.image} --needs {input:q} --record {output:q} &> {log:q}"
