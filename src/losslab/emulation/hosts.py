"""Set up hosts from a plan (addresses, sysctls, offloads, qdiscs), and read their state back."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import netns
from losslab.emulation.qdiscs import differences
from losslab.emulation.topology import ECN, ECN_SYSCTL
from losslab.errors import LosslabError

if TYPE_CHECKING:
    from losslab.emulation.batch import Handle
    from losslab.emulation.plan import HostPlan

# Message of tc if the kernel does not have a qdisc.
UNKNOWN_KIND = "qdisc kind is unknown"
# A sysctl that kernels with Accurate ECN have (ip-sysctl.rst).
ACCURATE_ECN_SYSCTL = "net.ipv4.tcp_ecn_option"
SETTLE_S = 0.5
SETTLE_TRIES = 20


def apply(plans: Mapping[str, HostPlan], handles: Mapping[str, Handle]) -> None:
    """Set up every host except its qdiscs, which depend on the seed."""
    for host, plan in plans.items():
        with netns.inside(handles[host].pid):
            for name, value in plan.sysctls.items():
                netns.write_sysctl(name, value)
            for interface in plan.interfaces:
                netns.set_offloads(interface, plan.offloads, plan.udp_offloads)
        handles[host].ip.do(plan.ip_commands)


def shape(plans: Mapping[str, HostPlan], handles: Mapping[str, Handle]) -> None:
    """Create the planned qdiscs on every host."""
    for host, plan in plans.items():
        try:
            if plan.qdiscs:
                handles[host].tc.do([qdisc.command() for qdisc in plan.qdiscs])
        except LosslabError as error:
            needs = next((q.needs for q in plan.qdiscs if q.needs), None)
            if needs is None or UNKNOWN_KIND not in error.message:
                raise
            raise LosslabError(f"{needs[0]}, found {os.uname().release}", hint=needs[1]) from error
        with netns.inside(handles[host].pid):
            for qdisc in plan.qdiscs:
                qdisc.complete()


def read_back(plans: Mapping[str, HostPlan], handles: Mapping[str, Handle]) -> dict[str, Any]:
    """Read the state of every host: qdiscs, routes, sysctls, offloads and counters."""
    state: dict[str, Any] = {}
    for host, plan in plans.items():
        found_routes, found_links = handles[host].ip.ask(["route show", "link show"], 2)
        classful = [qdisc.where.name for qdisc in plan.qdiscs if qdisc.classes]
        listings = ["qdisc show", *(f"class show dev {name}" for name in classful)]
        found_qdiscs, *found_classes = handles[host].tc.ask(listings, len(listings))
        with netns.inside(handles[host].pid):
            state[host] = {
                "qdiscs": found_qdiscs,
                "classes": dict(zip(classful, found_classes, strict=True)),
                "routes": found_routes,
                "links": {
                    link["ifname"]: {side: link["stats64"][side] for side in ("rx", "tx")}
                    for link in found_links
                },
                "sysctls": {name: netns.read_sysctl(name) for name in plan.sysctls},
                "offloads": {
                    name: netns.read_offloads(name, plan.udp_offloads) for name in plan.interfaces
                },
                "counters": netns.read_counters(),
            }
            for qdisc in plan.qdiscs:
                qdisc.read_into(state[host])
    return state


def read_back_settled(
    plans: Mapping[str, HostPlan], handles: Mapping[str, Handle], rtt_ms: float
) -> dict[str, Any]:
    """Read the state of every host once all queues are empty."""
    state: dict[str, Any] = {}
    for _ in range(SETTLE_TRIES):
        time.sleep(SETTLE_S + 4 * rtt_ms / 1e3)
        state = read_back(plans, handles)
        backlog = sum(q.get("backlog", 0) for host in state.values() for q in host["qdiscs"])
        if backlog == 0:
            break
    return state


def deviations(plans: Mapping[str, HostPlan], state: Mapping[str, Any]) -> list[str]:
    """List the deviations of the state read back from the plan."""
    qdiscs = [qdisc for plan in plans.values() for qdisc in plan.qdiscs]
    classes = {name: shown for host in plans for name, shown in state[host]["classes"].items()}
    violations = differences(qdiscs, {host: state[host]["qdiscs"] for host in plans}, classes)
    for host, plan in plans.items():
        for qdisc in plan.qdiscs:
            violations += qdisc.deviations(state[host])
        for name, value in plan.sysctls.items():
            found = state[host]["sysctls"][name]
            if found != value:
                violations.append(f"sysctl {name} on {host} must be {value}, found {found}")
        for name, features in state[host]["offloads"].items():
            for feature, found in features.items():
                if found != plan.offloads:
                    violations.append(
                        f"{feature} of {name} on {host} must be {plan.offloads}, found {found}"
                    )
        devices = {r["dst"]: r["dev"] for r in state[host]["routes"] if "gateway" in r}
        if devices != plan.routes:
            violations.append(f"routes of {host} must be {plan.routes}, found {devices}")
    return violations


def require_ecn(plans: Mapping[str, HostPlan]) -> None:
    """Refuse Accurate ECN on a kernel without it."""
    accurate = any(plan.sysctls.get(ECN_SYSCTL) == ECN["accurate"] for plan in plans.values())
    if accurate and not Path("/proc/sys", *ACCURATE_ECN_SYSCTL.split(".")).exists():
        raise LosslabError(
            "ecn accurate needs a kernel with Accurate ECN (7.0 or later), found "
            f"{os.uname().release} without {ACCURATE_ECN_SYSCTL}",
            hint="use the kernel 7.2, or ecn on",
        )


def require_algorithms(algorithms: set[str]) -> None:
    """Refuse congestion controls that the running kernel does not have."""
    available = netns.read_sysctl("net.ipv4.tcp_available_congestion_control").split()
    missing = sorted(algorithms - set(available))
    if missing:
        raise LosslabError(
            f"algorithm must be one of the running kernel's ({', '.join(available)}), "
            f"found {', '.join(missing)}",
            hint="add its CONFIG_TCP_CONG_ line to containers/kernel/fragment.config",
        )
