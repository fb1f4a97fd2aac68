"""Hosts: their network namespaces, `ip` and `tc`; set them up from a plan, read their state back.

Starting a process costs a guest about 10 ms of wall time, far more than its work. Each host
therefore has one `ip -batch` and one `tc -batch`, and offloads use the ethtool ioctl (constants:
linux/ethtool.h and linux/sockios.h).
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import re
import select
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from losslab.emulation.qdiscs import Qdisc, differences
from losslab.emulation.topology import ECN, ECN_SYSCTL
from losslab.errors import LosslabError, did_you_mean
from losslab.study.packetsizes import DEFAULT

SIOCETHTOOL = 0x8946
# feature: (ETHTOOL_G..., ETHTOOL_S...)
COMMANDS = {"tso": (0x1E, 0x1F), "gso": (0x23, 0x24), "gro": (0x2B, 0x2C)}
# Features without a command of their own are bits, numbered by the position of their names.
GSTRINGS, GSSET_INFO, GFEATURES, SFEATURES = 0x1B, 0x37, 0x3A, 0x3B
SS_FEATURES, GSTRING_BYTES = 4, 32
UDP_FEATURE = "tx-udp-segmentation"
VALUES = {"off": 0, "on": 1}


@contextmanager
def inside(pid: int) -> Iterator[None]:
    """Move this thread into the network namespace of process `pid` for the length of the block."""
    original = os.open("/proc/self/ns/net", os.O_RDONLY)
    target = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        os.setns(target, os.CLONE_NEWNET)
        yield
    finally:
        os.setns(original, os.CLONE_NEWNET)
        os.close(target)
        os.close(original)


def read_sysctl(name: str) -> str:
    """Read a sysctl of the current namespace; single spaces separate its fields."""
    return " ".join(_sysctl_file(name).read_text().split())


def write_sysctl(name: str, value: str) -> None:
    """Write a sysctl of the current namespace."""
    try:
        _sysctl_file(name).write_text(value)
    except OSError as error:
        raise LosslabError(f"sysctl {name} must accept {value!r}, found: {error}") from error


def _sysctl_file(name: str) -> Path:
    path = Path("/proc/sys") / name.replace(".", "/")
    if path.exists():
        return path
    others = [".".join(each.parts[3:]) for each in Path("/proc/sys/net").rglob("*")]
    raise LosslabError(
        f"sysctl must name what the kernel {os.uname().release} has in each network namespace, "
        f"found {name}{did_you_mean(name, others)}"
    )


def read_counters(folder: Path = Path("/proc/net"), ip6: bool = False) -> dict[str, int]:
    """Read the TCP and IP counters of a namespace, with the names of `nstat` (TcpRetransSegs)."""
    counters = {}
    if ip6:
        for line in (folder / "snmp6").read_text().splitlines():
            name, value = line.split()
            counters[name] = int(value)
    for file in ("snmp", "netstat"):
        lines = (folder / file).read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            prefix, *names_of = names.replace(":", "").split()
            for name, value in zip(names_of, values.split()[1:], strict=True):
                counters[prefix + name] = int(value)
    return counters


def _ethtool(interface_name: str, command: int, *words: int, room: int = 0) -> bytes:
    """Send an ethtool message of 32-bit words with `room` further bytes; return the reply."""
    message = array.array("B", struct.pack(f"={1 + len(words)}I", command, *words) + bytes(room))
    # struct ifreq: the name and a pointer to the message.
    request = struct.pack("16sP", interface_name.encode(), message.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, SIOCETHTOOL, request)
    return message.tobytes()


def _udp_bit(interface_name: str) -> tuple[int, int]:
    """Return the number of 32-bit words of features, and the bit of UDP segmentation."""
    found = _ethtool(interface_name, GSSET_INFO, 0, 1 << SS_FEATURES, 0, room=4)
    (count,) = struct.unpack_from("=I", found, 16)
    strings = _ethtool(interface_name, GSTRINGS, SS_FEATURES, 0, room=GSTRING_BYTES * count)[12:]
    names = [
        strings[at : at + GSTRING_BYTES].rstrip(b"\0").decode()
        for at in range(0, GSTRING_BYTES * count, GSTRING_BYTES)
    ]
    return (count + 31) // 32, names.index(UDP_FEATURE)


def set_offloads(interface_name: str, value: str, udp: bool = False) -> None:
    """Request all offloads, with `udp` also UDP segmentation; check with `read_offloads`."""
    for _, command in COMMANDS.values():
        _ethtool(interface_name, command, VALUES[value])
    if udp:
        words, bit = _udp_bit(interface_name)
        request = [0] * (2 * words)  # alternately: valid, requested
        request[2 * (bit // 32)] = 1 << bit % 32
        request[2 * (bit // 32) + 1] = VALUES[value] << bit % 32
        _ethtool(interface_name, SFEATURES, words, *request)


def read_offloads(interface_name: str, udp: bool = False) -> dict[str, str]:
    """Return the state of each offload, `on` or `off`; with `udp` also of UDP segmentation."""
    states = {
        feature: "on" if any(_ethtool(interface_name, command, 0)[4:]) else "off"
        for feature, (command, _) in COMMANDS.items()
    }
    if udp:
        words, bit = _udp_bit(interface_name)
        state = _ethtool(interface_name, GFEATURES, words, room=16 * words)
        # Fields of each word: available, requested, active, never changed.
        (active,) = struct.unpack_from("=I", state, 8 + 16 * (bit // 32) + 8)
        states["udp"] = "on" if active >> bit % 32 & 1 else "off"
    return states


# tc prints this for a qdisc that it does not know, also into JSON (print_unknown_opt,
# tc/tc_qdisc.c).
UNKNOWN_OPTIONS = re.compile(r"\[Unknown qdisc, optlen=\d+\] ?")
CHUNK_BYTES = 65_536
COMMAND_TIMEOUT_S = 60  # no command waits for the network, so a longer one hangs
# With -json, each `show` command prints one JSON document.
OPTIONS = ("-json", "-statistics", "-batch", "-")
# A short `show` command; its output means that the commands before it are done. `tc` must not show
# a single device: it would show only that one from then on (filter_ifindex, tc/tc_qdisc.c).
DONE = {"ip": "link show dev lo", "tc": "qdisc show"}


class Batch:
    """A persistent `ip -batch` or `tc -batch` process."""

    def __init__(self, program: str, pid: int) -> None:
        self._program = program
        with inside(pid):
            self._process = subprocess.Popen(
                [program, *OPTIONS],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip

    def do(self, lines: Sequence[str]) -> None:
        """Run commands that print nothing, and wait until they are done."""
        self.ask([*lines, DONE[self._program]], 1)

    def ask(self, lines: Sequence[str], listings: int) -> list[Any]:
        """Run commands, and return the parsed output of the `listings` show commands among them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        text = "\n".join(lines) + "\n"
        with contextlib.suppress(BrokenPipeError):  # it has ended; its stderr has the error
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        output, error = "", ""
        documents = _documents(output)
        while len(documents) < listings and (chunk := _read(self._process.stdout)):
            output += chunk.decode(errors="replace")
            documents = _documents(output)
        assert self._process.stderr is not None
        if len(documents) < listings:  # it has ended
            error = self._process.stderr.read().decode(errors="replace").strip()
        elif select.select([self._process.stderr], [], [], 0)[0]:
            error = _read(self._process.stderr).decode(errors="replace").strip()
        if error or len(documents) != listings:
            raise LosslabError(
                f"`{self._program} {' '.join(OPTIONS)}` must succeed without messages, found: "
                f"{error or output}",
                hint=f"its input was:\n{text}",
            )
        return documents

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        # Leaving the block waits for the process and closes its pipes. Closing stdin may flush.
        with contextlib.suppress(BrokenPipeError), self._process:
            pass


