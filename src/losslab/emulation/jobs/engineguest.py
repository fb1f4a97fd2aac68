"""First program of a guest with containers: start Docker's engine, run the job, power off.

The guest is that of `backends.virtual`; its emulated hosts are Docker containers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from losslab.emulation import containers, measure, netns
from losslab.emulation.jobs import guest
from losslab.emulation.jobs.guest import Job, serve
from losslab.emulation.measure import BareHosts, stage
from losslab.errors import HostError
from losslab.study.condition import Condition

IMAGE = Path("/mnt/image")
IMAGE_NAME = "losslab-host:guest"
OWNER = "losslab"
ENGINE_START_S = 120.0
ENGINE_POLL_S = 0.05
SOCKET = "/run/docker.sock"
# Beginnings of their names: the engine, its supervisor, and a shim for each container.
ENGINE_PROCESSES = ("dockerd", "containerd")
ENGINE = [
    "dockerd",
    # The engine creates and runs containers, and must not change the network.
    "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
    "--ip-masq=false",
    "--storage-driver=overlay2", "--exec-opt=native.cgroupdriver=cgroupfs",
    "--data-root=/run/docker-data", "--exec-root=/run/docker-exec",
    "--pidfile=/run/docker.pid", f"--host=unix://{SOCKET}",
]  # fmt: skip


def bare_hosts() -> BareHosts:
    """Start the engine and the containers of the path."""
    netns.write_sysctl("net.ipv4.tcp_mem", guest.TCP_MEM_PAGES)
    # Network namespaces other than the first may only use allowed algorithms.
    available = netns.read_sysctl("net.ipv4.tcp_available_congestion_control")
    netns.write_sysctl("net.ipv4.tcp_allowed_congestion_control", available)
    # No open file may be in the job's folder: see `guest.serve`.
    api = guest.UNTIL_POWER_OFF.enter_context(engine(Path("/run/engine.log")))
    binds = containers.import_skeleton(api, IMAGE_NAME, IMAGE) + containers.name_binds(IMAGE)
    binds += ["/mnt/losslab:/mnt/losslab:ro", "/mnt/out:/mnt/out:rw"]
    place = containers.Place(OWNER, IMAGE_NAME, tuple(binds), in_guest=True)
    context = measure.bare_hosts(containers.host_class(place), disposable=True)
    return guest.UNTIL_POWER_OFF.enter_context(context)


def prepare(bare: BareHosts, spec: Job) -> Callable[[Job], dict[str, Any]]:
    """Set up the containers for a condition, and stop the engine, which has no more to do."""
    context = stage(bare, Condition.from_json(spec["condition"]))
    ready = guest.UNTIL_POWER_OFF.enter_context(context)
    version = containers.client().version()["Version"]
    stop_engine()

    def run(job: Job) -> dict[str, Any]:
        result = guest.replicate(ready, job)
        result["machine"]["docker"] = version
        return result

    return run


def stop_engine() -> None:
    """Stop the engine's processes: their timers would otherwise disturb the hosts' programs."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (folder / "comm").read_text().startswith(ENGINE_PROCESSES):
            os.kill(int(folder.name), signal.SIGSTOP)


@contextmanager
def engine(log: Path) -> Iterator[Any]:
    """Run Docker's engine during the block; yield a client of it."""
    with log.open("wb") as out:
        process = subprocess.Popen(ENGINE, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + ENGINE_START_S
            while not Path(SOCKET).exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise HostError(
                        f"Docker's engine must start within {ENGINE_START_S:g} s, found in its "
                        f"log:\n{log.read_text(errors='replace')}"
                    )
                time.sleep(ENGINE_POLL_S)
            yield containers.client()
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    serve(bare_hosts, prepare)
