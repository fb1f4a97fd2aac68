"""User programs' traffic: what arrives at the receiver's link, and their TCP connections.

A BPF program at a packet socket counts IPv4 packets by protocol inside the kernel, because a reader
of packets in user space would slow a guest down (layouts: linux/bpf.h, bpf(2)). It follows each TCP
connection's highest sequence number, and so knows that a segment in order is new. It reports all
other segments, from which `Gaps` finds the bytes that arrive for the first time: a retransmission
may fill a gap, or repeat what has arrived. ICMP is not counted: losslab's own pings are ICMP.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import socket
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from losslab.emulation.hosts import inside
from losslab.emulation.probes import OPEN_STATES, TcpProbe, TcpSample
from losslab.emulation.programs import Flow, Host, Process, UserPrograms
from losslab.emulation.topology import interface
from losslab.errors import LosslabError

SYSTEM_CALLS = {"x86_64": 321, "aarch64": 280}  # bpf, by machine
MAP_CREATE, MAP_LOOKUP, PROG_LOAD, MAP_POP = 0, 1, 5, 21  # enum bpf_cmd
ARRAY, LRU_HASH, QUEUE = 2, 9, 22  # enum bpf_map_type
SOCKET_FILTER = 1  # BPF_PROG_TYPE_SOCKET_FILTER
SO_ATTACH_BPF = 50  # asm-generic/socket.h
PSEUDO_MAP_FD = 1
ATTRIBUTES_BYTES = 128  # of `union bpf_attr`, rounded up; the kernel accepts zeros at its end
INSTRUCTION = struct.Struct("<BBhi")  # operation, registers, offset, immediate value

# Functions of the kernel (enum bpf_func_id).
LOOKUP, UPDATE, LOAD_BYTES, PUSH = 1, 2, 26, 87
# Registers: result; arguments; values that a call keeps; end of the stack.
R0, R1, R2, R3, R4, R6, R7, R8, R9, R10 = 0, 1, 2, 3, 4, 6, 7, 8, 9, 10
# Sizes of memory accesses.
BYTE, HALF, WORD, DOUBLE = 0x10, 0x08, 0x00, 0x18
# Arithmetic operations, and conditions of jumps.
ADD, SUB, AND, SHIFT_LEFT, SHIFT_RIGHT, MOVE = 0x00, 0x10, 0x50, 0x60, 0x70, 0xB0
ALWAYS, EQUAL, ANY_BIT, UNEQUAL, SIGNED_AT_MOST = 0x00, 0x10, 0x40, 0x50, 0xD0
BITS_64, BITS_32 = 7, 4  # classes of arithmetic
JUMP_64, JUMP_32 = 5, 6
FROM_REGISTER = 0x08

Instruction = tuple[int, int, int, "int | str", int]  # operation, to, from, offset or label, value


def load(size: int, to: int, base: int, offset: int) -> Instruction:
    """`to` = the memory at `base` + `offset`."""
    return (0x61 | size, to, base, offset, 0)


def store(size: int, base: int, offset: int, value: int) -> Instruction:
    """Store a register."""
    return (0x63 | size, base, value, offset, 0)


def add_to_memory(base: int, offset: int, value: int) -> Instruction:
    """Add a register to 64 bits of memory, atomically."""
    return (0xDB, base, value, offset, 0)


def constant(operation: int, to: int, value: int, bits: int = BITS_64) -> Instruction:
    """Calculate with a constant."""
    return (bits | operation, to, 0, 0, value)


def register(operation: int, to: int, value: int, bits: int = BITS_64) -> Instruction:
    """Calculate with a register."""
    return (bits | FROM_REGISTER | operation, to, value, 0, 0)


def from_network(to: int, bits: int) -> Instruction:
    """Convert the lower bits of a register from network byte order."""
    return (0xDC, to, 0, 0, bits)


def jump(condition: int, to: int, value: int, label: str, kind: int = JUMP_64) -> Instruction:
    """Jump forward to a label if a register compares so with a constant."""
    return (kind | condition, to, 0, label, value)


def call(function: int) -> Instruction:
    """Call a function of the kernel."""
    return (0x85, 0, 0, 0, function)


def end(value: int) -> list[Instruction]:
    """End the program with a value."""
    return [constant(MOVE, R0, value), (0x95, 0, 0, 0, 0)]


def assemble(code: Sequence[Instruction | str | tuple[str, int, int]]) -> bytes:
    """Assemble instructions; a text is a label, and ("map", to, descriptor) loads a map."""
    labels, at = {}, 0
    for each in code:
        if isinstance(each, str):
            labels[each] = at
        else:
            at += 2 if each[0] == "map" else 1
    words: list[bytes] = []
    for each in code:
        if isinstance(each, str):
            continue
        if len(each) == 3:
            words.append(INSTRUCTION.pack(0x18, PSEUDO_MAP_FD << 4 | each[1], 0, each[2]))
            words.append(INSTRUCTION.pack(0, 0, 0, 0))
            continue
        operation, to, source, offset, value = each
        distance = labels[offset] - len(words) - 1 if isinstance(offset, str) else offset
        words.append(INSTRUCTION.pack(operation, source << 4 | to, distance, value))
    return b"".join(words)


_libc = ctypes.CDLL(None, use_errno=True)


def _call(command: int, attributes: bytes) -> int:
    block = ctypes.create_string_buffer(attributes, ATTRIBUTES_BYTES)
    number = SYSTEM_CALLS.get(platform.machine(), -1)
    found = int(_libc.syscall(number, command, block, ATTRIBUTES_BYTES))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


class Map:
    """A map of the kernel; its values are read by key, or popped from a queue."""

    def __init__(self, kind: int, key_bytes: int, value_bytes: int, entries: int) -> None:
        try:
            self.descriptor = _call(
                MAP_CREATE, struct.pack("=IIII", kind, key_bytes, value_bytes, entries)
            )
        except OSError as error:
            raise LosslabError(
                f"the kernel must let root count packets with BPF, found: {error.strerror}",
                hint="use the default backend, whose kernel has it",
            ) from error
        self._value = ctypes.create_string_buffer(value_bytes)
        self._key = ctypes.create_string_buffer(max(key_bytes, 1))
        key = ctypes.addressof(self._key) if key_bytes else 0
        self._attributes = struct.pack(
            "=IxxxxQQQ", self.descriptor, key, ctypes.addressof(self._value), 0
        )

    def first(self) -> bytes:
        """Return the value of an array's first element."""
        _call(MAP_LOOKUP, self._attributes)
        return self._value.raw

    def pop(self) -> bytes | None:
        """Remove and return the oldest value of a queue; None if it is empty."""
        try:
            _call(MAP_POP, self._attributes)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return self._value.raw

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