def _read(stream: Any) -> bytes:
    """Read the available bytes; none at the end of the stream."""
    if not select.select([stream], [], [], COMMAND_TIMEOUT_S)[0]:
        raise LosslabError(
            f"`ip` and `tc` must answer within {COMMAND_TIMEOUT_S} s, found no output"
        )
    return os.read(stream.fileno(), CHUNK_BYTES)


def _documents(text: str) -> list[Any]:
    """Return the complete JSON documents at the beginning of a text."""
    documents: list[Any] = []
    text = UNKNOWN_OPTIONS.sub("", text)
    with contextlib.suppress(json.JSONDecodeError):
        while rest := text.lstrip():
            document, end = json.JSONDecoder().raw_decode(rest)
            documents.append(document)
            text = rest[end:]
    return documents


@dataclass(frozen=True)
class Handle:
    """`ip` and `tc` of a host."""

    pid: int  # a process in its network namespace
    ip: Batch
    tc: Batch


@contextlib.contextmanager
def handles(pids: Mapping[str, int]) -> Iterator[dict[str, Handle]]:
    """Start `ip` and `tc` on every host for the length of the block."""
    with contextlib.ExitStack() as stack:

        def started(program: str, pid: int) -> Batch:
            return stack.enter_context(contextlib.closing(Batch(program, pid)))

        yield {
            host: Handle(pid, started("ip", pid), started("tc", pid)) for host, pid in pids.items()
        }


