"""Comparison of the machine's state before and after a measurement on the host.

Without root, state that only root can read is not compared.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from losslab.errors import LosslabError
from losslab.tools.realtime.preflight import ask_engine

# Counters and random numbers change by themselves.
RESTLESS = (
    "fs.dentry-state", "fs.file-nr", "fs.inode-nr", "fs.inode-state", "kernel.ns_last_pid",
    "kernel.random.", "kernel.pty.nr", "fs.quota.", "kernel.sched_domain.",
    "net.netfilter.nf_conntrack_count", "fs.aio-nr", "kernel.perf_event_max_sample_rate",
    "fs.epoll.", "vm.stat_refresh", "fs.mount-nr", "kernel.tainted",
)  # fmt: skip
# Modules that a cell's set-up loads, and their dependencies.
OWN_MODULES = ("sch_", "cls_", "act_", "tcp_", "veth", "tun", "overlay", "inet_diag", "raw_diag")


def words(command: Sequence[str]) -> list[str]:
    """Return a command's lines of output; none if it cannot run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def sysctls() -> list[str]:
    """List every sysctl of this namespace as NAME = VALUE."""
    root, found = Path("/proc/sys"), []
    for folder, _, files in os.walk(root):
        for file in files:
            path = Path(folder) / file
            name = str(path.relative_to(root)).replace("/", ".")
            if name.startswith(RESTLESS):
                continue
            try:
                found.append(f"{name} = {path.read_text().strip()}")
            except OSError:
                continue
    return sorted(found)


def namespaces() -> list[str]:
    """List the network namespaces that a process lives in."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.add(os.readlink(entry / "ns" / "net"))
            except OSError:
                continue
    return sorted(found)


def containers() -> list[str]:
    """List the engine's containers, running or not; none if no engine answers."""
    try:
        found = ask_engine("/containers/json?all=true")
    except (OSError, http.client.HTTPException, ValueError, LosslabError):
        return []
    return sorted(name for container in found for name in container["Names"])


def packet_filter() -> list[str]:
    """List the rules of the packet filter, without times and counters."""
    lines = words(["iptables-save"]) + words(["ip6tables-save"])
    return [re.sub(r" ?\[\d+:\d+\]", "", line) for line in lines if not line.startswith("#")]


def modules() -> list[str]:
    """List the kernel's modules, except qdiscs and algorithms, which remain loaded."""
    path = Path("/proc/modules")
    lines = path.read_text().splitlines() if path.exists() else []
    return sorted(line.split()[0] for line in lines if not line.startswith(OWN_MODULES))


def control_groups() -> list[str]:
    """List the control groups of containers."""
    root = Path("/sys/fs/cgroup")
    return sorted({str(p.name) for p in root.glob("**/docker/*") if p.is_dir()})


def state() -> dict[str, list[str]]:
    """Return the state of the machine."""
    links = [link["ifname"] for line in words(["ip", "-json", "link"]) for link in json.loads(line)]
    return {
        "containers": containers(),
        "links": sorted(links),
        "network namespaces": namespaces(),
        "control groups": control_groups(),
        "mounts": sorted(
            line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()
        ),
        "sysctls": sysctls(),
        "packet filter": packet_filter(),
        "kernel modules": modules(),
    }


def differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """Return added and removed lines of the state."""
    found = []
    for what, was in before.items():
        found += [f"{what}: gone: {item}" for item in was if item not in after[what]]
        found += [f"{what}: new: {item}" for item in after[what] if item not in was]
    return found
