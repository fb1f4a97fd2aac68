"""Kernels and images that cells need, and the workflow's records and wildcards for them."""

from __future__ import annotations

from typing import Any

from losslab.backends.registry import BACKENDS
from losslab.campaign.instrument import image_of, kernel_of
from losslab.instrument import image, kernels, packed, records
from losslab.instrument.kernels import Kernel
from losslab.study.design import Cell

Part = tuple[str, str]  # packed.IMAGE or packed.KERNEL, and a name


def parts(backend: str, where: str, spec: Kernel, hosts: str) -> list[Part]:
    """List the images and the kernel that a backend needs; `hosts` is the image of its hosts."""
    needs = BACKENDS[backend, where].needs
    # Videos are encoded in a guest, even for cells on this machine's own kernel.
    built = (spec if needs.guest else kernels.default()).key
    images = (hosts, *needs.images[1:])
    return [(packed.IMAGE, name) for name in images] + [(packed.KERNEL, built)]


def parts_of(cell: Cell) -> list[Part]:
    """List the images and the kernel that a cell needs."""
    return parts(cell.backend, cell.where, kernel_of(cell.condition), image_of(cell.condition))


def smoke_test_record(cell: Cell) -> str:
    """Return the record of the smoke test of a cell's backend, kernel and image."""
    spec, hosts = kernel_of(cell.condition), image_of(cell.condition)
    on = "" if spec == kernels.default() or cell.real_time else f"+{spec.key}"
    on += "" if hosts == image.HOST else f"~{hosts}"
    return str(records.FOLDER / f"smoke-test-{cell.backend}-{cell.where}{on}.json")


def smoke_test_kernel(wildcards: Any) -> str:
    """Return the name of a smoke test's kernel."""
    return str(wildcards.on.removeprefix("+") or kernels.DEFAULT)


def smoke_test_image(wildcards: Any) -> str:
    """Return the name of a smoke test's host image."""
    return str(wildcards.image.removeprefix("~") or image.HOST)


def smoke_test_parts(wildcards: Any) -> list[str]:
    """List the records of the kernel and images that a smoke test needs."""
    spec, hosts = kernels.of_key(smoke_test_kernel(wildcards)), smoke_test_image(wildcards)
    needs = parts(wildcards.backend, wildcards.where, spec, hosts)
    return [str(records.path(*part)) for part in needs]


def kernel_options(wildcards: Any) -> list[str]:
    """Return the options of `losslab kernel` for a job.

    A campaign needs the default kernel. If the source or public patch of another kernel is not
    available, the campaign skips the cells that need it.
    """
    spec = kernels.of_key(wildcards.kernel)
    optional = spec.series != kernels.default().series or spec.fetched
    return spec.options + (["--optional"] if optional else [])