def attach(sock: socket.socket, code: bytes) -> None:
    """Attach a program to a socket; it returns how many bytes of each packet the socket keeps."""
    instructions = ctypes.create_string_buffer(code, len(code))
    license_text = ctypes.create_string_buffer(b"MIT")
    log = ctypes.create_string_buffer(1 << 16)
    attributes = struct.pack(
        "=IIQQIIQ", SOCKET_FILTER, len(code) // INSTRUCTION.size, ctypes.addressof(instructions),
        ctypes.addressof(license_text), 1, len(log), ctypes.addressof(log),
    )  # fmt: skip
    try:
        program = _call(PROG_LOAD, attributes)
    except OSError as error:
        said = log.value.decode(errors="replace").strip().splitlines()
        raise LosslabError(
            "the kernel must accept losslab's BPF program, found: "
            + (" / ".join(said[-3:]) or str(error.strerror))
        ) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_BPF, program)
    finally:
        os.close(program)


Addresses = tuple[str, str]  # of sender and receiver

ETH_P_IP = 0x0800  # linux/if_ether.h
ICMP, TCP, UDP = 1, 6, 17
SYN, FIN = 0x02, 0x01
UDP_HEADER_BYTES = 8
FRAGMENT_OFFSET = 0x1FFF
# Bytes that the socket keeps of a packet: the headers of IP and TCP without options suffice.
KEPT_BYTES = 80
CONNECTIONS_MAX = 16_384
# Segments out of order between two samples; at 10 Gbit/s, 100 ms have 83,000 packets.
EVENTS_MAX = 131_072
# Packets, bytes of IP, payload of TCP, the part of it in order, payload of UDP, lost events.
COUNTS = struct.Struct("=6Q")
PACKETS, IP_BYTES, TCP_BYTES, NEW_BYTES, UDP_BYTES, LOST = range(0, COUNTS.size, 8)
# Source address and ports; first sequence number, payload, end of the data so far; 1 for a SYN.
EVENT = struct.Struct("=8sIIII")
# Highest sequence number; whether data have arrived.
STATE = struct.Struct("=II")

