"""The containernet backends: containers in a guest, or on this machine's own kernel.

In a guest, Docker's engine and Containernet run on a kernel of losslab, in virtual time and without
root. On the host, containers of this machine's engine run on its own kernel, in real time and as
root, one cell at a time, with network and mount namespaces of its own.
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

# Time for a job to remove its containers after a signal.
CLEAN_UP_S = 60.0
CLEAN_UP_JOB_S = 120.0
JOB_SOCKET = "/run/docker.sock"  # in the job's root folder
# An engine and five containers start in 20 s; on a busy host it took 90 s.
START_S = 300.0
IMAGES = ("host", "engine")


class EngineGuest(virtual.Guest):
    """Containers of an engine in a guest."""

    needs = Needs(
        job="emulation/jobs/engineguest.py", guest=True, images=IMAGES,
        command="make containernet", start_s=START_S,
    )  # fmt: skip
    host_mounts = virtual.Guest.host_mounts + 1  # the hosts' image

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Return where the containers run."""
        return {"where": GUEST}

    def root(self, tools: Instrument) -> Path:
        """Return the engine image, in which containers/engine/init mounts the host image."""
        return engine_root(tools)

    def add_files(self, tools: Instrument, folder: Path) -> None:
        """Add a link to the host image."""
        (folder / "image").symlink_to(tools.image_root.resolve())


class EngineOnHost(onhost.OnHost):
    """Containers of this machine's engine, which are removed at the end."""

    needs = Needs(
        job="emulation/jobs/enginehost.py", guest=False, images=IMAGES,
        command="make containernet", start_s=START_S,
    )  # fmt: skip

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Refuse a machine that cannot measure a condition; return its engine's versions."""
        versions = preflight.require(image_root, condition, containers=True)
        return {"where": HOST, "docker": versions}

    @contextlib.contextmanager
    def start(self, tools: Instrument, job: Job) -> Iterator[Start]:
        """Wait for this job's turn, and give the job the options of its containers."""
        with onhost.turn() as mine:
            more = {
                "owner": f"losslab-{secrets.token_hex(4)}",
                "image": f"losslab-host:{tools.provenance['image']['hash']}",
                # Paths of the engine, which does not run in the job's root folder.
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
    """Return the engine image, which every instrument of these backends has."""
    assert tools.engine_root is not None
    return tools.engine_root


def _command(tools: Instrument, mine: onhost.Turn, job_folder: Path) -> list[str]:
    return onhost.enter(
        engine_root(tools),
        "losslab.emulation.jobs.enginehost",
        own_processes=False,
        mounts={
            mine.source: "/mnt/losslab", job_folder: "/mnt/out", tools.image_root: "/mnt/image",
            preflight.socket_path(): JOB_SOCKET,
        },
        variables={
            "DOCKER_HOST": f"unix://{JOB_SOCKET}",
            # Containernet's mininet comes before Debian's.
            "PYTHONPATH": "/mnt/losslab:/opt/containernet",
        },
    )  # fmt: skip


def _clean(tools: Instrument, more: dict[str, Any], mine: onhost.Turn) -> None:
    """Remove the containers of a job that may not have done so itself."""
    with tempfile.TemporaryDirectory(prefix="clean-", dir=mine.source) as name:
        folder = Path(name)
        job = Job({"kind": CLEAN}, folder, 0, CLEAN_UP_JOB_S)
        command = _command(tools, mine, folder)
        start = Start(lambda console: mine.spawn(command, console), more)
        try:
            end = runner.wait_for_end(start, job)
            console = (folder / CONSOLE_FILE).read_text(errors="replace")
            onhost.OnHost().result(job, end, console)
        except LosslabError as error:
            print(f"losslab: note: containers may remain: {error}", file=sys.stderr)
