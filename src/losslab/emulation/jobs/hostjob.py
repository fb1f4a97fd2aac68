"""Job on this machine's own kernel, in real time, with Mininet hosts or containers of its engine.

It runs as root in the host image, or with containers in the engine image, in its own namespaces;
see `backends.onhost`. The job's folder is /mnt/out.
"""

from __future__ import annotations

import gc
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from losslab.emulation import containers, measure, realtime
from losslab.emulation.measure import bare_hosts, stage
from losslab.emulation.outcome import write_failure, write_result
from losslab.study.condition import Condition

JOB = Path("/mnt/out")
IMAGE = Path("/mnt/image")  # the host image of containers

# Command prefix of programs. It permits them to serve on any port and to set up links of their
# namespace, and nothing else: root without this prefix could change the machine. NET_ADMIN is for
# the trace-driven link's TUN device.
LIMITED = (
    "setpriv", "--bounding-set=-all,+net_admin,+net_bind_service", "--inh-caps=-all",
    "--ambient-caps=-all", "--no-new-privs", "--",
)  # fmt: skip


def main() -> int:
    """Run the job, and write its result or failure."""
    signal.signal(signal.SIGTERM, _interrupted)
    (JOB / "started").touch()
    try:
        job = json.loads((JOB / "job.json").read_text())
        result = _in_containers(job) if "owner" in job else replicate(job, host_class())
        write_result(result, JOB / "result.json")
    except Exception as error:
        write_failure(containers.of_engine(error) or error, JOB / "result.json")
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
        return {"removed": containers.remove(api, job["owner"])}
    # Jobs run one at a time, so containers found here are of runs that were killed.
    for leftover in containers.remove(api):
        print(f"removed {leftover}, left over from a killed run")
    with containers.owned(api, job["owner"]):
        # A guest has the image's files as its root; the engine needs them once.
        if not containers.has_image(api, job["image"]):
            command = ["tar", "-C", str(IMAGE), "-c", "."]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
                containers.import_image(api, job["image"], tar.stdout)
        binds = [*job["binds"], *containers.name_binds(Path(job["image_root"]))]
        place = containers.Place(job["owner"], job["image"], tuple(binds), LIMITED)
        result = replicate(job, containers.host_class(place))
        result["machine"]["docker"] = api.version()["Version"]
        return result


def replicate(job: dict[str, Any], hosts: type) -> dict[str, Any]:
    """Measure one replicate into the job's `raw` folder, and watch the machine meanwhile."""
    gc.disable()  # as in a guest: collections read the clock
    condition = Condition.from_json(job["condition"])
    with bare_hosts(hosts) as bare, stage(bare, condition) as ready:
        return measure.replicate(ready, job, JOB, realtime.Watch())


if __name__ == "__main__":
    sys.exit(main())