# Offsets from the end of the stack.
AT_IP, AT_TCP, AT_KEY, AT_CONNECTION, AT_STATE = -24, -40, -44, -56, -64
AT_EVENT = AT_STATE - EVENT.size


def _program(pair: Addresses | None, counts: int, connections: int, events: int) -> bytes:
    """Assemble the program for a pair, as of `ArrivalProbe`, and descriptors of its maps."""

    def select() -> list[Instruction | str]:
        if pair is None:
            return []
        source, destination = (struct.unpack("=i", socket.inet_aton(each))[0] for each in pair)
        return [
            load(WORD, R1, R10, AT_IP + 12), jump(EQUAL, R1, source, "selected", JUMP_32),
            load(WORD, R1, R10, AT_IP + 16), jump(UNEQUAL, R1, destination, "ignore", JUMP_32),
            "selected",
        ]  # fmt: skip

    def stack(to: int, offset: int) -> list[Instruction]:
        return [register(MOVE, to, R10), constant(ADD, to, offset)]

    def packet(length: int, at: int) -> list[Instruction | str]:
        """Copy bytes of the packet, from the offset in R2, to the stack."""
        return [
            register(MOVE, R1, R6), *stack(R3, at), constant(MOVE, R4, length),
            call(LOAD_BYTES), jump(UNEQUAL, R0, 0, "ignore"),
        ]  # fmt: skip

    def update_connection() -> list[Instruction | tuple[str, int, int]]:
        return [
            ("map", R1, connections), *stack(R2, AT_CONNECTION), *stack(R3, AT_STATE),
            constant(MOVE, R4, 0), call(UPDATE),
        ]  # fmt: skip

    def push_event() -> list[Instruction | str | tuple[str, int, int]]:
        return [
            load(DOUBLE, R1, R10, AT_CONNECTION),
            store(DOUBLE, R10, AT_EVENT, R1),
            ("map", R1, events), *stack(R2, AT_EVENT), constant(MOVE, R3, 0),
            call(PUSH),
        ]  # fmt: skip

    return assemble(
        [
            # R6: packet. R7: counts. R8: length of IP's header, later the sequence number.
            # R9: payload.
            register(MOVE, R6, R1),
            constant(MOVE, R2, 0), *packet(20, AT_IP),
            load(BYTE, R1, R10, AT_IP + 9), jump(EQUAL, R1, ICMP, "ignore"), *select(),
            constant(MOVE, R1, 0), store(WORD, R10, AT_KEY, R1),
            ("map", R1, counts), *stack(R2, AT_KEY), call(LOOKUP),
            jump(EQUAL, R0, 0, "ignore"), register(MOVE, R7, R0),
            load(HALF, R9, R10, AT_IP + 2), from_network(R9, 16),
            constant(MOVE, R1, 1), add_to_memory(R7, PACKETS, R1),
            add_to_memory(R7, IP_BYTES, R9),
            load(BYTE, R8, R10, AT_IP), constant(AND, R8, 15),
            constant(SHIFT_LEFT, R8, 2), register(SUB, R9, R8),
            load(HALF, R3, R10, AT_IP + 6), from_network(R3, 16),
            constant(AND, R3, FRAGMENT_OFFSET),
            load(BYTE, R1, R10, AT_IP + 9),
            jump(EQUAL, R1, TCP, "tcp"), jump(UNEQUAL, R1, UDP, "ignore"),
            # Only a datagram's first fragment has the header of UDP.
            jump(UNEQUAL, R3, 0, "rest"), constant(SUB, R9, UDP_HEADER_BYTES), "rest",
            add_to_memory(R7, UDP_BYTES, R9), jump(ALWAYS, 0, 0, "ignore"),
            "tcp",
            register(MOVE, R2, R8), *packet(16, AT_TCP),
            load(BYTE, R1, R10, AT_TCP + 12), constant(SHIFT_RIGHT, R1, 4),
            constant(SHIFT_LEFT, R1, 2), register(SUB, R9, R1),
            add_to_memory(R7, TCP_BYTES, R9),
            load(WORD, R8, R10, AT_TCP + 4), from_network(R8, 32),
            load(WORD, R1, R10, AT_IP + 12), store(WORD, R10, AT_CONNECTION, R1),
            load(WORD, R1, R10, AT_TCP), store(WORD, R10, AT_CONNECTION + 4, R1),
            load(BYTE, R1, R10, AT_TCP + 13), constant(AND, R1, SYN),
            jump(EQUAL, R1, 0, "segment"),
            # A new connection; its data begin after the SYN.
            constant(ADD, R8, 1, BITS_32), store(WORD, R10, AT_STATE, R8),
            store(WORD, R10, AT_EVENT + 8, R8), store(WORD, R10, AT_EVENT + 16, R8),
            constant(MOVE, R1, 0), store(WORD, R10, AT_STATE + 4, R1),
            store(WORD, R10, AT_EVENT + 12, R1),
            constant(MOVE, R1, 1), store(WORD, R10, AT_EVENT + 20, R1),
            *update_connection(), *push_event(), jump(EQUAL, R9, 0, "keep"),
            "segment",
            ("map", R1, connections), *stack(R2, AT_CONNECTION), call(LOOKUP),
            jump(EQUAL, R9, 0, "empty"), jump(UNEQUAL, R0, 0, "known"),
            # A connection without a SYN.
            add_to_memory(R7, NEW_BYTES, R9), register(ADD, R8, R9, BITS_32),
            store(WORD, R10, AT_STATE, R8), constant(MOVE, R1, 1),
            store(WORD, R10, AT_STATE + 4, R1), *update_connection(),
            jump(ALWAYS, 0, 0, "keep"),
            "known",
            load(WORD, R1, R0, 0), register(MOVE, R2, R8),
            register(SUB, R2, R1, BITS_32), jump(EQUAL, R2, 0, "in order"),
            store(WORD, R10, AT_EVENT + 8, R8), store(WORD, R10, AT_EVENT + 12, R9),
            store(WORD, R10, AT_EVENT + 16, R1),
            register(ADD, R2, R9, BITS_32),  # how far it reaches beyond the data so far
            register(ADD, R8, R9, BITS_32), register(MOVE, R9, R0),
            jump(SIGNED_AT_MOST, R2, 0, "old", JUMP_32), store(WORD, R9, 0, R8),
            "old",
            constant(MOVE, R1, 0), store(WORD, R10, AT_EVENT + 20, R1),
            *push_event(), jump(EQUAL, R0, 0, "data"),
            constant(MOVE, R1, 1), add_to_memory(R7, LOST, R1),
            jump(ALWAYS, 0, 0, "data"),
            "in order",
            add_to_memory(R7, NEW_BYTES, R9), register(ADD, R8, R9, BITS_32),
            store(WORD, R0, 0, R8), register(MOVE, R9, R0),
            "data",
            load(WORD, R1, R9, 4), jump(UNEQUAL, R1, 0, "empty"),
            constant(MOVE, R1, 1), store(WORD, R9, 4, R1),
            jump(ALWAYS, 0, 0, "keep"),
            "empty",
            load(BYTE, R1, R10, AT_TCP + 13), jump(ANY_BIT, R1, FIN, "keep"),
            "ignore", *end(0),
            "keep", *end(KEPT_BYTES),
        ]
    )  # fmt: skip


