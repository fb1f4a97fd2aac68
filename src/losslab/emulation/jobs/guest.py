"""First program of a guest: prepare, wait in the snapshot, run the job, power off.

It runs as root under the pinned kernel, in virtual time. The job's folder is mounted on /mnt/out
and describes the job in job.json.
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

# The job's folder. The snapshot has a folder of its own, each fork has that of its job.
JOB = Path("/mnt/out")
# A write to it returns in each fork of the guest, with the random generator seeded for its job. A
# kernel without this file is seeded for its job at boot, and does not fork.
SNAPSHOT = Path("/proc/snapshot")
RB_POWER_OFF = 0x4321FEDC  # linux/reboot.h

Job = dict[str, Any]  # job.json, or the part of it that the snapshot has
# Sender and receiver share the guest's memory. With TCP's default limits, results would depend on
# its size. In pages of 4 KiB: 4 GiB, more than the guest has. tcp(7), tcp_mem.
TCP_MEM_PAGES = "1048576 1048576 1048576"
ALLOWED_SYSCTL = "net.ipv4.tcp_allowed_congestion_control"
# Contexts that stay open until the power-off, because nothing needs to be taken down.
UNTIL_POWER_OFF = contextlib.ExitStack()


def serve(prepare: Callable[[Job], Callable[[Job], dict[str, Any]]]) -> None:
    """Run a job, write its result or failure, and power off.

    `prepare` does everything that does not depend on the seed, with the snapshot's part of the job.
    It returns a function that does the rest with the whole job, and returns the result.
    """
    # Python collects garbage after a number of allocations, which depends on the imports, and each
    # collection reads the clock. This process runs for about a minute and makes little garbage.
    gc.disable()
    try:
        # If this file is missing, backends.virtual blames the instrument.
        (JOB / "started").touch()
        run, failure = None, None
        try:
            run = prepare(json.loads((JOB / "template.json").read_text()))
        except BaseException as error:
            failure = error  # of every fork's job
        # No file of the folder may be open here.
        if SNAPSHOT.exists():
            SNAPSHOT.write_text("wait")
        (JOB / "started").touch()
        job = json.loads((JOB / "job.json").read_text())
        if run is None:
            raise failure or AssertionError
        write_result(run(job), JOB / "result.json")
    except BaseException as error:
        write_failure(error, JOB / "result.json")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.sync()
        ctypes.CDLL(None).reboot(RB_POWER_OFF)


def prepare(spec: Job) -> Callable[[Job], dict[str, Any]]:
    """Set up the hosts, if the job needs them."""
    netns.write_sysctl("net.ipv4.tcp_mem", TCP_MEM_PAGES)
    if spec["kind"] == "command":
        return _command
    condition = Condition.from_json(spec["condition"])
    _allow(make_plan(condition, 0).algorithms)
    shell = spec["kind"] == "shell"
    ready = UNTIL_POWER_OFF.enter_context(stage(condition, disposable=True, loaded=not shell))
    if shell:
        return lambda job: {"status": run_shell(ready, job["seed"], job["command"], JOB)}
    return lambda job: replicate(ready, job)


def _allow(algorithms: set[str]) -> None:
    """Allow the hosts' network namespaces to use restricted algorithms of the kernel.

    An algorithm without TCP_CONG_NON_RESTRICTED (net/tcp.h), such as DCTCP or Vegas, is restricted.
    A later check refuses algorithms that the kernel lacks, by name.
    """
    available = set(netns.read_sysctl("net.ipv4.tcp_available_congestion_control").split())
    allowed = netns.read_sysctl(ALLOWED_SYSCTL).split()
    missing = sorted((algorithms & available) - set(allowed))
    if missing:
        netns.write_sysctl(ALLOWED_SYSCTL, " ".join([*allowed, *missing]))


def _command(job: Job) -> dict[str, Any]:
    subprocess.run(job["command"], cwd=JOB, check=True)
    return {"done": True}


def replicate(ready: Stage, job: Job) -> dict[str, Any]:
    """Measure one replicate into the job's `raw` folder."""
    result = measure.replicate(ready, job, JOB)
    result["machine"]["tcp_mem"] = netns.read_sysctl("net.ipv4.tcp_mem")
    return result


if __name__ == "__main__":
    serve(prepare)
