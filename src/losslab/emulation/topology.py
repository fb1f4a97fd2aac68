r"""Topology: the emulated path of five hosts, as data and as a Mininet network.

    sender ---- r1 ==== r2 ---- receiver        forward
                 |      (reverse, symmetric)
                r3 ------------- receiver        reverse, asymmetric

Symmetric and asymmetric paths have the same interfaces and links; only the receiver's default route
differs. The bottleneck is r1's interface towards r2 (`==`).
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from losslab.study import hostsettings
from losslab.study.axes import OWN
from losslab.study.hostsettings import KERNEL
from losslab.study.packetsizes import DEFAULT

if TYPE_CHECKING:
    from losslab.study.condition import Condition

T = TypeVar("T")
HOSTS = ("sender", "r1", "r2", "r3", "receiver")
# r4 exists only with a second bottleneck.
ROUTERS = ("r1", "r2", "r3", "r4")

# Buffers that never limit: 512 MiB is the bandwidth-delay product of 10 Gbit/s and 400 ms.
MAX_SOCKET_BUFFER_BYTES = 512 * 2**20
# tcp_rmem: minimum, initial and maximum size. The kernel grows the buffer with the data that the
# program reads, which is none while a gap in the sequence space remains. With loss and a long RTT,
# Linux's default (tcp_init, net/ipv4/tcp.c, 6.12, with enough memory) therefore limits flows below
# their congestion window. A buffer that is large from the beginning does not.
RECEIVE_BUFFER_BYTES = {
    "linux": f"4096 131072 {6 * 2**20}",
    # tcp_init allows 1/128 of the free memory, if that is less than 6 MiB.
    "linux-2mib": f"4096 131072 {2 * 2**20}",
    "large": f"4096 {MAX_SOCKET_BUFFER_BYTES} {MAX_SOCKET_BUFFER_BYTES}",
    KERNEL: KERNEL,
}
# ECN is neither requested nor accepted; both; both with Accurate ECN, since Linux 7.0
# (ip-sysctl.rst).
ECN_SYSCTL = "net.ipv4.tcp_ecn"
ECN = {"off": "0", "on": "1", "accurate": "3", KERNEL: KERNEL}
ALGORITHM_SYSCTL = "net.ipv4.tcp_congestion_control"
# Linux's default, which programs that choose their own congestion controls find.
DEFAULT_ALGORITHM = "cubic"


@dataclass(frozen=True)
class Interface:
    """Interface of a host: one end of a link."""

    host: str
    name: str
    address: str
    mac: str
    towards: str

    @property
    def address6(self) -> str:
        """Return the IPv6 address."""
        return at_version(self.address, 6)


Link = tuple[Interface, Interface]


def at_version(address: str, version: int) -> str:
    """Return the address of a version of IP for 10.0.NUMBER.SIDE: itself, or fd00:NUMBER::SIDE."""
    _, _, number, side = address.split(".")
    return address if version == 4 else f"fd00:{number}::{side}"


def family_of(address: str) -> socket.AddressFamily:
    """Return the family of an address's sockets."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def host_in_url(address: str, version: int) -> str:
    """Return the address of a version of IP as a URL has it."""
    return address if version == 4 else f"[{at_version(address, 6)}]"


def destination6(destination: str) -> str:
    """Return the IPv6 destination for an IPv4 destination of `routes`."""
    if destination == "default":
        return destination
    address, slash, _ = destination.partition("/")
    return at_version(address, 6).removesuffix("0") + ("/64" if slash else "/128")


def link(number: int, a: str, b: str, called: str = "") -> Link:
    """Return both ends of link `number`, 10.0.NUMBER.1 and .2, named HOST-NEIGHBOUR or `called`."""

    def end(side: int, host: str, neighbour: str) -> Interface:
        return Interface(
            host=host,
            name=f"{host}-{called or neighbour}"[:15],  # IFNAMSIZ - 1, linux/if.h
            address=f"10.0.{number}.{side}",
            mac=f"02:00:00:00:{number:02x}:{side:02x}",
            towards=neighbour,
        )

    return end(1, a, b), end(2, b, a)