@dataclass(frozen=True)
class Arrived:
    """Counts since the probe began."""

    packets: int  # of IPv4, without ICMP
    ip_bytes: int
    tcp_bytes: int  # payload of TCP, repetitions included
    tcp_new_bytes: int  # payload of TCP that arrived for the first time
    udp_bytes: int  # payload of UDP


class Gaps:
    """Gaps in the data of a connection that have arrived so far."""

    def __init__(self) -> None:
        self._gaps: list[tuple[int, int]] = []  # first sequence number, length

    def new_bytes(self, sequence: int, octets: int, top: int) -> int:
        """Return how many bytes of a segment are new, given the end of the data so far."""
        ahead = _ahead(sequence, top)
        if ahead > 0:
            self._gaps.append((top, ahead))
            return octets
        new, left = max(0, ahead + octets), []
        for begin, length in self._gaps:
            offset = _ahead(begin, sequence)
            low, high = max(offset, 0), min(offset + length, octets)
            if low >= high:
                left.append((begin, length))
                continue
            new += high - low
            if low > offset:
                left.append((begin, low - offset))
            if offset + length > high:
                left.append(((sequence + high) & 0xFFFF_FFFF, offset + length - high))
        self._gaps = left
        return new


def _ahead(one: int, other: int) -> int:
    """Return by how much a sequence number is ahead of another one."""
    return ((one - other + (1 << 31)) & 0xFFFF_FFFF) - (1 << 31)


