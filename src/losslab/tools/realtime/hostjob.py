"""Job on this machine's own kernel, in real time, with Mininet hosts or containers of its engine.

It runs as root in the host image, or with containers in the engine image, in its own namespaces;
see `onhost`. The job's folder is /mnt/out.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from losslab.emulation import containers, measure
from losslab.emulation.measure import bare_hosts, stage
from losslab.emulation.outcome import write_failure, write_result
from losslab.errors import HostError
from losslab.study.condition import Condition
from losslab.tools.realtime import watch

JOB = Path("/mnt/out")
IMAGE = Path("/mnt/image")  # the host image of containers

# Command prefix of programs. It permits them to serve on any port and to set up links of their
# namespace, and nothing else: root without this prefix could change the machine. NET_ADMIN is for
# the trace-driven link's TUN device.
LIMITED = (
    "setpriv", "--bounding-set=-all,+net_admin,+net_bind_service", "--inh-caps=-all",
    "--ambient-caps=-all", "--no-new-privs", "--",
)  # fmt: skip

MEMBERS_END_S = 5.0
MEMBERS_POLL_S = 0.01


def main() -> int:
    """Run the job, and write its result or failure."""
    signal.signal(signal.SIGTERM, _interrupted)
    (JOB / "started").touch()
    try:
        job = json.loads((JOB / "job.json").read_text())
        result = _in_containers(job) if "owner" in job else replicate(job, host_class())
        write_result(result, JOB / "result.json")
    except Exception as error:
        write_failure(of_engine(error) or error, JOB / "result.json")
    return 0


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Exit through the context managers, which remove the containers."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def host_class() -> type:
    """Return a class of Mininet hosts whose programs have limited capabilities."""
    from mininet.node import Host

    class LimitedHost(Host):  # type: ignore[misc]
        """Network namespace whose programs have limited capabilities."""

        def popen(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
            """Start a program with limited capabilities."""
            started: subprocess.Popen[bytes] = super().popen([*LIMITED, *command], **options)
            return started

    return LimitedHost


def _in_containers(job: dict[str, Any]) -> dict[str, Any]:
    """Measure in containers, which are removed at the end; or only remove an owner's."""
    api = containers.client()
    if job["kind"] == "clean":
        return {"removed": remove(api, job["owner"])}
    # Jobs run one at a time, so containers found here are of runs that were killed.
    for leftover in remove(api):
        print(f"removed {leftover}, left over from a killed run")
    with owned(api, job["owner"]):
        # A guest has the image's files as its root; the engine needs them once.
        if not containers.has_image(api, job["image"]):
            command = ["tar", "-C", str(IMAGE), "-c", "."]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
                containers.import_image(api, job["image"], tar.stdout)
        binds = [*job["binds"], *containers.name_binds(Path(job["image_root"]))]
        place = containers.Place(job["owner"], job["image"], tuple(binds))
        result = replicate(job, container_class(place))
        result["machine"]["docker"] = api.version()["Version"]
        return result


def of_engine(error: BaseException) -> HostError | None:
    """Return a HostError for an error of Docker's engine; None for other errors."""
    if type(error).__module__.partition(".")[0] not in ("docker", "requests"):
        return None
    return HostError(
        f"this machine's engine must make, run and remove containers, found: {error}",
        hint="see `docker info` and the engine's log",
    )


def container_class(place: containers.Place) -> type:
    """Return a class of containers that end with the job, whose programs have few capabilities."""
    from mininet.node import Docker

    class LimitedContainer(containers.host_class(place)):  # type: ignore[misc]
        """A container of this machine's engine."""

        def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
            """Start a program as Containernet does, by `_popen`."""
            started: subprocess.Popen[bytes] = Docker.popen(self, command, **options)
            return started

        def _popen(self, cmd: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
            """Start a program, which would otherwise have the job's capabilities."""
            at = cmd.index(f"{place.owner}.{self.name}") + 1
            words = [*cmd[:at], *LIMITED, *cmd[at:]]
            started: subprocess.Popen[bytes] = super()._popen(words, **options)
            return started

        def terminate(self) -> None:
            """End the container's programs, then remove it: a control group in use would remain."""
            end_members(self._get_pid())
            super().terminate()

    return LimitedContainer


def remove(api: Any, owner: str | None = None) -> list[str]:
    """Remove an owner's containers, by default all, and their programs; return their names."""
    removed = []
    label = containers.LABEL if owner is None else f"{containers.LABEL}={owner}"
    for container in api.containers(all=True, filters={"label": label}):
        end_members(api.inspect_container(container)["State"]["Pid"])
        api.remove_container(container, force=True, v=True)
        removed.append(container["Names"][0].lstrip("/"))
    return removed


@contextmanager
def owned(api: Any, owner: str) -> Iterator[None]:
    """Remove an owner's containers after the block, also after an error."""
    try:
        yield
    finally:
        remove(api, owner)


def end_members(pid: int) -> None:
    """Kill all processes in a container's control group except its first, `pid` (0: none)."""
    if pid == 0:
        return
    files = containers.cgroup_files(pid)
    deadline = time.monotonic() + MEMBERS_END_S
    while time.monotonic() < deadline:
        members: set[int] = set()
        with contextlib.suppress(OSError):  # the container has ended
            for file in files:
                members |= {int(line) for line in file.read_text().split()}
        members -= {pid, 0}
        if not members:
            return
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        time.sleep(MEMBERS_POLL_S)


def replicate(job: dict[str, Any], hosts: type) -> dict[str, Any]:
    """Measure one replicate into the job's `raw` folder, and watch the machine meanwhile."""
    gc.disable()  # as in a guest: collections read the clock
    condition = Condition.from_json(job["condition"])
    with bare_hosts(hosts) as bare, stage(bare, condition) as ready:
        return measure.replicate(ready, job, JOB, watch.Watch())


if __name__ == "__main__":
    sys.exit(main())
