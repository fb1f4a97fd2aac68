"""The first program of a guest that runs containers: an engine, the job, and power off.

The guest of `backends.virtual`, with Docker containers as the emulated hosts.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from losslab.emulation import containers, netns
from losslab.emulation.jobs.guest import JOB, RB_POWER_OFF, TCP_MEM_PAGES
from losslab.emulation.measure import measure
from losslab.emulation.outcome import write_failure, write_result
from losslab.errors import HostError
from losslab.study.condition import Condition

IMAGE = Path("/mnt/image")
IMAGE_NAME = "losslab-host:guest"
OWNER = "losslab"
ENGINE_START_S = 120.0
ENGINE_POLL_S = 0.05
SOCKET = "/run/docker.sock"
ENGINE = [
    "dockerd",
    # It is to make and run containers, and to leave the network alone.
    "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
    "--ip-masq=false",
    "--storage-driver=overlay2", "--exec-opt=native.cgroupdriver=cgroupfs",
    "--data-root=/run/docker-data", "--exec-root=/run/docker-exec",
    "--pidfile=/run/docker.pid", f"--host=unix://{SOCKET}",
]  # fmt: skip


def main() -> None:
    """Run the job; whatever happens, leave a result and power off."""
    try:
        (JOB / "started").touch()
        job = json.loads((JOB / "job.json").read_text())
        netns.write_sysctl("net.ipv4.tcp_mem", TCP_MEM_PAGES)
        # A namespace that is not the first may have these only.
        available = netns.read_sysctl("net.ipv4.tcp_available_congestion_control")
        netns.write_sysctl("net.ipv4.tcp_allowed_congestion_control", available)
        with engine(JOB / "engine.log") as api:
            write_result(_replicate(job, api), JOB / "result.json")
    except BaseException as error:
        write_failure(error, JOB / "result.json")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.sync()
        ctypes.CDLL(None).reboot(RB_POWER_OFF)


@contextmanager
def engine(log: Path) -> Iterator[Any]:
    """Run Docker's engine for the length of the block; give a client of it."""
    with log.open("wb") as out:
        process = subprocess.Popen(ENGINE, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + ENGINE_START_S
            while not Path(SOCKET).exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise HostError(
                        f"Docker's engine must start, found:\n{log.read_text(errors='replace')}"
                    )
                time.sleep(ENGINE_POLL_S)
            yield containers.client()
        finally:
            process.kill()
            process.wait()


def _replicate(job: dict[str, Any], api: Any) -> dict[str, Any]:
    """Measure one replicate into the job's `raw` folder."""
    raw = JOB / "raw"
    raw.mkdir()
    binds = containers.import_skeleton(api, IMAGE_NAME, IMAGE) + containers.name_binds(IMAGE)
    binds += ["/mnt/losslab:/mnt/losslab:ro", "/mnt/out:/mnt/out:rw"]
    place = containers.Place(OWNER, IMAGE_NAME, tuple(binds))
    result = measure(
        Condition.from_json(job["condition"]),
        int(job["seed"]),
        raw,
        video=Path("/mnt/out/video.mp4") if job["video"] else None,
        trace=Path("/mnt/out/trace") if job["trace"] else None,
        host_class=containers.host_class(place),
        disposable=True,
    )
    result["machine"] = {
        "kernel": os.uname().release,
        "version": os.uname().version,
        "docker": api.version()["Version"],
        "tcp_mem": netns.read_sysctl("net.ipv4.tcp_mem"),
        "initial_cwnd_packets": 10,  # TCP_INIT_CWND, net/tcp.h
    }
    return result


if __name__ == "__main__":
    main()
