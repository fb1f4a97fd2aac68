"""First program of a guest with containers: start Docker's engine, run the job, power off.

The guest is that of `backends.virtual`; its emulated hosts are Docker containers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from losslab.emulation import containers, hosts, measure
from losslab.emulation.jobs import guest
from losslab.emulation.jobs.guest import Job, serve
from losslab.emulation.kernellog import KernelLog
from losslab.emulation.measure import BareHosts, stage
from losslab.emulation.plan import make_plan
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
# Memory that the engine, its page cache and its clients used.
ENGINE_MIB, MIB_OF_ZEROS = 320, bytes(2**20)
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
VERSION = Path("/run/docker.version")
# An engine forgets its containers when it ends: the engine of a cell's more containers has folders
# of its own.
BARE, MORE = "bare", "more"


def command(folder: Path) -> list[str]:
    """Return the command that starts an engine with its files in a folder."""
    return [
        "dockerd",
        # The engine creates and runs containers, and must not change the network.
        "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
        "--ip-masq=false",
        "--storage-driver=overlay2", "--exec-opt=native.cgroupdriver=cgroupfs",
        f"--data-root={folder}/data", f"--exec-root={folder}/exec",
        f"--pidfile={folder}/docker.pid", f"--host=unix://{SOCKET}",
    ]  # fmt: skip


def bare_hosts() -> BareHosts:
    """Start the containers of the path, and end the engine, which cells rarely need."""
    hosts.write_sysctl("net.ipv4.tcp_mem", guest.TCP_MEM_PAGES)
    # Network namespaces other than the first may only use allowed algorithms.
    available = hosts.read_sysctl("net.ipv4.tcp_available_congestion_control")
    hosts.write_sysctl("net.ipv4.tcp_allowed_congestion_control", available)
    with engine(BARE) as (api, binds):
        VERSION.write_text(api.version()["Version"])
        place = containers.Place(OWNER, IMAGE_NAME, tuple(binds))
        context = measure.bare_hosts(containers.host_class(place), disposable=True)
        return guest.UNTIL_POWER_OFF.enter_context(context)


def prepare(bare: BareHosts, spec: Job) -> Callable[[Job], dict[str, Any]]:
    """Set up the containers for a condition."""
    condition = Condition.from_json(spec["condition"])
    guest.require_parameters(condition.parameters, guest.MODULES)
    adds_hosts = make_plan(condition, 0).background is not None
    with engine(MORE) if adds_hosts else nullcontext():
        ready = guest.UNTIL_POWER_OFF.enter_context(stage(bare, condition))
    log = KernelLog()
    printed = log.read()

    def run(job: Job) -> dict[str, Any]:
        result = guest.replicate(ready, job, spec.get("boot", ()), log, printed)
        result["machine"]["docker"] = VERSION.read_text()
        return result

    return run


def end_engine() -> None:
    """End the engine's processes, whose timers would disturb the hosts' programs.

    Without them, a fork also copies much less memory. The containers stay: their first processes
    become children of this one.
    """
    processes = [
        folder
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and (folder / "comm").read_text().startswith(ENGINE_PROCESSES)
    ]
    for folder in processes:
        os.kill(int(folder.name), signal.SIGKILL)
    # Parents first: their children become this process's.
    for folder in sorted(processes, key=lambda folder: int(folder.name)):
        while folder.exists():
            try:
                os.waitpid(int(folder.name), 0)
            except ChildProcessError:  # its parent has not ended
                time.sleep(ENGINE_POLL_S)


def zero_free_memory() -> None:
    """Fill the memory that the engine had with zeros, which forks need not copy.

    The host releases the zeros of a snapshot's memory (`backends.snapshot`).
    """
    DROP_CACHES.write_text("1")
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        for _ in range(ENGINE_MIB):
            file.write(MIB_OF_ZEROS)


@contextmanager
def engine(name: str) -> Iterator[tuple[Any, list[str]]]:
    """Run Docker's engine during the block; yield a client of it, and the binds of its image."""
    # No open file may be in the job's folder: see `guest.serve`.
    folder = Path("/run/docker") / name
    folder.mkdir(parents=True)
    log = folder / "engine.log"
    Path(SOCKET).unlink(missing_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command(folder), stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    deadline = time.monotonic() + ENGINE_START_S
    while not Path(SOCKET).exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise HostError(
                f"Docker's engine must start within {ENGINE_START_S:g} s, found in its "
                f"log:\n{log.read_text(errors='replace')}"
            )
        time.sleep(ENGINE_POLL_S)
    api = containers.client()
    binds = containers.import_skeleton(api, IMAGE_NAME, IMAGE) + containers.name_binds(IMAGE)
    yield api, [*binds, "/mnt/losslab:/mnt/losslab:ro", "/mnt/out:/mnt/out:rw"]
    end_engine()
    zero_free_memory()


if __name__ == "__main__":
    serve(bare_hosts, prepare)