# Message of tc if the kernel does not have a qdisc.
UNKNOWN_KIND = "qdisc kind is unknown"
# A sysctl that kernels with Accurate ECN have (ip-sysctl.rst).
ACCURATE_ECN_SYSCTL = "net.ipv4.tcp_ecn_option"
SETTLE_S = 0.5
SETTLE_TRIES = 20


@dataclass(frozen=True)
class HostPlan:
    """Settings of a host, which must be read back."""

    ip_commands: list[str]  # `ip -batch` lines: addresses, permanent neighbours, routes
    routes: dict[str, str]  # outgoing interface by destination, without directly connected ones
    sysctls: dict[str, str]
    interfaces: list[str]
    offloads: str  # "on" or "off", for every interface
    qdiscs: list[Qdisc]
    udp_offloads: bool = False  # `offloads` includes UDP segmentation, which few programs use
    kernels_sysctls: list[str] = field(default_factory=list)  # recorded at the kernel's own values
    route_attributes: dict[str, int] = field(default_factory=dict)  # of each of `routes`
    mtu_bytes: int = DEFAULT.mtu_bytes  # of every interface
    routes6: dict[str, str] = field(default_factory=dict)  # of IPv6, as `routes`; empty: no IPv6


def apply(plans: Mapping[str, HostPlan], handles: Mapping[str, Handle]) -> None:
    """Set up every host except its qdiscs, which depend on the seed."""
    for host, plan in plans.items():
        if plan.routes6:
            # No neighbour discovery, duplicate address detection and reports of multicast groups,
            # whose packets would be part of the traffic.
            quiet = "link set {} arp off multicast off".format
            handles[host].ip.do([quiet(name) for name in plan.interfaces])
        with inside(handles[host].pid):
            for name, value in plan.sysctls.items():
                write_sysctl(name, value)
            for interface in plan.interfaces:
                set_offloads(interface, plan.offloads, plan.udp_offloads)
        handles[host].ip.do(plan.ip_commands)


def require_sysctls(plans: Mapping[str, HostPlan], handles: Mapping[str, Handle]) -> None:
    """Refuse sysctls that the kernel does not have, or of which it took another value."""
    for host, plan in plans.items():
        with inside(handles[host].pid):
            for name in (*plan.sysctls, *plan.kernels_sysctls):
                try:
                    present = read_sysctl(name)
                except OSError as error:
                    raise LosslabError(f"sysctl {name} must be readable, found: {error}") from error
                if (value := plan.sysctls.get(name, present)) != present:
                    raise LosslabError(
                        f"the kernel must take {name}={value} on {host}, found that it has "
                        f"{present}",
                        hint="write all its values, as `sysctl NAME` prints them",
                    )


def shape(plans: Mapping[str, HostPlan], handles: Mapping[str, Handle]) -> None:
    """Create the planned qdiscs on every host."""
    for host, plan in plans.items():
        try:
            if plan.qdiscs:
                handles[host].tc.do([qdisc.command() for qdisc in plan.qdiscs])
        except LosslabError as error:
            # Every kernel of losslab's has links, so the last one, below a link, is missing.
            needs = next((q.needs for q in reversed(plan.qdiscs) if q.needs), None)
            if needs is None or UNKNOWN_KIND not in error.message:
                raise
            raise LosslabError(f"{needs[0]}, found {os.uname().release}", hint=needs[1]) from error
        with inside(handles[host].pid):
            for qdisc in plan.qdiscs:
                qdisc.complete()


