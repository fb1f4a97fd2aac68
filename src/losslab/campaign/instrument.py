"""The instrument of a measurement: its kernel, images and video, and what is built for them."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from losslab.backends import runner, virtual
from losslab.backends.base import COMMON, GUEST, VIRTUAL, Instrument, Job
from losslab.backends.registry import BACKENDS
from losslab.emulation.app import apps
from losslab.errors import HostError, LosslabError
from losslab.instrument import built, image, integrity, kernel, kernels, kernelsource, packed
from losslab.instrument.cache import building, cache_folder, progress
from losslab.instrument.fetch import unpinned_allowed
from losslab.instrument.kernels import Kernel
from losslab.repository import INSTALLED, ROOT, SET_UP, require_programs
from losslab.study import design, parameters
from losslab.study.condition import DEFAULT_IMAGE, DEFAULT_KERNEL, Condition
from losslab.study.design import OWN_KERNEL, Cell
from losslab.study.names import Names, algorithms_of

# The names of the images in a manifest.
PARTS = ("image", "engine")
PartName = tuple[str, str]  # packed.IMAGE or packed.KERNEL, and a name
ENCODE_TIMEOUT_S = 600.0  # 60 s of 720p take half a minute on one core


def instrument(
    backend: str = VIRTUAL,
    where: str = GUEST,
    condition: Condition = COMMON,
    spec: Kernel | None = None,
) -> Instrument:
    """Return the instrument that measures a condition on a backend.

    The condition determines the kernel, if none is given, and the image, or the requirements for
    this machine's own kernel. Raises HostError if one is not built, or has changed since.
    """
    runner = BACKENDS[backend, where]
    needs = runner.needs
    if spec is None and not needs.guest and condition.kernel != DEFAULT_KERNEL:
        raise LosslabError(OWN_KERNEL.format(condition.kernel), hint="or measure in a guest")
    # The default kernel encodes the videos for this machine's own.
    spec = spec or (kernel_of(condition) if needs.guest else kernels.default())
    linux = _kernel(spec, needs.command)
    names = (image_of(condition), *needs.images[1:])
    roots = [_image(name, needs.command) / "root" for name in names]
    binary = linux / "linux"
    digests = integrity.require(binary, roots)
    provenance: dict[str, Any] = {
        part: image.provenance(root.parent) | {"tree_sha256": digests[root]}
        for part, root in zip(PARTS, roots, strict=False)
    }
    provenance["kernel"] = kernel.provenance(linux)
    if not needs.guest:
        # Without `pinned`: nothing can pin this machine's own kernel.
        provenance["kernel"] = {"version": os.uname().release, "hash": os.uname().version}
    provenance |= runner.ready(roots[-1], condition)
    parts = (provenance[part] for part in ("kernel", *PARTS) if part in provenance)
    provenance["pinned"] = all(part.get("pinned", True) for part in parts)
    engine_root = roots[1] if len(roots) > 1 else None
    boot = (*spec.boot, *parameters.boot_words(condition.parameters))
    if boot and needs.guest:
        kernels.require_parameters(replace(spec, boot=boot), binary)
    if spec.boot:
        provenance["kernel"] |= {"boot": list(spec.boot)}
    sha256 = digests[binary] if needs.guest else None
    return Instrument(binary, roots[0], provenance, backend, where, engine_root, boot, sha256)


def require_first(tools: Instrument, records: Path) -> None:
    """Check that the kernel and the images are those with which the campaign began.

    At the campaign's first measurement, their digests are recorded in the folder `records`.
    """
    integrity.same_in_campaign(require_unchanged(tools), records)


def require_unchanged(tools: Instrument, again: bool = False) -> dict[Path, str]:
    """Return the digests of kernel and images; HostError if one has changed since it was built."""
    needs = BACKENDS[tools.backend, tools.where].needs
    return integrity.require(tools.kernel if needs.guest else None, tools.image_roots, again=again)


def _kernel(spec: Kernel, command: str) -> Path:
    """Return a kernel's folder; build a kernel whose build takes only seconds.

    Such a build adds only algorithms to a kernel whose object files are kept.
    """
    part = kernel.part(spec, kernelsource.require_room)
    folder = part.fetch()
    if spec == kernels.default():
        return _built(folder, "kernel", command)
    if folder is None and spec != spec.base and kernel.objects(spec.base).existing():
        folder = part.build()
    return _built(folder, f"kernel {spec.title}", spec.command)


def _image(name: str, command: str) -> Path:
    if name not in (image.HOST, image.ENGINE):
        command = f"losslab image --variant {name}"
    return _built(image.part(name).fetch(), f"{name} image", command)


def _built(folder: Path | None, name: str, command: str) -> Path:
    if folder is None:
        raise HostError(
            f"the pinned {name} is not built: {cache_folder()} does not contain it",
            hint=f"run `{command.replace('make setup', SET_UP)}` (or set LOSSLAB_CACHE to the "
            "cache that contains it)",
        )
    return folder


def video(condition: Condition, tools: Instrument, timeout_s: float | None = None) -> Path | None:
    """Return the video that a condition's app sends, if any: encoded in the image, and cached."""
    command = apps()[condition.app].input_command(condition, "video.mp4")
    if command is None:
        return None
    key = hashlib.sha256(repr((command, tools.provenance["image"])).encode()).hexdigest()[:16]
    folder = cache_folder() / "video" / key
    if not folder.is_dir():
        with building(folder) as partial:
            if partial is not None:
                task = {"kind": "command", "command": command}
                # Not in a fork of a campaign's guest, which may have containers for other jobs.
                job = Job(task, partial, 1, timeout_s or ENCODE_TIMEOUT_S, alone=True)
                with progress("video", "half a minute to encode"):
                    runner.run(virtual.Guest(), tools, job)
    return folder / "video.mp4"


