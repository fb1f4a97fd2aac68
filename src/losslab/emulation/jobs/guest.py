"""The first program of a guest: prepare, wait to be copied, do the job, power off.

Runs as root of the pinned kernel, in virtual time, with the job's folder mounted on /mnt/out; the
job is described in job.json.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from losslab.emulation import measure, netns
from losslab.emulation.jobs.console import run_shell
from losslab.emulation.measure import Stage, stage
from losslab.emulation.outcome import write_failure, write_result
from losslab.emulation.plan import make_plan
from losslab.study.condition import Condition

# The job's folder: of the guest that waits it is one of its own, of each copy that of its job.
JOB = Path("/mnt/out")
# What is written there returns in every copy of this guest, with a random generator of its own. A
# kernel that does not have it has its job's seed from the beginning, and no copies.
SNAPSHOT = Path("/proc/snapshot")
RB_POWER_OFF = 0x4321FEDC  # linux/reboot.h

What = dict[str, Any]
# Sender and receiver share the guest's memory; TCP's own limits would make its size part of the
# result. Pages of 4 KiB: 4 GiB, more than the guest has. tcp(7), tcp_mem.
TCP_MEM_PAGES = "1048576 1048576 1048576"
ALLOWED_SYSCTL = "net.ipv4.tcp_allowed_congestion_control"
# What a job needs to its end, which is the power-off: nothing of it is taken down.
KEPT = contextlib.ExitStack()


def serve(prepare: Callable[[What], Callable[[What], What]]) -> None:
    """Do a job, whatever happens leave a result, and power off.

    `prepare` does what no seed decides, given what is known of the job then; it returns what does
    the rest, given the whole job, and returns its result.
    """
    # Collections would come after so many allocations, those of imports among them, and each looks
    # at the clock. The minute or so that this process has makes too little garbage to matter.
    gc.disable()
    try:
        # Without this, the instrument is at fault: see backends.virtual.
        (JOB / "started").touch()
        do, failure = None, None
        try:
            do = prepare(json.loads((JOB / "template.json").read_text()))
        except BaseException as error:
            failure = error  # every job's
        # No file of the folder may be open here.
        if SNAPSHOT.exists():
            SNAPSHOT.write_text("wait")
        (JOB / "started").touch()
        job = json.loads((JOB / "job.json").read_text())
        if do is None:
            raise failure or AssertionError
        write_result(do(job), JOB / "result.json")
    except BaseException as error:
        write_failure(error, JOB / "result.json")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.sync()
        ctypes.CDLL(None).reboot(RB_POWER_OFF)


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