def read_back(plans: Mapping[str, HostPlan], handles: Mapping[str, Handle]) -> dict[str, Any]:
    """Read the state of every host: qdiscs, routes, sysctls, offloads and counters."""
    state: dict[str, Any] = {}
    for host, plan in plans.items():
        # All tables: `ip` shows both versions of IP only then.
        listing = "route show table all" if plan.routes6 else "route show"
        found_routes, found_links = handles[host].ip.ask([listing, "link show"], 2)
        classful = [qdisc.where.name for qdisc in plan.qdiscs if qdisc.classes]
        listings = ["qdisc show", *(f"class show dev {name}" for name in classful)]
        found_qdiscs, *found_classes = handles[host].tc.ask(listings, len(listings))
        with inside(handles[host].pid):
            state[host] = {
                "qdiscs": found_qdiscs,
                "classes": dict(zip(classful, found_classes, strict=True)),
                "routes": found_routes,
                "links": {
                    link["ifname"]: {side: link["stats64"][side] for side in ("rx", "tx")}
                    | _mtu(link, plan)
                    for link in found_links
                },
                "sysctls": {
                    name: read_sysctl(name) for name in (*plan.sysctls, *plan.kernels_sysctls)
                },
                "offloads": {
                    name: read_offloads(name, plan.udp_offloads) for name in plan.interfaces
                },
                "counters": read_counters(ip6=bool(plan.routes6)),
            }
            for qdisc in plan.qdiscs:
                qdisc.read_into(state[host])
    return state


def _mtu(link: Mapping[str, Any], plan: HostPlan) -> dict[str, int]:
    """Return the MTU of an interface of the path as an entry; empty for that of Ethernet."""
    named = link["ifname"] in plan.interfaces and link["mtu"] != DEFAULT.mtu_bytes
    return {"mtu": link["mtu"]} if named else {}


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
            if (present := state[host]["sysctls"][name]) != value:
                violations.append(f"sysctl {name} on {host} must be {value}, found {present}")
        for name, features in state[host]["offloads"].items():
            for feature, offload in features.items():
                if offload != plan.offloads:
                    violations.append(
                        f"{feature} of {name} on {host} must be {plan.offloads}, found {offload}"
                    )
        for name in plan.interfaces:
            mtu_bytes = state[host]["links"][name].get("mtu", DEFAULT.mtu_bytes)
            if mtu_bytes != plan.mtu_bytes:
                violations.append(
                    f"the MTU of {name} on {host} must be {plan.mtu_bytes} bytes, found {mtu_bytes}"
                )
        violations += _route_deviations(host, plan, state[host]["routes"])
    return violations


def _route_deviations(
    host: str, plan: HostPlan, found_routes: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    gateways = [r for r in found_routes if "gateway" in r]
    for routes, six in ((plan.routes, False), (plan.routes6, True)):
        devices = {r["dst"]: r["dev"] for r in gateways if (":" in r["gateway"]) == six}
        if devices != routes:
            yield f"routes of {host} must be {routes}, found {devices}"
    for route in gateways:
        attributes: dict[str, Any] = {}
        for metric in route.get("metrics", ()):
            attributes |= metric
        if attributes != plan.route_attributes:
            yield (
                f"the route of {host} to {route['dst']} must have {plan.route_attributes}, found "
                f"{attributes}"
            )


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
    available = read_sysctl("net.ipv4.tcp_available_congestion_control").split()
    missing = sorted(algorithms - set(available))
    if missing:
        raise LosslabError(
            f"algorithm must be one of the running kernel's ({', '.join(available)}), "
            f"found {', '.join(missing)}",
            hint="if it is your own, `losslab kernel --algorithm NAME` says what its init function "
            "returned; `losslab new algorithm NAME --from FILE` adds others",
        )
