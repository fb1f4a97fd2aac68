"""Shell in the guest, in which each emulated host's name is a command that runs others there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from losslab.emulation import hosts
from losslab.emulation.measure import Stage
from losslab.emulation.plan import make_plan
from losslab.emulation.topology import HOSTS, RECEIVER_ADDRESS

COMMANDS = Path("/tmp/hosts")  # in the guest's tmpfs

BANNER = """
    sender ---- r1 ==== r2 ---- receiver        forward; == is the bottleneck
                 |      (reverse, symmetric)
                r3 ------------- receiver        reverse, asymmetric

Put a host's name before a command to run it there:
    sender ping -c 3 {receiver}
    r1 tc -s qdisc          receiver ip route
    receiver iperf3 -s -D;  sender iperf3 -c {receiver} -t 5;  sender ss -ti
The path: {path}, {rate_mbit:g} Mbit/s, RTT {rtt_ms:g} ms, buffer {buffer_packets} packets,
loss {loss_percent:g} %, {algorithm}. `exit` or Ctrl-D ends the shell.
"""


def run_shell(ready: Stage, seed: int, command: str | None, folder: Path) -> int:
    """Run a command (output to output.txt), or a shell on the console; return its exit status."""
    condition = ready.condition
    plan = make_plan(condition, seed)
    hosts.shape(plan.hosts, ready.handles)
    violations = hosts.deviations(plan.hosts, hosts.read_back(plan.hosts, ready.handles))
    _write_commands({name: node.pid for name, node in ready.nodes.items()})
    environment = os.environ | {"PATH": f"{COMMANDS}:{os.environ['PATH']}", "TERM": "vt100"}
    if command is not None:
        with (folder / "output.txt").open("w") as out:
            return subprocess.run(
                ["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=environment, check=False,
            ).returncode  # fmt: skip
    banner = BANNER.format(receiver=RECEIVER_ADDRESS, **condition.to_json())
    banner += "".join(f"\nWARNING: {violation}" for violation in violations)
    start = Path("/tmp/bashrc")
    start.write_text(f"cat <<'BANNER'\n{banner}\nBANNER\nPS1='losslab> '\n")
    with Path("/dev/tty0").open("r+b", buffering=0) as terminal:
        return subprocess.run(
            ["setsid", "--ctty", "--wait", "bash", "--rcfile", str(start), "-i"],
            stdin=terminal, stdout=terminal, stderr=terminal, env=environment, check=False,
        ).returncode  # fmt: skip


def _write_commands(pids: dict[str, int]) -> None:
    COMMANDS.mkdir()
    for host in HOSTS:
        path = COMMANDS / host
        path.write_text(f'#!/bin/sh\nexec nsenter --net=/proc/{pids[host]}/ns/net -- "$@"\n')
        path.chmod(0o755)
