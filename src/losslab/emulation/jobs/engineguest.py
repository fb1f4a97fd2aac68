"""The first program of a guest that runs containers: an engine, the job, and power off.

The guest of `backends.virtual`, with Docker containers as the emulated hosts.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from losslab.emulation import containers, netns
from losslab.emulation.jobs import guest
from losslab.emulation.jobs.guest import What, serve
from losslab.emulation.measure import stage
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


def prepare(what: What) -> Callable[[What], What]:
    """Start the engine and the containers of a condition."""
    netns.write_sysctl("net.ipv4.tcp_mem", guest.TCP_MEM_PAGES)
    # A namespace that is not the first may have these only.
    available = netns.read_sysctl("net.ipv4.tcp_available_congestion_control")
    netns.write_sysctl("net.ipv4.tcp_allowed_congestion_control", available)
    # In no file of the job's folder: see `guest.serve`.
    api = guest.KEPT.enter_context(engine(Path("/run/engine.log")))
    binds = containers.import_skeleton(api, IMAGE_NAME, IMAGE) + containers.name_binds(IMAGE)
    binds += ["/mnt/losslab:/mnt/losslab:ro", "/mnt/out:/mnt/out:rw"]
    place = containers.Place(OWNER, IMAGE_NAME, tuple(binds))
    made = stage(Condition.from_json(what["condition"]), containers.host_class(place), True)
    ready = guest.KEPT.enter_context(made)
    version = api.version()["Version"]

    def do(job: What) -> What:
        result = guest.replicate(ready, job)
        result["machine"]["docker"] = version
        return result

    return do


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


if __name__ == "__main__":
    serve(prepare)
