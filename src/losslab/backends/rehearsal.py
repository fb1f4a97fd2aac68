"""Try the emulated path without the qdiscs that this machine's kernel lacks.

Without netem there is nothing to measure. But containers, links, routes, sysctls, offloads, the
bottleneck's rate and buffer, programs in containers and the removal of it all can be tried.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import Any

from losslab import netns, offloads
from losslab.condition import Condition
from losslab.configuration import read_back, sysctls
from losslab.probes.ping import EchoProbe, measure_idle
from losslab.shaping import differences, shapers
from losslab.topology import HOSTS, INTERFACES, RECEIVER_ADDRESS, address_commands, emulated_hosts

SPARE_S = 30


def rehearse(
    condition: Condition, seed: int, host_class: type, lacking: list[str]
) -> dict[str, Any]:
    """Build the path, transfer for the condition's duration, and take the path down.

    Args:
        condition: The path; its algorithm must be one that namespaces may have.
        seed: The replicate's seed.
        host_class: The class of Mininet's hosts.
        lacking: Kinds of qdisc to do without.

    Returns:
        What was read back and seen: `differences`, `offloads`, `rtt_ms`, `goodput_mbit`.
    """
    wanted = [s for s in shapers(condition, seed) if s.kind not in lacking]
    with emulated_hosts(host_class) as hosts:
        pids = {name: host.pid for name, host in hosts.items()}
        for host in HOSTS:
            lines = [s.command() for s in wanted if s.where.host == host]
            with netns.inside(pids[host]):
                for name, value in sysctls(host, condition).items():
                    netns.write_sysctl(name, value)
                for end in INTERFACES:
                    if end.host == host:
                        offloads.set_all(end.name, condition.offloads)
                netns.run(["ip", "-batch", "-"], "\n".join(address_commands(host, condition.path)))
                if lines:
                    netns.run(["tc", "-batch", "-"], "\n".join(lines))
        state = read_back(pids, condition)
        with netns.inside(pids["sender"]):
            probe = EchoProbe(RECEIVER_ADDRESS)
        with contextlib.closing(probe):
            replies = measure_idle(probe, condition.rtt_ms)
        report = _transfer(hosts, condition.duration_s)
    return {
        "differences": differences(wanted, {host: state[host]["qdiscs"] for host in HOSTS}),
        "offloads": {host: state[host]["offloads"] for host in HOSTS},
        "sysctls": {host: state[host]["sysctls"] for host in HOSTS},
        "rtt_ms": min((rtt for _, rtt in replies), default=None),
        "goodput_mbit": report["end"]["sum_received"]["bits_per_second"] / 1e6,
    }


def _transfer(hosts: dict[str, Any], duration_s: float) -> dict[str, Any]:
    """Send with iperf3 from sender to receiver; return the client's report."""
    server = hosts["receiver"].popen(
        ["iperf3", "--server", "--one-off"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        client = hosts["sender"].popen(
            [
                "sh", "-c",
                # The server may not listen yet.
                f"for try in 1 2 3 4 5; do iperf3 --client {RECEIVER_ADDRESS} --json "
                f"--time {duration_s:g} > /tmp/report && break; sleep 0.2; done; cat /tmp/report",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip
        out, _ = client.communicate(timeout=duration_s + SPARE_S)
        report: dict[str, Any] = json.loads(out)
        return report
    finally:
        server.kill()
        server.wait()
