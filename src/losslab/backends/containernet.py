"""The containernet backend, from the outside: in a guest, or on this machine's own kernel.

In a guest: Docker's engine and Containernet run inside a kernel of ours that has what they need, in
virtual time, without root. On the host: in containers of this machine's engine, on its own kernel,
in real time and as root; one cell at a time, in network and mount namespaces of its own.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.backends import onhost, virtual
from losslab.backends.virtual import Outcome
from losslab.errors import LosslabError

GUEST, HOST = "guest", "host"
PLACES = (GUEST, HOST)
# What a job needs to remove its containers after a signal.
CLEAN_UP_S = 60.0
CLEAN_UP_JOB_S = 120.0
DEFAULT_SOCKET = Path("/var/run/docker.sock")
SOCKET_THERE = "/run/docker.sock"  # in the job's root folder


@dataclass(frozen=True)
class Images:
    """The root folders that a job uses."""

    engine: Path
    host: Path
    tag: str  # of the host image, in the engine of this machine


def run_in_guest(
    kernel: Path,
    images: Images,
    job: dict[str, Any],
    job_folder: Path,
    seed: int,
    timeout_s: float,
) -> Outcome:
    """Boot a guest that runs containers for one job; as `virtual.boot`."""
    # The guest mounts it: see containers/engine/init.
    (job_folder / "image").symlink_to(images.host.resolve())
    return virtual.boot(kernel, images.engine, job, job_folder, seed, timeout_s)


def run_on_host(images: Images, job: dict[str, Any], job_folder: Path, timeout_s: float) -> Outcome:
    """Run one job in containers of this machine's engine; they are gone at the end.

    Raises:
        LosslabError: as of `onhost.run_job`.
    """
    with onhost.turn() as mine:
        job = job | {
            "owner": f"losslab-{secrets.token_hex(4)}",
            "image": f"losslab-host:{images.tag}",
            # As the engine sees them, which is not in the job's root folder.
            "image_root": str(images.host.resolve()),
            "binds": [f"{mine.source}:/mnt/losslab:ro", f"{job_folder.resolve()}:/mnt/out:rw"],
        }
        return onhost.run_job(
            _entry(images, mine, job_folder), job, job_folder, timeout_s, mine.lock,
            patience_s=CLEAN_UP_S, clean=lambda: _clean(images, job, mine),
        )  # fmt: skip


def _entry(images: Images, mine: onhost.Turn, job_folder: Path) -> onhost.Entry:
    return onhost.Entry(
        root=images.engine,
        module="losslab.emulation.jobs.enginehost",
        own_processes=False,
        mounts={
            mine.source: "/mnt/losslab", job_folder: "/mnt/out", images.host: "/mnt/image",
            socket_path(): SOCKET_THERE,
        },
        variables={
            "DOCKER_HOST": f"unix://{SOCKET_THERE}",
            # Containernet's mininet comes before Debian's.
            "PYTHONPATH": "/mnt/losslab:/opt/containernet",
        },
    )  # fmt: skip


def _clean(images: Images, job: dict[str, Any], mine: onhost.Turn) -> None:
    """Remove the containers of a job that could not do it itself."""
    with tempfile.TemporaryDirectory(prefix="clean-", dir=mine.source) as name:
        folder = Path(name)
        entry = _entry(images, mine, folder)
        try:
            onhost.run_job(entry, job | {"kind": "clean"}, folder, CLEAN_UP_JOB_S, mine.lock)
        except LosslabError as error:
            print(f"losslab: note: containers may be left: {error}", file=sys.stderr)


def socket_path() -> Path:
    """Return the socket of this machine's engine.

    Raises:
        LosslabError: DOCKER_HOST names something else.
    """
    address = os.environ.get("DOCKER_HOST", f"unix://{DEFAULT_SOCKET}")
    if not address.startswith("unix://"):
        raise LosslabError(
            f"Docker's engine must be on this machine, found DOCKER_HOST={address}",
            hint="unset DOCKER_HOST, or set it to unix:///var/run/docker.sock",
        )
    return Path(address.removeprefix("unix://"))