def kernel_of(condition: Condition) -> Kernel:
    """Return a condition's kernel, including its algorithms of `algorithms/`."""
    return kernels.get(_names().kernel(condition), algorithms_of(condition))


def image_of(condition: Condition) -> str:
    """Return the name of the image of a condition's hosts."""
    if condition.image != DEFAULT_IMAGE:
        return condition.image
    return apps()[condition.app].image or image.HOST


def parts(backend: str, where: str, spec: Kernel, hosts: str) -> list[PartName]:
    """List the images and the kernel that a backend needs; `hosts` is the image of its hosts."""
    needs = BACKENDS[backend, where].needs
    # Videos are encoded in a guest, even for cells on this machine's own kernel.
    built = (spec if needs.guest else kernels.default()).key
    images = (hosts, *needs.images[1:])
    return [(packed.IMAGE, name) for name in images] + [(packed.KERNEL, built)]


def parts_of(cell: Cell) -> list[PartName]:
    """List the images and the kernel that a cell needs."""
    return parts(cell.backend, cell.where, kernel_of(cell.condition), image_of(cell.condition))


def provide(condition: Condition, backend: str = VIRTUAL, where: str = GUEST) -> None:
    """Fetch or build the default kernel and image if the cache lacks what a condition needs.

    Other kernels and images stay as they are: the error for a missing one names its command.
    """
    needed = parts(backend, where, kernel_of(condition), image_of(condition))
    default = (image.HOST, kernels.default().key)
    missing = [part for part in needed if part[1] in default and not built.in_cache(*part)]
    if missing and not packed.origin().place:
        require_programs("build", "the first build of losslab's kernel and image")
    unpinned = unpinned_allowed(False)
    for name in missing:
        built.part(*name).build(unpinned)


def at_first_use(condition: Condition, backend: str = VIRTUAL, where: str = GUEST) -> None:
    """Provide them for an installed package; in a clone, `make setup` does it beforehand."""
    if INSTALLED:
        provide(condition, backend, where)


def require_built(
    conditions: Iterable[Condition], backend: str = VIRTUAL, where: str = GUEST
) -> None:
    """Raise HostError with the commands that build the kernels and images that are missing.

    Those that losslab fetches, or builds by itself at their first use, are not missing.
    """
    needs = BACKENDS[backend, where].needs
    distinct = [*dict.fromkeys(conditions)]
    specs = {kernel_of(each) if needs.guest else kernels.default() for each in distinct}
    images = {name for each in distinct for name in (image_of(each), *needs.images[1:])}
    if INSTALLED:  # `provide` builds them
        specs -= {kernels.default()}
        images -= {image.HOST}
    missing = []
    gets = [functools.partial(_kernel, spec) for spec in sorted(specs, key=lambda its: its.key)]
    for get in (*gets, *(functools.partial(_image, name) for name in sorted(images))):
        try:
            get(needs.command)
        except HostError as error:
            missing.append(error)
    if missing:
        hints = (each.hint for each in missing if each.hint)
        raise HostError("; ".join(each.message for each in missing), hint="; ".join(hints))


def smoke_test_record(cell: Cell) -> str:
    """Return the record of the smoke test of a cell's backend, kernel and image."""
    spec, hosts = kernel_of(cell.condition), image_of(cell.condition)
    on = "" if spec == kernels.default() or cell.real_time else f"+{spec.key}"
    on += "" if hosts == image.HOST else f"~{hosts}"
    return str(built.FOLDER / f"smoke-test-{cell.backend}-{cell.where}{on}.json")


@functools.cache
def _names() -> Names:
    return design.load_names(ROOT)
