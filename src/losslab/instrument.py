"""Find the kernel, image and video that measuring needs, or say how to make them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from losslab.apps import ffmpeg
from losslab.backends import virtual
from losslab.build import image, kernel
from losslab.build.cache import cache_folder, hash_files
from losslab.errors import LosslabError
from losslab.replicate import Instrument, whole_folder

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

ENCODE_TIMEOUT_S = 600.0  # 60 s of 720p take half a minute on one core


def instrument() -> Instrument:
    """Return the built kernel and image.

    Raises:
        LosslabError: one of them has not been built.
    """
    kernel_folder, image_folder = kernel.existing(), image.existing()
    for what, found in (("kernel", kernel_folder), ("host image", image_folder)):
        if found is None:
            raise LosslabError(
                f"the pinned {what} must be built before anything can be measured, found none in "
                f"{cache_folder()}",
                hint="run `make setup` (or set LOSSLAB_CACHE to the cache that has it)",
            )
    assert kernel_folder is not None and image_folder is not None
    return Instrument(
        kernel=kernel_folder / "linux",
        image_root=image_folder / "root",
        provenance={
            "kernel": kernel.provenance(kernel_folder),
            "image": image.provenance(image_folder),
            "source": hash_files([PACKAGE / name for name in MEASURING]),
        },
    )


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
