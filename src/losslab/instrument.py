"""Find the kernel, image and video that measuring needs, or say how to make them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from losslab import preflight
from losslab.apps import ffmpeg
from losslab.backends import containernet, virtual
from losslab.build import image, kernel
from losslab.build.cache import cache_folder, hash_files
from losslab.condition import Condition
from losslab.errors import LosslabError
from losslab.replicate import CONTAINERNET, VIRTUAL, Instrument, whole_folder

PACKAGE = Path(__file__).parent
# What decides a measured number, relative to the package. Analysis code is not among it.
MEASURING = (
    "apps/datagram.py",
    "apps/ffmpeg.py",
    "apps/iperf3.py",
    "apps/web.py",
    "backends/console.py",
    "backends/guest.py",
    "backends/virtual.py",
    "cell.py",
    "checks.py",
    "condition.py",
    "configuration.py",
    "datagram.py",
    "flows.py",
    "netns.py",
    "offloads.py",
    "probes/ping.py",
    "probes/queue.py",
    "probes/tcp.py",
    "schemes/__init__.py",
    "schemes/aimd.py",
    "schemes/base.py",
    "schemes/bbr.py",
    "schemes/delivery.py",
    "schemes/ewma.py",
    "schemes/fixed.py",
    "schemes/template.py",
    "schemes/threshold.py",
    "schemes/timely.py",
    "shaping.py",
    "topology.py",
    "traceforward.py",
    "tracelink.py",
    "traces.py",
    "traffic.py",
    "wakeups.py",
)

# And on the containernet backend besides.
CONTAINERS = (
    "backends/containernet.py",
    "backends/containers.py",
    "backends/engineguest.py",
)

# And on this machine's own kernel; the last, in containers there.
REAL_TIME = ("backends/hostjob.py", "backends/onhost.py", "realtime.py")
REAL_TIME_CONTAINERS = ("backends/enginehost.py",)

ENCODE_TIMEOUT_S = 600.0  # 60 s of 720p take half a minute on one core


def modules(backend: str, where: str = containernet.GUEST) -> tuple[str, ...]:
    """List the modules that decide a backend's numbers, relative to the package."""
    found = list(MEASURING)
    if backend == CONTAINERNET:
        found += CONTAINERS
    if where == containernet.HOST:
        found += REAL_TIME
        found += REAL_TIME_CONTAINERS if backend == CONTAINERNET else ()
    return tuple(found)


def instrument(
    backend: str = VIRTUAL,
    where: str = containernet.GUEST,
    condition: Condition = preflight.COMMON,
) -> Instrument:
    """Return what a backend measures with.

    Args:
        backend: One of replicate.BACKENDS.
        where: One of containernet.PLACES: in a guest, or on this machine's own kernel.
        condition: What is to be measured, which decides what this machine's own kernel must have.

    Raises:
        LosslabError: something has not been built, or this machine cannot measure the condition.
    """
    variant, command = kernel.PLAIN, "make setup"
    if backend == CONTAINERNET and where == containernet.GUEST:
        variant, command = kernel.CONTAINERS, "make containernet"
    kernel_folder = _built(kernel.existing(variant), "kernel", command)
    image_folder = _built(image.existing(), "host image", "make setup")
    provenance = {
        "kernel": kernel.provenance(kernel_folder),
        "image": image.provenance(image_folder),
        "source": hash_files([PACKAGE / name for name in modules(backend, where)]),
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
        raise LosslabError(
            f"the pinned {what} must be built before anything can be measured, found none in "
            f"{cache_folder()}",
            hint=f"run `{command}` (or set LOSSLAB_CACHE to the cache that has it)",
        )
    return folder


def video(name: str, duration_s: float, tools: Instrument) -> Path:
    """Return one of condition.VIDEOS, encoded once by the image's own ffmpeg and cached."""
    command = ffmpeg.encode_command(name, duration_s, "video.mp4")
    key = hashlib.sha256(repr((command, tools.provenance["image"])).encode()).hexdigest()[:16]
    folder = cache_folder() / "video" / key
    if not (folder / "video.mp4").exists():
        with whole_folder(folder) as partial:
            job: dict[str, Any] = {"kind": "command", "command": command}
            virtual.boot(tools.kernel, tools.image_root, job, partial, 1, ENCODE_TIMEOUT_S)
    return folder / "video.mp4"
