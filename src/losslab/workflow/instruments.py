"""Kernels and images that cells need, by the names of the workflow's records and wildcards."""

from __future__ import annotations

from typing import Any

from losslab.backends.known import BACKENDS
from losslab.campaign.instrument import image_of, kernel_of
from losslab.instrument import image, kernel, kernels, packed, records
from losslab.instrument.kernels import Kernel
from losslab.study.design import Cell

Part = tuple[str, str]  # packed.IMAGE or packed.KERNEL, and its name


def parts(backend: str, where: str, which: Kernel, hosts: str) -> list[Part]:
    """List the images and the kernel that a backend needs, with an image for its hosts."""
    needs = BACKENDS[backend, where].needs
    # The videos are made in a guest, also where cells are not.
    built = kernel.named(needs.kernel or kernel.PLAIN, which if needs.kernel else kernels.default())
    images = (hosts, *needs.images[1:])
    return [(packed.IMAGE, name) for name in images] + [(packed.KERNEL, built)]


def parts_of(cell: Cell) -> list[Part]:
    """List the images and the kernel that a cell needs."""
    return parts(cell.backend, cell.where, kernel_of(cell.condition), image_of(cell.condition))


def tried_record(cell: Cell) -> str:
    """Return the record of the first short cell of a backend on a kernel, with an image."""
    which, hosts = kernel_of(cell.condition), image_of(cell.condition)
    on = "" if which == kernels.default() or cell.real_time else f"+{which.key}"
    on += "" if hosts == image.HOST else f"~{hosts}"
    return str(records.FOLDER / f"tried-{cell.backend}-{cell.where}{on}.json")


def tried_kernel(wildcards: Any) -> str:
    """Return the kernel that is tried."""
    return str(wildcards.on.removeprefix("+") or kernels.DEFAULT)


def tried_image(wildcards: Any) -> str:
    """Return the image of the hosts that is tried."""
    return str(wildcards.image.removeprefix("~") or image.HOST)


def tried_parts(wildcards: Any) -> list[str]:
    """List the records of what a backend needs."""
    which, hosts = kernels.of_key(tried_kernel(wildcards)), tried_image(wildcards)
    needs = parts(wildcards.backend, wildcards.where, which, hosts)
    return [str(records.path(*part)) for part in needs]


def only_with(wildcards: Any) -> list[str]:
    """List the record of the image without which nobody needs a kernel."""
    engine = [str(records.path(packed.IMAGE, image.ENGINE))]
    return engine if not wildcards.kernel.startswith(kernel.PLAIN) else []


def kernel_options(wildcards: Any) -> list[str]:
    """Return the options that say which kernel is built.

    Without the default one there is no campaign. Where another one's source or public patch is to
    be had nowhere, its cells are not run.
    """
    variant, which = kernel.parsed(wildcards.kernel)
    may_miss = which.series != kernels.default().series or which.fetched
    return which.options(variant) + (["--optional"] if may_miss else [])
