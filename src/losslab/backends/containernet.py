"""The containernet backends, from the outside: in a guest, or on this machine's own kernel.

In a guest: Docker's engine and Containernet run inside a kernel of ours that has what they need, in
virtual time, without root. On the host: in containers of this machine's engine, on its own kernel,
in real time and as root; one cell at a time, in network and mount namespaces of its own.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from losslab.backends import onhost, preflight, runner, virtual
from losslab.backends.base import (
    CLEAN,
    CONSOLE_FILE,
    GUEST,
    HOST,
    Instrument,
    Job,
    Needs,
    Start,
)
from losslab.errors import LosslabError
from losslab.study.condition import Condition

# What a job needs to remove its containers after a signal.
CLEAN_UP_S = 60.0
CLEAN_UP_JOB_S = 120.0
SOCKET_THERE = "/run/docker.sock"  # in the job's root folder
# An engine and five containers start in 20 s; on a busy host that has taken a minute and a half.
START_S = 300.0
IMAGES = ("host", "engine")


class EngineGuest(virtual.Guest):
    """Containers of an engine in a guest."""

    needs = Needs(
        job="emulation/jobs/engineguest.py", kernel="containers", images=IMAGES,
        command="make containernet", start_s=START_S,
    )  # fmt: skip
    host_mounts = virtual.Guest.host_mounts + 1  # the hosts' image

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Refuse nothing; say where the containers are."""
        return {"where": GUEST}

    def root(self, tools: Instrument) -> Path:
        """Return the engine's image, in which the hosts' is mounted: see containers/engine/init."""
        return engine_root(tools)

    def furnish(self, tools: Instrument, folder: Path) -> None:
        """Give it the image of its hosts, too."""
        (folder / "image").symlink_to(tools.image_root.resolve())


class EngineOnHost(onhost.OnHost):
    """Containers of this machine's engine; they are gone at the end."""

    needs = Needs(
        job="emulation/jobs/enginehost.py", kernel=None, images=IMAGES,
        command="make containernet", start_s=START_S,
    )  # fmt: skip

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Refuse a machine that cannot measure a condition; say which engine it has."""
        versions = preflight.require(image_root, condition, containers=True)
        return {"where": HOST, "docker": versions}

    @contextlib.contextmanager
    def start(self, tools: Instrument, job: Job) -> Iterator[Start]:
        """Wait for this job's turn, and tell the job what the engine is to show its containers."""
        with onhost.turn() as mine:
            more = {
                "owner": f"losslab-{secrets.token_hex(4)}",
                "image": f"losslab-host:{tools.provenance['image']['hash']}",
                # As the engine sees them, which is not in the job's root folder.
                "image_root": str(tools.image_root.resolve()),
                "binds": [f"{mine.source}:/mnt/losslab:ro", f"{job.folder.resolve()}:/mnt/out:rw"],
            }
            command = _command(tools, mine, job.folder)
            yield Start(
                lambda console: mine.spawn(command, console, signal.SIGTERM),
                more,
                patience_s=CLEAN_UP_S,
                clean_up=lambda: _clean(tools, more, mine),
            )


def engine_root(tools: Instrument) -> Path:
    """Return the engine's image, which every instrument of these backends has."""
    assert tools.engine_root is not None
    return tools.engine_root


def _command(tools: Instrument, mine: onhost.Turn, job_folder: Path) -> list[str]:
    return onhost.enter(
        engine_root(tools),
        "losslab.emulation.jobs.enginehost",
        own_processes=False,
        mounts={
            mine.source: "/mnt/losslab", job_folder: "/mnt/out", tools.image_root: "/mnt/image",
            preflight.socket_path(): SOCKET_THERE,
        },
        variables={
            "DOCKER_HOST": f"unix://{SOCKET_THERE}",
            # Containernet's mininet comes before Debian's.
            "PYTHONPATH": "/mnt/losslab:/opt/containernet",
        },
    )  # fmt: skip


def _clean(tools: Instrument, more: dict[str, Any], mine: onhost.Turn) -> None:
    """Remove the containers of a job that could not do it itself."""
    with tempfile.TemporaryDirectory(prefix="clean-", dir=mine.source) as name:
        folder = Path(name)
        job = Job({"kind": CLEAN}, folder, 0, CLEAN_UP_JOB_S)
        command = _command(tools, mine, folder)
        start = Start(lambda console: mine.spawn(command, console), more)
        try:
            end = runner.to_its_end(start, job)
            console = (folder / CONSOLE_FILE).read_text(errors="replace")
            onhost.OnHost().result(job, end, console)
        except LosslabError as error:
            print(f"losslab: note: containers may be left: {error}", file=sys.stderr)
