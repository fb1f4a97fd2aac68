"""User programs' traffic: what arrives at the receiver's link, and their TCP connections."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from losslab.emulation import netns
from losslab.emulation.flows import Flow, Host
from losslab.emulation.probes.arrivals import ArrivalProbe
from losslab.emulation.probes.tcp import OPEN_STATES, TcpProbe, TcpSample
from losslab.emulation.topology import interface

ENDS = ("sender", "receiver")
ARRIVALS, CONNECTIONS = "arrivals.csv", "connections.csv"
ARRIVAL_COLUMNS = (
    "t_s,packets,ip_bytes,tcp_bytes,tcp_new_bytes,udp_bytes,sender_ended,receiver_ended,"
    "sender_pending"
)
CONNECTION_COLUMNS = (
    "host,local_port,remote_port,algorithm,sent_bytes,busy_s,rwnd_limited_s,sndbuf_limited_s"
)
# In place of the algorithm of a connection that closed before it could be read.
UNKNOWN = "unknown"
# struct inet_diag_sockid: ports, addresses, interface, cookie, which identifies a socket.
IDENTITY = struct.Struct("!HH16s16s4x8s")
MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address in a socket of IPv6
LOOPBACK = 127


@dataclass
class Connection:
    """A connection between the hosts, as one of its ends sees it."""

    host: str
    ports: tuple[int, int]  # local, remote
    algorithms: list[str]  # in the order in which they were found
    last: TcpSample | None = None

    def row(self) -> str:
        """Format as a line of `CONNECTION_COLUMNS`."""
        fields = [self.host, *map(str, self.ports), " ".join(self.algorithms)]
        if self.last is None:
            return ",".join([*fields, "", "", "", ""])
        times_s = (self.last.busy_s, self.last.rwnd_limited_s, self.last.sndbuf_limited_s)
        return ",".join([*fields, str(self.last.sent_bytes), *(f"{t:.6f}" for t in times_s)])


def ends(identity: bytes) -> tuple[int, int, bytes] | None:
    """Return local port, remote port and cookie of a socket; None if it stays on its host."""
    local_port, remote_port, *addresses, cookie = IDENTITY.unpack(identity)
    local, remote = (a[12:] if a.startswith(MAPPED) else a[:4] for a in addresses)
    if local == remote or remote[0] == LOOPBACK:
        return None
    return local_port, remote_port, cookie


class UserProgramsProbe:
    """Probe of both ends of user programs' traffic.

    A connection is read when it opens, carries its first data and closes, and at each sample.
    """

    def __init__(self, hosts: Mapping[str, Host], flow: Flow) -> None:
        self._by_remote_port = flow.listener.host == "sender"
        self._probes: list[tuple[str, TcpProbe]] = []
        self._closing = contextlib.ExitStack()
        for host in ENDS:
            with netns.inside(hosts[host].pid):
                for family in (socket.AF_INET, socket.AF_INET6):
                    probe = TcpProbe(family, OPEN_STATES)
                    self._probes.append((host, probe))
                    self._closing.callback(probe.close)
        with netns.inside(hosts["receiver"].pid):
            self._arrivals = ArrivalProbe(interface("receiver", "r2").name)
        self._closing.callback(self._arrivals.close)
        self.descriptor = self._arrivals.socket.fileno()
        self._connections: dict[tuple[str, bytes], Connection] = {}
        self._read_ports: set[tuple[int, int]] = set()  # of the sender's connections
        self._pending = False  # at the last sample, for a connection of the sender
        self._rows = [ARRIVAL_COLUMNS]

    def sample(self) -> list[TcpSample]:
        """Read all connections; return samples of the sender's.

        A sample's `source_port` is the port of the end that opens connections, because a server's
        connections share its own port.
        """
        samples = []
        for host, probe in self._probes:
            for identity, sample in probe.identified():
                if (found := ends(identity)) is None:
                    continue
                local, remote, cookie = found
                connection = self._connections.setdefault(
                    (host, cookie), Connection(host, (local, remote), [])
                )
                connection.last = sample
                if sample.algorithm not in connection.algorithms:
                    connection.algorithms.append(sample.algorithm)
                if host == "sender":
                    self._read_ports.add((local, remote))
                    port = remote if self._by_remote_port else local
                    samples.append(replace(sample, source_port=port))
        self._pending = any(each.pending for each in samples)
        return samples

    def read_opened(self) -> None:
        """Read the connections if one of them opened, carried its first data, or closed."""
        opened = set(self._arrivals.opened())
        self.sample()
        for ports in sorted(opened - self._read_ports):
            key = ("sender", struct.pack("!HH", *ports))
            self._connections[key] = Connection("sender", ports, [UNKNOWN])

    def count(self, t_s: float, ended: Mapping[str, bool]) -> None:
        """Count what has arrived at `t_s`, after a sample; `ended` says whose program has ended."""
        found = self._arrivals.counts()
        flags = ",".join(str(int(ended.get(host, False))) for host in ENDS)
        self._rows.append(
            f"{t_s:.6f},{found.packets},{found.ip_bytes},{found.tcp_bytes},{found.tcp_new_bytes},"
            f"{found.udp_bytes},{flags},{int(self._pending)}"
        )

    def write(self, folder: Path) -> None:
        """Write arrivals.csv and connections.csv."""
        (folder / ARRIVALS).write_text("\n".join(self._rows) + "\n")
        rows = [each.row() for each in self._connections.values()]
        (folder / CONNECTIONS).write_text("\n".join([CONNECTION_COLUMNS, *rows]) + "\n")

    def close(self) -> None:
        """Close all sockets."""
        self._closing.close()
