r"""The emulated path of five hosts, as data and as a Mininet network.

    sender ---- r1 ==== r2 ---- receiver        forward
                 |      (reverse, symmetric)
                r3 ------------- receiver        reverse, asymmetric

The interfaces and links are the same on both paths; only the receiver's route back differs. The
bottleneck is r1's interface towards r2 (`==`).
"""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from losslab.study.condition import Condition

HOSTS = ("sender", "r1", "r2", "r3", "receiver")
# The last where there is a second bottleneck.
ROUTERS = ("r1", "r2", "r3", "r4")

# Buffers that never limit: 512 MiB is the bandwidth-delay product of 10 Gbit/s over 400 ms.
MAX_SOCKET_BUFFER_BYTES = 512 * 2**20
# The smallest size, what a socket begins with, and what it may grow to by what the program has read
# (nothing while a hole waits to be filled): with loss and a long RTT Linux's own (tcp_init,
# net/ipv4/tcp.c, 6.12, where memory is not short) holds back what the sender's congestion control
# allows. One that is large from the start leaves the decision to the algorithm.
RECEIVE_BUFFER_BYTES = {
    "linux": f"4096 131072 {6 * 2**20}",
    "large": f"4096 {MAX_SOCKET_BUFFER_BYTES} {MAX_SOCKET_BUFFER_BYTES}",
}
# Neither asked for nor granted; both; both as AccECN, since Linux 7.0 (ip-sysctl.rst).
ECN_SYSCTL = "net.ipv4.tcp_ecn"
ECN = {"off": "0", "on": "1", "accurate": "3"}
ALGORITHM_SYSCTL = "net.ipv4.tcp_congestion_control"


@dataclass(frozen=True)
class Interface:
    """One end of a link: its host, name, address and the host it leads to."""

    host: str
    name: str
    address: str
    mac: str
    towards: str


Link = tuple[Interface, Interface]


def link(number: int, a: str, b: str, called: str = "") -> Link:
    """Make the two ends of link `number`; 10.0.NUMBER.1 is a's, .2 is b's address.

    Interfaces are called as the other host, or as `called`.
    """

    def end(side: int, here: str, there: str) -> Interface:
        return Interface(
            host=here,
            name=f"{here}-{called or there}"[:15],  # IFNAMSIZ - 1, linux/if.h
            address=f"10.0.{number}.{side}",
            mac=f"02:00:00:00:{number:02x}:{side:02x}",
            towards=there,
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
# The port of bulk flows, which a queue may set apart.
BULK_PORT = 5201


def interface(host: str, towards: str) -> Interface:
    """Find a host's interface by the neighbour it leads to."""
    return next(i for i in INTERFACES if i.host == host and i.towards == towards)


def bottleneck() -> Interface:
    """Name the interface whose queue is the bottleneck's."""
    return interface("r1", "r2")


def reverse_router(path: str) -> str:
    """Name the first router that the receiver's packets meet."""
    return {"symmetric": "r2", "asymmetric": "r3"}[path]


Route = tuple[str, Interface]


@dataclass(frozen=True)
class Beside:
    """What a network has besides the path of five hosts."""

    hosts: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    # By host, as of `routes`.
    routes: Mapping[str, Sequence[Route]] = field(default_factory=dict)
    # Further `ip -batch` lines by host, before its routes.
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def ends(self) -> list[Interface]:
        """List the interfaces of its links."""
        return [end for both in self.links for end in both]


def routes(path: str, beside: Beside) -> dict[str, list[Route]]:
    """List each host's routes beyond its own links, as (destination, outgoing interface)."""
    back = reverse_router(path)
    found = {
        "sender": [("default", interface("sender", "r1"))],
        "r1": [(RECEIVER_NETWORK, interface("r1", "r2")), ("10.0.4.0/24", interface("r1", "r3"))],
        "r2": [(SENDER_NETWORK, interface("r2", "r1"))],
        "r3": [(SENDER_NETWORK, interface("r3", "r1"))],
        "receiver": [("default", interface("receiver", back))],
    }
    for host, its in beside.routes.items():
        found[host] = [*found.get(host, []), *its]
    return found


def address_commands(host: str, path: str, beside: Beside) -> list[str]:
    """Write `ip -batch` lines: addresses, permanent neighbours, routes.

    Neighbours are permanent because a resolution would pass through netem, where the first packet
    would see twice the delay or be lost.
    """
    others = {end: other for a, b in (*LINKS, *beside.links) for end, other in ((a, b), (b, a))}
    mine = [end for end in others if end.host == host]
    lines = ["link set lo up"]
    for end in mine:
        lines += [
            f"link set {end.name} address {end.mac}",
            f"addr add {end.address}/24 dev {end.name}",
            f"link set {end.name} up",
        ]
    for end in mine:
        other = others[end]
        lines.append(
            f"neigh replace {other.address} lladdr {other.mac} dev {end.name} nud permanent"
        )
    lines += beside.commands.get(host, ())
    for destination, out in routes(path, beside).get(host, []):
        lines.append(f"route replace {destination} via {others[out].address} dev {out.name}")
    return lines


def sysctls(host: str, condition: Condition, ends: Sequence[Interface]) -> dict[str, str]:
    """List the sysctls of a host's namespace (Documentation/networking/ip-sysctl.rst)."""
    wanted = {
        "net.ipv6.conf.all.disable_ipv6": "1",
        "net.ipv6.conf.default.disable_ipv6": "1",
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.conf.default.rp_filter": "0",
        "net.ipv4.conf.all.send_redirects": "0",
        "net.ipv4.ip_forward": "1" if host in ROUTERS else "0",
    }
    wanted |= {f"net.ipv4.conf.{end.name}.rp_filter": "0" for end in ends if end.host == host}
    if host in ROUTERS:
        return wanted
    return wanted | {
        # Before any socket exists: one that is born under another default keeps its pacing.
        ALGORITHM_SYSCTL: condition.algorithm,
        "net.ipv4.tcp_no_metrics_save": "1",
        ECN_SYSCTL: ECN[condition.ecn],
        "net.ipv4.tcp_rmem": RECEIVE_BUFFER_BYTES[condition.receive_buffer],
        "net.ipv4.tcp_wmem": f"4096 16384 {MAX_SOCKET_BUFFER_BYTES}",
    }


# mnexec closes every descriptor up to the limit, one system call each; Mininet raises the limit to
# 16384, which makes a host cost 0.3 s in the guest. A replicate has some thirty files open.
DESCRIPTOR_LIMIT = 256


@contextmanager
def emulated_hosts(
    host_class: type | None = None, disposable: bool = False, beside: Beside | None = None
) -> Iterator[dict[str, Any]]:
    """Build the five hosts and five links with Mininet's API; take them down at the end.

    Hosts are of Mininet's `Host`, or a class with its methods such as Containernet's `Docker`;
    `disposable` ones are left to the power-off that ends the guest.
    """
    from mininet.net import Mininet
    from mininet.node import Host

    more = beside or Beside()
    net = Mininet(host=host_class or Host, controller=None, build=False)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTOR_LIMIT, DESCRIPTOR_LIMIT))
    try:
        nodes = {name: net.addHost(name, ip=None) for name in (*HOSTS, *more.hosts)}
        for a, b in (*LINKS, *more.links):
            # Not up yet: Mininet would call ifconfig, which makes a host's kernel load modules of
            # protocols that no one speaks. `address_commands` does it.
            net.addLink(nodes[a.host], nodes[b.host], intfName1=a.name, intfName2=b.name, up=None)
        yield nodes
    finally:
        if not disposable:
            net.stop()