class ArrivalProbe:
    """Counter of the packets that arrive at an interface, in the namespace where it is created.

    Given addresses of sender and receiver, it counts the packets from the one or to the other. Its
    socket becomes readable when a TCP connection opens, carries its first data, or closes.
    """

    def __init__(self, interface: str, pair: Addresses | None = None) -> None:
        self._maps = [
            Map(ARRAY, 4, COUNTS.size, 1),
            Map(LRU_HASH, 8, STATE.size, CONNECTIONS_MAX),
            Map(QUEUE, 0, EVENT.size, EVENTS_MAX),
        ]
        self._counts, _, self._events = self._maps
        # With protocol 0, no packet arrives before the socket is bound to the interface.
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        attach(self.socket, _program(pair, *(each.descriptor for each in self._maps)))
        self.socket.setblocking(False)
        # A socket of this protocol receives what arrives, and not what the host sends.
        self.socket.bind((interface, ETH_P_IP))
        self._gaps: dict[bytes, Gaps] = defaultdict(Gaps)
        self._filled_bytes = 0

    def counts(self) -> Arrived:
        """Return the counts so far."""
        *counted, udp_bytes, lost = COUNTS.unpack(self._counts.first())
        if lost:
            raise LosslabError(
                f"losslab must see every TCP segment out of order, found {lost} too many in a "
                "sample interval"
            )
        while (event := self._events.pop()) is not None:
            connection, sequence, octets, top, opened = EVENT.unpack(event)
            if opened:
                self._gaps.pop(connection, None)
            else:
                self._filled_bytes += self._gaps[connection].new_bytes(sequence, octets, top)
        packets, ip_bytes, tcp_bytes, in_order = counted
        return Arrived(packets, ip_bytes, tcp_bytes, in_order + self._filled_bytes, udp_bytes)

    def opened(self) -> Iterator[tuple[int, int]]:
        """Yield source and destination port of the kept packets that carry data."""
        while True:
            try:
                packet = self.socket.recv(KEPT_BYTES)
            except BlockingIOError:
                return
            header = 4 * (packet[0] & 15)
            source, destination = struct.unpack_from("!HH", packet, header)
            (length,) = struct.unpack_from("!H", packet, 2)
            if length > header + 4 * (packet[header + 12] >> 4):
                yield source, destination

    def close(self) -> None:
        """Close the socket and the maps."""
        self.socket.close()
        for each in self._maps:
            each.close()


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


