"""What a measurement on the host must leave as it was: compare the machine before and after.

    python -m bench.host_state -- losslab measure --where host ...

runs the command and prints what differs afterwards; exit 0 when nothing does. As root, or what only
root sees is not compared.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from losslab.backends.preflight import ask_engine
from losslab.errors import LosslabError

# Counters and random numbers, which change by themselves.
RESTLESS = (
    "fs.dentry-state", "fs.file-nr", "fs.inode-nr", "fs.inode-state", "kernel.ns_last_pid",
    "kernel.random.", "kernel.pty.nr", "fs.quota.", "kernel.sched_domain.",
    "net.netfilter.nf_conntrack_count", "fs.aio-nr", "kernel.perf_event_max_sample_rate",
    "fs.epoll.", "vm.stat_refresh", "fs.mount-nr", "kernel.tainted",
)  # fmt: skip
# Of the modules that a cell's own set-up asks for, and those that these ask for.
OWN_MODULES = ("sch_", "cls_", "act_", "tcp_", "veth", "tun", "overlay", "inet_diag", "raw_diag")


def words(command: Sequence[str]) -> list[str]:
    """Return a command's lines; none where it cannot run."""
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
    """List the engine's containers, running or not; none where no engine answers."""
    try:
        found = ask_engine("/containers/json?all=true")
    except (OSError, http.client.HTTPException, ValueError, LosslabError):
        return []
    return sorted(name for container in found for name in container["Names"])


def packet_filter() -> list[str]:
    """List the rules of the packet filter, without the time and the counters they come with."""
    lines = words(["iptables-save"]) + words(["ip6tables-save"])
    return [re.sub(r" ?\[\d+:\d+\]", "", line) for line in lines if not line.startswith("#")]


def modules() -> list[str]:
    """List the kernel's modules; what a qdisc or an algorithm is made of stays loaded."""
    path = Path("/proc/modules")
    lines = path.read_text().splitlines() if path.exists() else []
    return sorted(line.split()[0] for line in lines if not line.startswith(OWN_MODULES))


def control_groups() -> list[str]:
    """List the control groups of containers."""
    root = Path("/sys/fs/cgroup")
    return sorted({str(p.name) for p in root.glob("**/docker/*") if p.is_dir()})


def state() -> dict[str, list[str]]:
    """Describe the machine."""
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
    """Say what came and what went."""
    found = []
    for what, was in before.items():
        found += [f"{what}: gone: {item}" for item in was if item not in after[what]]
        found += [f"{what}: new: {item}" for item in after[what] if item not in was]
    return found


def main() -> int:
    """Describe the machine before and after a command, and print the differences."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.host_state", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("command", nargs="+", help="a program with its options, after --")
    command = parser.parse_args().command
    before = state()
    status = subprocess.run(command, check=False).returncode
    found = differences(before, state())
    print(f"exit status {status}; " + ("nothing left behind" if not found else "left behind:"))
    for line in found:
        print(f"  {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
