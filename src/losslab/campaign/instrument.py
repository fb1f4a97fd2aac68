"""Find the kernel, image and video that measuring needs, or say how to make them."""

from __future__ import annotations

import functools
import hashlib
import math
import os
from pathlib import Path
from typing import Any

from losslab.backends import preflight, runner, virtual
from losslab.backends.base import GUEST, VIRTUAL, Instrument, Job, Needs
from losslab.backends.known import BACKENDS
from losslab.emulation.apps import ffmpeg
from losslab.errors import HostError, LosslabError
from losslab.instrument import image, integrity, kernel, kernels, packed
from losslab.instrument.cache import building, cache_folder
from losslab.instrument.kernels import Kernel
from losslab.study import design, features
from losslab.study.condition import DEFAULT_IMAGE, DEFAULT_KERNEL, Condition
from losslab.study.design import OWN_KERNEL
from losslab.study.names import Names, algorithms_of

# What a manifest calls the images.
PARTS = ("image", "engine")
# A kernel without this patch has no guest that waits to be copied; every job boots one.
COPIES = "0005-um-copies-of-a-waiting-guest.patch"
ENCODE_TIMEOUT_S = 600.0  # 60 s of 720p take half a minute on one core


def instrument(
    backend: str = VIRTUAL,
    where: str = GUEST,
    condition: Condition = preflight.COMMON,
    which: Kernel | None = None,
) -> Instrument:
    """Return what a backend measures with.

    `where`: one of known.PLACES: in a guest, or on this machine's own kernel; `condition`: what is
    to be measured, which decides which kernel, or what this machine's own must have; `which`: the
    kernel to measure on; the condition's by default. Raises HostError if something has not been
    built, or was changed since; LosslabError if this machine cannot measure the condition.
    """
    runs = BACKENDS[backend, where]
    which = _which(runs.needs, condition) if which is None else which
    variant, command = runs.needs.kernel or kernel.PLAIN, runs.needs.command
    linux = _kernel(variant, which, command)
    names = (image_of(condition), *runs.needs.images[1:])
    folders = [_image(name, command) for name in names]
    roots = [folder / "root" for folder in folders]
    binary = linux / "linux"
    digests = integrity.require(binary, roots)
    provenance: dict[str, Any] = {
        part: image.provenance(root.parent) | {"tree_sha256": digests[root]}
        for part, root in zip(PARTS, roots, strict=False)
    }
    provenance["kernel"] = kernel.provenance(linux)
    if runs.needs.kernel is None:
        # This machine's own kernel is no pin: every manifest names it anyway.
        provenance["kernel"] = {"version": os.uname().release, "hash": os.uname().version}
    provenance |= runs.ready(roots[-1], condition)
    parts = (provenance[part] for part in ("kernel", *PARTS) if part in provenance)
    provenance["pinned"] = all(part.get("pinned", True) for part in parts)
    copies = COPIES in kernel.provenance(linux).get("patches", [])
    engine_root = roots[1] if len(roots) > 1 else None
    if which.boot:
        provenance["kernel"] |= {"boot": list(which.boot)}
    return Instrument(
        binary, roots[0], provenance, backend, where, engine_root, copies, which.boot,
        digests[binary] if runs.needs.kernel else None,
    )  # fmt: skip


def require_first(tools: Instrument, records: Path) -> None:
    """Refuse a kernel or an image that is not the one with which a campaign began.

    `records`: the campaign's folder of records; one that has none yet gets these. Raises HostError
    if it is another.
    """
    needs = BACKENDS[tools.backend, tools.where].needs
    linux = tools.kernel if needs.kernel else None
    digests = integrity.require(linux, tools.image_roots, recent_s=math.inf)
    integrity.same_in_campaign(digests, records)


def installed() -> list[str]:
    """Say which kernel and image of the default backend are here: a line each, with the hash."""
    lines = []
    for what, folder, of, wanted in (
        ("kernel", kernel.existing(), kernel.provenance, kernel.target()),
        ("image", image.existing(), image.provenance, image.target()),
    ):
        if folder is None:
            lines.append(f"{what} {wanted.name}, not built")
            continue
        made_of = of(folder)
        words = f"Linux {made_of['version']}" if what == "kernel" else f"Debian {made_of['suite']}"
        lines.append(f"{what} {folder.name}, {words}" + ("" if made_of["pinned"] else ", UNPINNED"))
    return lines


def _which(needs: Needs, condition: Condition) -> Kernel:
    """Choose the kernel that measures a condition, or makes the videos of this machine's own."""
    if needs.kernel is not None:
        return kernel_of(condition)
    if condition.kernel != DEFAULT_KERNEL:
        raise LosslabError(OWN_KERNEL.format(condition.kernel), hint="or measure in a guest")
    return kernels.default()


def _kernel(variant: str, which: Kernel, command: str) -> Path:
    """Find a kernel; one that needs seconds, with an algorithm of one's own, is made at once."""
    folder = kernel.existing(variant, which) or _packed(
        packed.KERNEL, kernel.target(variant, which)
    )
    if which == kernels.default():
        return _built(folder, "kernel", command)
    if folder is None and kernel.quickly_made(variant, which):
        folder = kernel.build(variant, which=which)
    return _built(folder, f"kernel {which.title}", which.command(variant))


def _image(name: str, command: str) -> Path:
    """Find an image."""
    if name not in (image.HOST, image.ENGINE):
        command = f"losslab image --variant {name}"
    return _built(
        image.existing(name) or _packed(packed.IMAGE, image.target(name)), f"{name} image", command
    )


def _packed(kind: str, target: Path) -> Path | None:
    """Take what is not built here from where packed ones lie, as a cluster's node does."""
    return target if packed.install(kind, target) else None


def _built(folder: Path | None, what: str, command: str) -> Path:
    """Refuse what has not been built."""
    if folder is None:
        raise HostError(
            f"the pinned {what} must be built before anything can be measured, found none in "
            f"{cache_folder()}",
            hint=f"run `{command}` (or set LOSSLAB_CACHE to the cache that has it)",
        )
    return folder


def video(name: str, duration_s: float, tools: Instrument, timeout_s: float | None = None) -> Path:
    """Return one of condition.VIDEOS, encoded once by the image's own ffmpeg and cached.

    Raises LosslabError if it was not encoded within `timeout_s`, or ENCODE_TIMEOUT_S, of wall time.
    """
    command = ffmpeg.encode_command(name, duration_s, "video.mp4")
    key = hashlib.sha256(repr((command, tools.provenance["image"])).encode()).hexdigest()[:16]
    folder = cache_folder() / "video" / key
    if not folder.is_dir():
        with building(folder) as partial:
            if partial is not None:
                what = {"kind": "command", "command": command}
                job = Job(what, partial, 1, timeout_s or ENCODE_TIMEOUT_S)
                runner.run(virtual.Guest(), tools, job)
    return folder / "video.mp4"


def kernel_of(condition: Condition) -> Kernel:
    """Return a condition's kernel, with its algorithms of `algorithms/` compiled in.

    Raises LosslabError if its name is unknown.
    """
    return kernels.get(_names().kernel(condition), algorithms_of(condition))


def image_of(condition: Condition) -> str:
    """Return the name of the image that its hosts have."""
    if condition.image != DEFAULT_IMAGE:
        return condition.image
    return features.apps()[condition.app].image or image.HOST


@functools.cache
def _names() -> Names:
    return design.load_names(design.ROOT)
