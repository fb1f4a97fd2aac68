"""Set up the hosts of a condition (addresses, sysctls, offloads, qdiscs) and read it all back."""

from __future__ import annotations

import json
from typing import Any

from losslab.emulation import netns, offloads
from losslab.emulation.shaping import differences, shapers
from losslab.emulation.topology import HOSTS, INTERFACES, ROUTERS, address_commands, routes
from losslab.errors import LosslabError
from losslab.study.condition import Condition

# Buffers that never limit: 512 MiB is the bandwidth-delay product of 10 Gbit/s over 400 ms.
MAX_SOCKET_BUFFER_BYTES = 512 * 2**20
ALGORITHM_SYSCTL = "net.ipv4.tcp_congestion_control"


def sysctls(host: str, condition: Condition) -> dict[str, str]:
    """List the sysctls of a host's namespace (Documentation/networking/ip-sysctl.rst)."""
    wanted = {
        "net.ipv6.conf.all.disable_ipv6": "1",
        "net.ipv6.conf.default.disable_ipv6": "1",
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.conf.default.rp_filter": "0",
        "net.ipv4.conf.all.send_redirects": "0",
        "net.ipv4.ip_forward": "1" if host in ROUTERS else "0",
    }
    wanted |= {f"net.ipv4.conf.{end.name}.rp_filter": "0" for end in INTERFACES if end.host == host}
    if host in ROUTERS:
        return wanted
    return wanted | {
        # Before any socket exists: one that is born under another default keeps its pacing.
        ALGORITHM_SYSCTL: condition.algorithm,
        "net.ipv4.tcp_no_metrics_save": "1",
        "net.ipv4.tcp_ecn": "0",
        # As large from the start: Linux grows a smaller buffer by what the program has read, which
        # is nothing while a hole waits to be filled. With loss and a long RTT the receiver's window
        # would hold back what the sender's congestion control allows.
        "net.ipv4.tcp_rmem": f"4096 {MAX_SOCKET_BUFFER_BYTES} {MAX_SOCKET_BUFFER_BYTES}",
        "net.ipv4.tcp_wmem": f"4096 16384 {MAX_SOCKET_BUFFER_BYTES}",
    }


def configure(pids: dict[str, int], condition: Condition, seed: int) -> None:
    """Make every host what the condition asks for.

    Args:
        pids: A process in each host's network namespace.
        condition: What to set up.
        seed: The replicate's seed.

    Raises:
        LosslabError: a command failed or spoke on stderr.
    """
    by_host: dict[str, list[str]] = {host: [] for host in HOSTS}
    for shaper in shapers(condition, seed):
        by_host[shaper.where.host].append(shaper.command())
    for host in HOSTS:
        with netns.inside(pids[host]):
            for name, value in sysctls(host, condition).items():
                netns.write_sysctl(name, value)
            for end in INTERFACES:
                if end.host == host:
                    offloads.set_all(end.name, condition.offloads)
            netns.run(["ip", "-batch", "-"], "\n".join(address_commands(host, condition.path)))
            if by_host[host]:
                netns.run(["tc", "-batch", "-"], "\n".join(by_host[host]))


def read_back(pids: dict[str, int], condition: Condition) -> dict[str, Any]:
    """Read what the kernel says of every host: qdiscs, routes, sysctls, offloads, link counters."""
    state: dict[str, Any] = {}
    for host in HOSTS:
        with netns.inside(pids[host]):
            # One process for both: in the guest, starting one costs more than what it does.
            listings = netns.run(["ip", "-json", "-statistics", "-batch", "-"], IP_LISTINGS)
            found_routes, found_links = _json_documents(listings)
            state[host] = {
                "qdiscs": json.loads(netns.run(["tc", "-statistics", "-json", "qdisc", "show"])),
                "routes": found_routes,
                "links": {
                    link["ifname"]: {side: link["stats64"][side] for side in ("rx", "tx")}
                    for link in found_links
                },
                "sysctls": {n: netns.read_sysctl(n) for n in sysctls(host, condition)},
                "offloads": {
                    end.name: offloads.read(end.name) for end in INTERFACES if end.host == host
                },
                "counters": netns.read_counters(),
            }
    return state


IP_LISTINGS = "route show\nlink show\n"


def _json_documents(text: str) -> list[Any]:
    """Split JSON documents that follow each other, as `ip -batch` prints them."""
    documents, at = [], 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        document, at = json.JSONDecoder().raw_decode(text, at)
        documents.append(document)
    return documents


def configuration_reasons(state: dict[str, Any], condition: Condition, seed: int) -> list[str]:
    """Compare the state read back with what was asked; a sentence for every difference."""
    reasons = differences(shapers(condition, seed), {host: state[host]["qdiscs"] for host in HOSTS})
    for host in HOSTS:
        for name, value in sysctls(host, condition).items():
            found = state[host]["sysctls"][name]
            if found != value:
                reasons.append(f"sysctl {name} on {host} must be {value}, found {found}")
        for name, features in state[host]["offloads"].items():
            for feature, found in features.items():
                if found != condition.offloads:
                    reasons.append(
                        f"{feature} of {name} on {host} must be {condition.offloads}, found {found}"
                    )
        devices = {r["dst"]: r["dev"] for r in state[host]["routes"] if "gateway" in r}
        expected = {destination: out.name for destination, out in routes(condition.path)[host]}
        if devices != expected:
            reasons.append(f"routes of {host} must be {expected}, found {devices}")
    return reasons


def require_algorithms(wanted: set[str]) -> None:
    """Refuse algorithms that the running kernel does not have."""
    available = netns.read_sysctl("net.ipv4.tcp_available_congestion_control").split()
    missing = sorted(wanted - set(available))
    if missing:
        raise LosslabError(
            f"algorithm must be one of the running kernel's ({', '.join(available)}), "
            f"found {', '.join(missing)}",
            hint="add its CONFIG_TCP_CONG_ line to containers/kernel/fragment.config",
        )
