"""Find the kernel, image and video that measuring needs, or say how to make them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from losslab import preflight
from losslab.backends import containernet, virtual
from losslab.campaign.deciding import CONTAINERNET, VIRTUAL
from losslab.campaign.replicate import Instrument
from losslab.emulation.apps import ffmpeg
from losslab.errors import HostError
from losslab.instrument import image, kernel
from losslab.instrument.cache import building, cache_folder
from losslab.study.condition import Condition

ENCODE_TIMEOUT_S = 600.0  # 60 s of 720p take half a minute on one core


def instrument(
    backend: str = VIRTUAL,
    where: str = containernet.GUEST,
    condition: Condition = preflight.COMMON,
) -> Instrument:
    """Return what a backend measures with.

    Args:
        backend: One of deciding.BACKENDS.
        where: One of containernet.PLACES: in a guest, or on this machine's own kernel.
        condition: What is to be measured, which decides what this machine's own kernel must have.

    Raises:
        HostError: something has not been built.
        LosslabError: this machine cannot measure the condition.
    """
    variant, command = kernel.PLAIN, "make setup"
    if backend == CONTAINERNET and where == containernet.GUEST:
        variant, command = kernel.CONTAINERS, "make containernet"
    kernel_folder = _built(kernel.existing(variant), "kernel", command)
    image_folder = _built(image.existing(), "host image", "make setup")
    provenance: dict[str, Any] = {
        "kernel": kernel.provenance(kernel_folder),
        "image": image.provenance(image_folder),
    }
    engine_root = None
    if where == containernet.HOST:
        provenance["where"] = where
        provenance["kernel"] = {"version": os.uname().release, "hash": os.uname().version}
    if backend == CONTAINERNET:
        engine = _built(image.existing(image.ENGINE), "engine image", "make containernet")
        engine_root = engine / "root"
        provenance |= {
            "where": where,
            "engine": image.provenance(engine),
        }
    if where == containernet.HOST:
        used = engine_root or image_folder / "root"
        engine_versions = preflight.require(used, condition, backend == CONTAINERNET)
        if engine_versions:
            provenance["docker"] = engine_versions
    parts = (provenance[part] for part in ("kernel", "image", "engine") if part in provenance)
    # This machine's own kernel is no pin: every manifest names it anyway.
    provenance["pinned"] = all(part.get("pinned", True) for part in parts)
    return Instrument(
        kernel=kernel_folder / "linux",
        image_root=image_folder / "root",
        provenance=provenance,
        backend=backend,
        where=where,
        engine_root=engine_root,
    )


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
                limit_s = timeout_s or ENCODE_TIMEOUT_S
                job: dict[str, Any] = {"kind": "command", "command": command}
                virtual.boot(tools.kernel, tools.image_root, job, partial, 1, limit_s)
    return folder / "video.mp4"
