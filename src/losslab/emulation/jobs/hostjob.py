"""A job on this machine's own kernel, in real time, with Mininet's plain hosts.

Runs as root in the host image, in namespaces of its own; see `backends.onhost`. The job's folder is
/mnt/out.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from losslab.emulation import measure, realtime
from losslab.emulation.measure import stage
from losslab.emulation.outcome import write_failure, write_result
from losslab.study.condition import Condition

JOB = Path("/mnt/out")

# What comes before a program, so that it may serve on any port and set up links of its namespace,
# and no more: root without this could change the machine. NET_ADMIN is for the trace-driven link's
# TUN device.
LIMITED = (
    "setpriv", "--bounding-set=-all,+net_admin,+net_bind_service", "--inh-caps=-all",
    "--ambient-caps=-all", "--no-new-privs", "--",
)  # fmt: skip


def main() -> int:
    """Run the job and leave a result."""
    (JOB / "started").touch()
    try:
        job = json.loads((JOB / "job.json").read_text())
        write_result(replicate(job, host_class()), JOB / "result.json")
    except Exception as error:
        write_failure(error, JOB / "result.json")
    return 0


def host_class() -> type:
    """Make the class of Mininet's hosts whose programs are limited."""
    from mininet.net import Mininet
    from mininet.node import Host

    # Or it would raise limits of the machine for good (fixLimits).
    Mininet.inited = True

    class LimitedHost(Host):  # type: ignore[misc]
        """A network namespace whose programs may not do what root may."""

        def popen(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
            """Start a program."""
            started: subprocess.Popen[bytes] = super().popen([*LIMITED, *command], **options)
            return started

    return LimitedHost


def replicate(job: dict[str, Any], hosts: type) -> dict[str, Any]:
    """Measure one replicate into the job's `raw` folder, and watch the machine meanwhile."""
    gc.disable()  # as in a guest: collections look at the clock
    with stage(Condition.from_json(job["condition"]), hosts) as ready:
        return measure.replicate(ready, job, JOB, realtime.Watch())


if __name__ == "__main__":
    sys.exit(main())
