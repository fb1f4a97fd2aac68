"""The first program of the guest: do the job described in job.json, then power off.

Runs as root of the pinned kernel, in virtual time, with the job's folder mounted on /mnt/out.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

from losslab.emulation import netns
from losslab.emulation.jobs.console import run_shell
from losslab.emulation.measure import measure
from losslab.emulation.outcome import write_failure, write_result
from losslab.study.condition import Condition

JOB = Path("/mnt/out")
RB_POWER_OFF = 0x4321FEDC  # linux/reboot.h

# Sender and receiver share the guest's memory; TCP's own limits would make its size part of the
# result. Pages of 4 KiB: 4 GiB, more than the guest has. tcp(7), tcp_mem.
TCP_MEM_PAGES = "1048576 1048576 1048576"


def main() -> None:
    """Run the job; whatever happens, leave a result and power off."""
    try:
        # Without this, the instrument is at fault: see backends.virtual.
        (JOB / "started").touch()
        job = json.loads((JOB / "job.json").read_text())
        netns.write_sysctl("net.ipv4.tcp_mem", TCP_MEM_PAGES)
        if job["kind"] == "replicate":
            _replicate(job)
        elif job["kind"] == "shell":
            condition = Condition.from_json(job["condition"])
            status = run_shell(condition, job["seed"], job["command"], JOB)
            write_result({"status": status}, JOB / "result.json")
        elif job["kind"] == "command":
            subprocess.run(job["command"], cwd=JOB, check=True)
            write_result({"done": True}, JOB / "result.json")
    except BaseException as error:
        write_failure(error, JOB / "result.json")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.sync()
        ctypes.CDLL(None).reboot(RB_POWER_OFF)


def _replicate(job: dict[str, object]) -> None:
    """Measure one replicate into the job's `raw` folder."""
    raw = JOB / "raw"
    raw.mkdir()
    condition = job["condition"]
    assert isinstance(condition, dict)
    result = measure(
        Condition.from_json(condition),
        int(str(job["seed"])),
        raw,
        video=Path("/mnt/out/video.mp4") if job["video"] else None,
        trace=Path("/mnt/out/trace") if job["trace"] else None,
        disposable=True,
    )
    result["machine"] = {
        "kernel": os.uname().release,
        "version": os.uname().version,
        "tcp_mem": netns.read_sysctl("net.ipv4.tcp_mem"),
        "initial_cwnd_packets": 10,  # TCP_INIT_CWND, net/tcp.h
    }
    write_result(result, JOB / "result.json")


if __name__ == "__main__":
    main()