LINKS = (
    link(1, "sender", "r1"),
    link(2, "r1", "r2"),
    link(3, "r2", "receiver"),
    link(4, "receiver", "r3"),
    link(5, "r3", "r1"),
)
INTERFACES = tuple(end for both in LINKS for end in both)
SENDER_ADDRESS = "10.0.1.1"
RECEIVER_ADDRESS = "10.0.3.2"
SENDER_NETWORK = "10.0.1.0/24"
RECEIVER_NETWORK = "10.0.3.0/24"
# Port of bulk flows, by which per-class FIFOs classify packets.
BULK_PORT = 5201


def interface(host: str, towards: str) -> Interface:
    """Return a host's interface towards a neighbour."""
    return next(i for i in INTERFACES if i.host == host and i.towards == towards)


def bottleneck() -> Interface:
    """Return the interface of the bottleneck."""
    return interface("r1", "r2")


def reverse_router(path: str) -> str:
    """Return the first router of the reverse path."""
    return {"symmetric": "r2", "asymmetric": "r3"}[path]


Route = tuple[str, Interface]


@dataclass(frozen=True)
class NetworkExtension:
    """Hosts, links and routes in addition to the path of five hosts."""

    hosts: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    # By host, as in `routes`.
    routes: Mapping[str, Sequence[Route]] = field(default_factory=dict)
    # Additional `ip -batch` lines by host, before its routes.
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Source addresses of packets to these destinations.
    sources: Mapping[str, str] = field(default_factory=dict)

    def plus(self, other: NetworkExtension) -> NetworkExtension:
        """Return both extensions together."""

        def joined(mine: Mapping[str, Sequence[T]], more: Mapping[str, Sequence[T]]) -> Any:
            return {host: [*mine.get(host, ()), *more.get(host, ())] for host in {**mine, **more}}

        return NetworkExtension(
            (*self.hosts, *other.hosts),
            (*self.links, *other.links),
            joined(self.routes, other.routes),
            joined(self.commands, other.commands),
            {**self.sources, **other.sources},
        )

    @property
    def ends(self) -> list[Interface]:
        """List the interfaces of the links."""
        return [end for both in self.links for end in both]


def routes(path: str, extension: NetworkExtension) -> dict[str, list[Route]]:
    """List each host's routes beyond its own links, as (destination, outgoing interface)."""
    back = reverse_router(path)
    routes = {
        "sender": [("default", interface("sender", "r1"))],
        "r1": [(RECEIVER_NETWORK, interface("r1", "r2")), ("10.0.4.0/24", interface("r1", "r3"))],
        "r2": [(SENDER_NETWORK, interface("r2", "r1"))],
        "r3": [(SENDER_NETWORK, interface("r3", "r1"))],
        "receiver": [("default", interface("receiver", back))],
    }
    for host, additional in extension.routes.items():
        routes[host] = [*routes.get(host, []), *additional]
    return routes


def address_commands(
    host: str, condition: Condition, extension: NetworkExtension, attributes: Mapping[str, int]
) -> list[str]:
    """List a host's `ip -batch` lines: addresses, permanent neighbours, routes with attributes.

    Neighbours are permanent because address resolution would pass through netem: the first packet
    would have twice the delay, or be lost.
    """
    others = {end: other for a, b in (*LINKS, *extension.links) for end, other in ((a, b), (b, a))}
    mine = [end for end in others if end.host == host]
    mtu = "" if condition.mtu_bytes == DEFAULT.mtu_bytes else f" mtu {condition.mtu_bytes}"
    lines, six = ["link set lo up"], condition.ip_version == 6
    for end in mine:
        lines += [
            f"link set {end.name} address {end.mac}{mtu}",
            f"addr add {end.address}/24 dev {end.name}",
            f"link set {end.name} up",
        ]
        if six:
            lines.append(f"addr add {end.address6}/64 dev {end.name} nodad")
    for end in mine:
        other = others[end]
        lines += [
            f"neigh replace {address} lladdr {other.mac} dev {end.name} nud permanent"
            for address in (other.address, *([other.address6] if six else []))
        ]
    lines += extension.commands.get(host, ())
    for destination, out in routes(condition.path, extension).get(host, []):
        words = [f"route replace {destination} via {others[out].address} dev {out.name}"]
        if source := extension.sources.get(destination):
            words.append(f"src {source}")
        more = [f"{name} {n}" for name, n in attributes.items()]
        lines.append(" ".join([*words, *more]))
        if six:
            to, gateway = destination6(destination), others[out].address6
            words = [f"route replace {to} via {gateway} dev {out.name}"]
            lines.append(" ".join([*words, *more]))
    return lines


