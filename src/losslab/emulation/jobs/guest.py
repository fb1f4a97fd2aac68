"""The first program of the guest: do the job described in job.json, then power off.

Runs as root of the pinned kernel, in virtual time, with the job's folder mounted on /mnt/out.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable

from losslab.emulation import measure, netns
from losslab.emulation.jobs.console import run_shell
from losslab.emulation.jobs.snapshot import JOB, What, serve
from losslab.emulation.measure import Stage, stage
from losslab.emulation.plan import make_plan
from losslab.study.condition import Condition

# Sender and receiver share the guest's memory; TCP's own limits would make its size part of the
# result. Pages of 4 KiB: 4 GiB, more than the guest has. tcp(7), tcp_mem.
TCP_MEM_PAGES = "1048576 1048576 1048576"
ALLOWED_SYSCTL = "net.ipv4.tcp_allowed_congestion_control"
# What a job needs to its end, which is the power-off: nothing of it is taken down.
KEPT = contextlib.ExitStack()


def prepare(what: What) -> Callable[[What], What]:
    """Make the hosts ready, where there will be any."""
    netns.write_sysctl("net.ipv4.tcp_mem", TCP_MEM_PAGES)
    if what["kind"] == "command":
        return _command
    condition = Condition.from_json(what["condition"])
    _allow(make_plan(condition, 0).algorithms)
    shell = what["kind"] == "shell"
    ready = KEPT.enter_context(stage(condition, disposable=True, loaded=not shell))
    if shell:
        return lambda job: {"status": run_shell(ready, job["seed"], job["command"], JOB)}
    return lambda job: replicate(ready, job)


def _allow(algorithms: set[str]) -> None:
    """Let hosts use algorithms of the kernel that it keeps from network namespaces.

    Those that do not say that everybody may use them (TCP_CONG_NON_RESTRICTED, net/tcp.h), as DCTCP
    and Vegas; what the kernel does not have is refused later, by its name.
    """
    available = set(netns.read_sysctl("net.ipv4.tcp_available_congestion_control").split())
    allowed = netns.read_sysctl(ALLOWED_SYSCTL).split()
    missing = sorted((algorithms & available) - set(allowed))
    if missing:
        netns.write_sysctl(ALLOWED_SYSCTL, " ".join([*allowed, *missing]))


def _command(job: What) -> What:
    subprocess.run(job["command"], cwd=JOB, check=True)
    return {"done": True}


def replicate(ready: Stage, job: What) -> What:
    """Measure one replicate into the job's `raw` folder."""
    result = measure.replicate(ready, job, JOB)
    result["machine"]["tcp_mem"] = netns.read_sysctl("net.ipv4.tcp_mem")
    return result


if __name__ == "__main__":
    serve(prepare)
