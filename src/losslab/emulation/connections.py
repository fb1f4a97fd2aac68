"""TCP connections of user programs: whose they are, and what both of their ends say of them."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from losslab.emulation.arrivals import ARRIVAL_COLUMNS, ARRIVALS, ArrivalProbe
from losslab.emulation.hosts import inside
from losslab.emulation.probes import OPEN_STATES, TcpProbe, TcpSample
from losslab.emulation.programs import Flow, Host, Process, UserPrograms
from losslab.emulation.topology import interface

ENDS = ("sender", "receiver")
CONNECTIONS = "connections.csv"
CONNECTION_COLUMNS = (
    "host,local_port,remote_port,algorithm,sent_bytes,busy_s,rwnd_limited_s,sndbuf_limited_s"
)
# In place of the algorithm of a connection that closed before it could be read.
UNKNOWN = "unknown"
# struct inet_diag_sockid: ports, addresses, interface, cookie, which identifies a socket.
IDENTITY = struct.Struct("!HH16s16s4x8s")
MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address in a socket of IPv6
LOOPBACK = 127
SocketEnds = tuple[int, int, bytes, set[bytes]]  # as of `ends`


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


def ends(identity: bytes) -> SocketEnds | None:
    """Return local and remote port, cookie and addresses; None if the socket stays on its host."""
    local_port, remote_port, *addresses, cookie = IDENTITY.unpack(identity)
    local, remote = (a[12:] if a.startswith(MAPPED) else a[:4] for a in addresses)
    if local == remote or remote[0] == LOOPBACK:
        return None
    return local_port, remote_port, cookie, {local, remote}


class PairProbe:
    """Arrivals and connections of a pair of programs; all of them without addresses of its own."""

    def __init__(self, hosts: Mapping[str, Host], flow: Flow) -> None:
        pair = flow.addresses if isinstance(flow, UserPrograms) else None
        self._addresses = {socket.inet_aton(address) for address in pair or ()}
        self._logs = {program.host: program.log for program in (flow.listener, flow.caller)}
        self.prefix = prefix_of(flow)
        self.by_remote_port = flow.listener.host == "sender"
        with inside(hosts["receiver"].pid):
            self.arrivals = ArrivalProbe(interface("receiver", "r2").name, pair)
        self.connections: dict[tuple[str, bytes], Connection] = {}
        self.read_ports: set[tuple[int, int]] = set()  # of the sender's connections
        self.pending = False  # at the last sample, for a connection of the sender
        self.rows = [ARRIVAL_COLUMNS]

    def has(self, addresses: set[bytes]) -> bool:
        """Return whether a connection with these addresses is the pair's."""
        return not self._addresses or bool(self._addresses & addresses)

    def add(self, host: str, socket_ends: SocketEnds, sample: TcpSample) -> TcpSample:
        """Add a sample of a connection at a host; return it with the port that identifies it."""
        local, remote, cookie, _ = socket_ends
        connection = self.connections.setdefault(
            (host, cookie), Connection(host, (local, remote), [])
        )
        connection.last = sample
        if sample.algorithm not in connection.algorithms:
            connection.algorithms.append(sample.algorithm)
        if host == "sender":
            self.read_ports.add((local, remote))
            self.pending |= sample.pending
        return replace(sample, source_port=remote if self.by_remote_port else local)

    def count(self, t_s: float, ended: Mapping[str, bool]) -> None:
        """Note what has arrived at `t_s`, after a sample; `ended` says which log is complete."""
        for ports in sorted(self.arrivals.opened - self.read_ports):
            key = ("sender", struct.pack("!HH", *ports))
            self.connections[key] = Connection("sender", ports, [UNKNOWN])
        self.arrivals.opened.clear()
        flags = [*(ended.get(self._logs[host], False) for host in ENDS), self.pending]
        self.rows.append(self.arrivals.arrived.row(t_s, ",".join(str(int(flag)) for flag in flags)))


def prefix_of(flow: Flow) -> str:
    """Return the prefix of the names of a pair's files."""
    return flow.name.removesuffix("command")


class ProgramsProbe:
    """Probe of both ends of user programs' traffic.

    A connection is read when it opens and closes, and at each sample.
    """

    def __init__(self, hosts: Mapping[str, Host], flows: Sequence[Flow]) -> None:
        self._probes: list[tuple[str, TcpProbe]] = []
        self._closing = contextlib.ExitStack()
        for host in ENDS:
            with inside(hosts[host].pid):
                for family in (socket.AF_INET, socket.AF_INET6):
                    probe = TcpProbe(family, OPEN_STATES)
                    self._probes.append((host, probe))
                    self._closing.callback(probe.close)
        self._pairs = [PairProbe(hosts, flow) for flow in flows]
        for pair in self._pairs:
            self._closing.callback(pair.arrivals.close)
        self.descriptors = [pair.arrivals.socket.fileno() for pair in self._pairs]

    def sample(self) -> list[TcpSample]:
        """Read arrivals and all connections; return samples of the sender's.

        A sample's `source_port` is the port of the end that opens connections, because a server's
        connections share its own port.
        """
        samples = []
        for pair in self._pairs:
            pair.pending = False
            pair.arrivals.read()
        for host, probe in self._probes:
            for identity, sample in probe.identified():
                if (socket_ends := ends(identity)) is None:
                    continue
                *_, addresses = socket_ends
                owner = next((pair for pair in self._pairs if pair.has(addresses)), None)
                # Other connections are background flows'.
                added = sample if owner is None else owner.add(host, socket_ends, sample)
                if host == "sender":
                    samples.append(added)
        return samples

    def read_opened(self) -> None:
        """Sample, and take note of the connections that opened or closed."""
        for pair in self._pairs:
            pair.arrivals.clear()
        self.sample()

    def count(self, t_s: float, processes: Iterable[Process]) -> None:
        """Note what has arrived at `t_s`, after a sample, given the programs."""
        ended = {process.program.log: process.ended for process in processes}
        for pair in self._pairs:
            pair.count(t_s, ended)

    def write(self, folder: Path) -> None:
        """Write arrivals.csv and connections.csv of each pair."""
        for pair in self._pairs:
            (folder / f"{pair.prefix}{ARRIVALS}").write_text("\n".join(pair.rows) + "\n")
            rows = [CONNECTION_COLUMNS, *(c.row() for c in pair.connections.values())]
            (folder / f"{pair.prefix}{CONNECTIONS}").write_text("\n".join(rows) + "\n")

    def close(self) -> None:
        """Close all sockets."""
        self._closing.close()
