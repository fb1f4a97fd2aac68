"""Job on this machine's own kernel, in real time, with Mininet hosts.

It runs as root in the host image, in its own namespaces; see `backends.onhost`. The job's folder is
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
from losslab.emulation.measure import bare_hosts, stage
from losslab.emulation.outcome import write_failure, write_result
from losslab.study.condition import Condition

JOB = Path("/mnt/out")

# Command prefix of programs. It permits them to serve on any port and to set up links of their
# namespace, and nothing else: root without this prefix could change the machine. NET_ADMIN is for
# the trace-driven link's TUN device.
LIMITED = (
    "setpriv", "--bounding-set=-all,+net_admin,+net_bind_service", "--inh-caps=-all",
    "--ambient-caps=-all", "--no-new-privs", "--",
)  # fmt: skip


def main() -> int:
    """Run the job and write its result or failure."""
    (JOB / "started").touch()
    try:
        job = json.loads((JOB / "job.json").read_text())
        write_result(replicate(job, host_class()), JOB / "result.json")
    except Exception as error:
        write_failure(error, JOB / "result.json")
    return 0


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


def replicate(job: dict[str, Any], hosts: type) -> dict[str, Any]:
    """Measure one replicate into the job's `raw` folder, and watch the machine meanwhile."""
    gc.disable()  # as in a guest: collections read the clock
    condition = Condition.from_json(job["condition"])
    with bare_hosts(hosts) as bare, stage(bare, condition) as ready:
        return measure.replicate(ready, job, JOB, realtime.Watch())


if __name__ == "__main__":
    sys.exit(main())
