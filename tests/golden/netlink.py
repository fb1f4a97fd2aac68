"""Recorded replies of a guest's kernel to the netlink probes, and output of `ss` and `tc`."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

from losslab.emulation.topology import RECEIVER_ADDRESS, bottleneck

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).resolve().parent / "netlink.json"

BOTTLENECK = bottleneck().name
PATH = "--algorithm bbr --rate-mbit 10 --rtt-ms 20 --buffer-packets 20"
FLOW = (
    "receiver iperf3 --server --daemon; sleep 1; "
    f"sender iperf3 --client {RECEIVER_ADDRESS} --cport 40001 --time 3 --congestion bbr "
    ">/dev/null & sleep 2; "
)
# Runs in the guest. Virtual time stands still between dump and tool: both read the same state.
PROGRAM = """
import json, subprocess, sys
from losslab.emulation import probes

class Tap:
    def __init__(self, sock):
        self.sock, self.heard = sock, []
    def send(self, data):
        self.said = data
        return self.sock.send(data)
    def recv(self, size):
        self.heard.append(self.sock.recv(size))
        return self.heard[-1]

if sys.argv[1] == "tcp":
    probe, tool = probes.TcpProbe(), ["ss", "-tinH", "state", "established"]
else:
    probe, tool = probes.QueueProbe(sys.argv[1]), ["tc", "-s", "-j", "qdisc", "show"]
probe._socket = tap = Tap(probe._socket)
probe.sample() if sys.argv[1] == "tcp" else probe.sample(0.0)
said = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
index = getattr(probe, "_index", None)
heard = [reply.hex() for reply in tap.heard]
print(json.dumps({"request": tap.said.hex(), "replies": heard, "index": index, "tool": said}))
"""


def record() -> None:
    """Query the kernel of a guest during a transfer, and record its replies."""
    program = shlex.quote(PROGRAM)
    command = f"{FLOW} sender python3 -c {program} tcp; r1 python3 -c {program} {BOTTLENECK}; wait"
    done = subprocess.run(
        [sys.executable, "-m", "losslab.cli", "shell", *PATH.split(), "-c", command],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    tcp, queue = lines
    FILE.write_text(json.dumps({"tcp": tcp, "queue": queue}, indent=1) + "\n")
