"""Kernel and images, which lie in the user's cache: built there once, for all clones."""


def tried_kernel(wildcards):
    """Name the kernel that is tried."""
    return wildcards.on.removeprefix("+") or kernels.DEFAULT


def tried_image(wildcards):
    """Name the image of the hosts that is tried."""
    return wildcards.image.removeprefix("~") or image.HOST


def tried_parts(wildcards):
    """List the records of what a backend needs."""
    which = kernels.of_key(tried_kernel(wildcards))
    return [
        str(records.path(*part))
        for part in parts(
            wildcards.backend, wildcards.where, which, tried_image(wildcards)
        )
    ]


def only_with(wildcards):
    """List the record of the image without which nobody wants a kernel."""
    engine = [str(records.path(records.IMAGE, image.ENGINE))]
    return engine if not wildcards.kernel.startswith(kernel.PLAIN) else []


def kernel_options(wildcards):
    """Give the options that say which kernel is built.

    Without the default one there is no campaign. Where another one's source or public patch is to
    be had nowhere, its cells are left out.
    """
    variant, which = kernel.parsed(wildcards.kernel)
    may_miss = which.series != kernels.default().series or which.fetched
    return which.options(variant) + (["--optional"] if may_miss else [])


def optional(kind, name):
    """Give the option for what only cells need that may be left out."""
    need_it = [
        cell.optional for cell in CELLS.values() if (kind, name) in cell_parts(cell)
    ]
    return ["--optional"] if need_it and all(need_it) else []


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
        only_with=only_with,
    output:
        "results/instrument/kernel-{kernel}.json",
    log:
        "logs/build_kernel/{kernel}.log",
    conda:
        "../envs/tools.yaml"
    params:
        number=lambda wildcards: records.number(records.KERNEL, wildcards.kernel),
        which=kernel_options,
    message:
        "Kernel {wildcards.kernel}: ten minutes of CPU time, where the cache does not have it"
    shell:
        "losslab kernel {params.which} --number {params.number}"
        " --only-with {input.only_with:q} --record {output:q} &> {log:q}"


rule try_instrument:
    input:
        tried_parts,
    output:
        "results/instrument/tried-{backend}-{where}{on}{image}.json",
    log:
        "logs/try_instrument/{backend}-{where}{on}{image}.log",
    conda:
        "../envs/tools.yaml"
    params:
        kernel=tried_kernel,
        image=tried_image,
    message:
        "Try the instrument: {wildcards.backend}, {wildcards.where} {wildcards.on} {wildcards.image}"
    shell:
        "losslab try --backend {wildcards.backend} --where {wildcards.where}"
        " --kernel {params.kernel} --image {params.image} --needs {input:q} --record {output:q} &> {log:q}"