def ends(identity: bytes) -> tuple[int, int, bytes, set[bytes]] | None:
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
        self._addresses = {socket.inet_aton(each) for each in pair or ()}
        self._logs = {each.host: each.log for each in (flow.listener, flow.caller)}
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

    def count(self, t_s: float, ended: Mapping[str, bool]) -> None:
        """Count what has arrived at `t_s`, after a sample; `ended` says which log is complete."""
        found = self.arrivals.counts()
        flags = ",".join(str(int(ended.get(self._logs[host], False))) for host in ENDS)
        self.rows.append(
            f"{t_s:.6f},{found.packets},{found.ip_bytes},{found.tcp_bytes},{found.tcp_new_bytes},"
            f"{found.udp_bytes},{flags},{int(self.pending)}"
        )


def prefix_of(flow: Flow) -> str:
    """Return the prefix of the names of a pair's files."""
    return flow.name.removesuffix("command")


class UserProgramsProbe:
    """Probe of both ends of user programs' traffic.

    A connection is read when it opens, carries its first data and closes, and at each sample.
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
        """Read all connections; return samples of the sender's.

        A sample's `source_port` is the port of the end that opens connections, because a server's
        connections share its own port.
        """
        samples = []
        for each in self._pairs:
            each.pending = False
        for host, probe in self._probes:
            for identity, sample in probe.identified():
                if (found := ends(identity)) is None:
                    continue
                local, remote, cookie, addresses = found
                pair = next((each for each in self._pairs if each.has(addresses)), None)
                if pair is None:  # a background flow's
                    samples += [sample] if host == "sender" else []
                    continue
                connection = pair.connections.setdefault(
                    (host, cookie), Connection(host, (local, remote), [])
                )
                connection.last = sample
                if sample.algorithm not in connection.algorithms:
                    connection.algorithms.append(sample.algorithm)
                if host == "sender":
                    pair.read_ports.add((local, remote))
                    pair.pending |= sample.pending
                    port = remote if pair.by_remote_port else local
                    samples.append(replace(sample, source_port=port))
        return samples

    def read_opened(self) -> None:
        """Read the connections if one of them opened, carried its first data, or closed."""
        opened = [set(pair.arrivals.opened()) for pair in self._pairs]
        self.sample()
        for pair, found in zip(self._pairs, opened, strict=True):
            for ports in sorted(found - pair.read_ports):
                key = ("sender", struct.pack("!HH", *ports))
                pair.connections[key] = Connection("sender", ports, [UNKNOWN])

    def count(self, t_s: float, processes: Iterable[Process]) -> None:
        """Count what has arrived at `t_s`, after a sample, given the programs."""
        ended = {each.program.log: each.ended for each in processes}
        for pair in self._pairs:
            pair.count(t_s, ended)

    def write(self, folder: Path) -> None:
        """Write arrivals.csv and connections.csv of each pair."""
        for pair in self._pairs:
            (folder / f"{pair.prefix}{ARRIVALS}").write_text("\n".join(pair.rows) + "\n")
            rows = [CONNECTION_COLUMNS, *(each.row() for each in pair.connections.values())]
            (folder / f"{pair.prefix}{CONNECTIONS}").write_text("\n".join(rows) + "\n")

    def close(self) -> None:
        """Close all sockets."""
        self._closing.close()
