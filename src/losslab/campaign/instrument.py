"""Find the kernel, image and video that measuring needs, or say how to make them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from losslab.backends import preflight, runner, virtual
from losslab.backends.base import GUEST, VIRTUAL, Instrument, Job
from losslab.backends.known import BACKENDS
from losslab.campaign.which import kernel_of
from losslab.emulation.apps import ffmpeg
from losslab.errors import HostError, LosslabError
from losslab.instrument import image, kernel, kernels
from losslab.instrument.cache import building, cache_folder
from losslab.study.condition import DEFAULT_KERNEL, Condition
from losslab.study.design import OWN_KERNEL

# What a manifest calls the images.
PARTS = {image.HOST: "image", image.ENGINE: "engine"}
ENCODE_TIMEOUT_S = 600.0  # 60 s of 720p take half a minute on one core


def instrument(
    backend: str = VIRTUAL, where: str = GUEST, condition: Condition = preflight.COMMON
) -> Instrument:
    """Return what a backend measures with.

    Args:
        backend: One of known.NAMES.
        where: One of known.PLACES: in a guest, or on this machine's own kernel.
        condition: What is to be measured, which decides which kernel, or what this machine's own
            must have.

    Raises:
        HostError: something has not been built.
        LosslabError: this machine cannot measure the condition.
    """
    runs = BACKENDS[backend, where]
    variant, command = runs.needs.kernel or kernel.PLAIN, runs.needs.command
    which = kernel_of(condition)
    if runs.needs.kernel is None and condition.kernel != DEFAULT_KERNEL:
        raise LosslabError(OWN_KERNEL.format(condition.kernel), hint="or measure in a guest")
    if runs.needs.kernel is None:
        # Of ours it needs nothing but a guest's program, to encode a video with.
        which = kernels.default()
    if which != kernels.default():
        command = which.command(variant)
    what = "kernel" if which == kernels.default() else f"kernel {which.title}"
    linux = _built(kernel.existing(variant, which), what, command)
    folders = {
        name: _built(image.existing(name), f"{name} image", runs.needs.command)
        for name in runs.needs.images
    }
    provenance: dict[str, Any] = {
        PARTS[name]: image.provenance(folder) for name, folder in folders.items()
    }
    provenance["kernel"] = kernel.provenance(linux)
    if runs.needs.kernel is None:
        # This machine's own kernel is no pin: every manifest names it anyway.
        provenance["kernel"] = {"version": os.uname().release, "hash": os.uname().version}
    roots = [folder / "root" for folder in folders.values()]
    provenance |= runs.ready(roots[-1], condition)
    parts = (provenance[part] for part in ("kernel", *PARTS.values()) if part in provenance)
    provenance["pinned"] = all(part.get("pinned", True) for part in parts)
    return Instrument(linux / "linux", roots[0], provenance, backend, where, *roots[1:])


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

    Raises:
        LosslabError: it was not encoded within `timeout_s`, or ENCODE_TIMEOUT_S, of wall time.
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
