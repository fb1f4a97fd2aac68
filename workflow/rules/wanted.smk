"""What the rules of the instrument ask: which kernel, which image, and whether it may be missing."""


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