def sysctls(host: str, condition: Condition, ends: Sequence[Interface]) -> dict[str, str]:
    """List the sysctls of a host's namespace (Documentation/networking/ip-sysctl.rst).

    Those with the value `kernel` are not set.
    """
    six = condition.ip_version == 6
    values = {
        "net.ipv6.conf.all.disable_ipv6": "0" if six else "1",
        "net.ipv6.conf.default.disable_ipv6": "0" if six else "1",
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.conf.default.rp_filter": "0",
        "net.ipv4.conf.all.send_redirects": "0",
        "net.ipv4.ip_forward": "1" if host in ROUTERS else "0",
    }
    own_ends = [end for end in ends if end.host == host]
    values |= {f"net.ipv4.conf.{end.name}.rp_filter": "0" for end in own_ends}
    if six:
        values["net.ipv6.conf.all.forwarding"] = "1" if host in ROUTERS else "0"
        # No link-local addresses.
        values |= {f"net.ipv6.conf.{end.name}.addr_gen_mode": "1" for end in own_ends}
    if host in ROUTERS:
        return values
    set_by_user = hostsettings.parse(condition.sysctl)[host]
    return values | {
        # Set before any socket exists: a socket keeps the pacing of the default at its creation.
        ALGORITHM_SYSCTL: DEFAULT_ALGORITHM if condition.algorithm == OWN else condition.algorithm,
        "net.ipv4.tcp_no_metrics_save": "1",
        ECN_SYSCTL: ECN[condition.ecn],
        "net.ipv4.tcp_rmem": RECEIVE_BUFFER_BYTES[condition.receive_buffer],
        "net.ipv4.tcp_wmem": f"4096 16384 {MAX_SOCKET_BUFFER_BYTES}",
        **set_by_user,
    }


def route_attributes(host: str, condition: Condition) -> dict[str, int]:
    """Return the attributes of an end host's routes, by their names in iproute2."""
    values = {
        "initcwnd": condition.initcwnd_packets,
        "initrwnd": condition.initrwnd_packets,
        "window": condition.window_bytes,
    }
    return {name: value for name, value in values.items() if value and host not in ROUTERS}


# mnexec closes every descriptor up to the limit, with one system call each. Mininet raises the
# limit to 16384, with which a host takes 0.3 s to start in a guest. A replicate opens about 30
# files.
DESCRIPTOR_LIMIT = 256


class Network:
    """Emulated hosts and their links, made with Mininet's API."""

    def __init__(self, net: Any) -> None:
        self._net = net
        self.nodes: dict[str, Any] = {}
        self.extend(NetworkExtension(HOSTS, LINKS))

    def extend(self, more: NetworkExtension) -> dict[str, Any]:
        """Add hosts and links; return the new hosts by name."""
        new = {name: self._net.addHost(name, ip=None) for name in more.hosts}
        self.nodes |= new
        for a, b in more.links:
            # `address_commands` brings links up. Mininet would call ifconfig, which makes the
            # host's kernel load modules of unused protocols.
            self._net.addLink(
                self.nodes[a.host], self.nodes[b.host], intfName1=a.name, intfName2=b.name, up=None
            )
        return new


@contextmanager
def emulated_hosts(host_class: type | None = None, disposable: bool = False) -> Iterator[Network]:
    """Make the hosts and links of the path for the length of the block.

    Hosts are Mininet's by default, or of a class with the same methods, such as Containernet's
    `Docker`. A `disposable` network stays up at the end, because the guest is powered off.
    """
    from mininet.net import Mininet
    from mininet.node import Host

    # Otherwise, Mininet would change limits of the machine permanently (fixLimits). Results depend
    # on them: a larger net.core.rmem_max, for example, changes the window scale.
    Mininet.inited = True
    net = Mininet(host=host_class or Host, controller=None, build=False)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTOR_LIMIT, DESCRIPTOR_LIMIT))
    try:
        yield Network(net)
    finally:
        if not disposable:
            net.stop()
