"""Counts of a link's IPv4 packets by protocol, and of the distinct data in its TCP segments.

A BPF program at a packet socket counts inside the kernel. It follows each TCP connection's highest
sequence number, and so knows that a segment in order is new. It reports all other segments, from
which `Gaps` finds the bytes that arrive for the first time: a retransmission may fill a gap, or
repeat what has arrived. ICMP is not counted: losslab's own pings are ICMP.
"""

from __future__ import annotations

import socket
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from losslab.emulation.probes import bpf
from losslab.errors import LosslabError

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


def _program(counts: int, connections: int, events: int) -> bytes:
    """Assemble the program; the arguments are descriptors of its maps."""
    b = bpf

    def stack(to: int, offset: int) -> list[bpf.Instruction]:
        return [b.register(b.MOVE, to, b.R10), b.constant(b.ADD, to, offset)]

    def packet(length: int, at: int) -> list[bpf.Instruction | str]:
        """Copy bytes of the packet, from the offset in R2, to the stack."""
        return [
            b.register(b.MOVE, b.R1, b.R6), *stack(b.R3, at), b.constant(b.MOVE, b.R4, length),
            b.call(b.LOAD_BYTES), b.jump(b.UNEQUAL, b.R0, 0, "ignore"),
        ]  # fmt: skip

    def update_connection() -> list[bpf.Instruction | tuple[str, int, int]]:
        return [
            ("map", b.R1, connections), *stack(b.R2, AT_CONNECTION), *stack(b.R3, AT_STATE),
            b.constant(b.MOVE, b.R4, 0), b.call(b.UPDATE),
        ]  # fmt: skip

    def push_event() -> list[bpf.Instruction | str | tuple[str, int, int]]:
        return [
            b.load(b.DOUBLE, b.R1, b.R10, AT_CONNECTION),
            b.store(b.DOUBLE, b.R10, AT_EVENT, b.R1),
            ("map", b.R1, events), *stack(b.R2, AT_EVENT), b.constant(b.MOVE, b.R3, 0),
            b.call(b.PUSH),
        ]  # fmt: skip

    return bpf.assemble(
        [
            # R6: packet. R7: counts. R8: length of IP's header, later the sequence number.
            # R9: payload.
            b.register(b.MOVE, b.R6, b.R1),
            b.constant(b.MOVE, b.R2, 0), *packet(20, AT_IP),
            b.load(b.BYTE, b.R1, b.R10, AT_IP + 9), b.jump(b.EQUAL, b.R1, ICMP, "ignore"),
            b.constant(b.MOVE, b.R1, 0), b.store(b.WORD, b.R10, AT_KEY, b.R1),
            ("map", b.R1, counts), *stack(b.R2, AT_KEY), b.call(b.LOOKUP),
            b.jump(b.EQUAL, b.R0, 0, "ignore"), b.register(b.MOVE, b.R7, b.R0),
            b.load(b.HALF, b.R9, b.R10, AT_IP + 2), b.from_network(b.R9, 16),
            b.constant(b.MOVE, b.R1, 1), b.add_to_memory(b.R7, PACKETS, b.R1),
            b.add_to_memory(b.R7, IP_BYTES, b.R9),
            b.load(b.BYTE, b.R8, b.R10, AT_IP), b.constant(b.AND, b.R8, 15),
            b.constant(b.SHIFT_LEFT, b.R8, 2), b.register(b.SUB, b.R9, b.R8),
            b.load(b.HALF, b.R3, b.R10, AT_IP + 6), b.from_network(b.R3, 16),
            b.constant(b.AND, b.R3, FRAGMENT_OFFSET),
            b.load(b.BYTE, b.R1, b.R10, AT_IP + 9),
            b.jump(b.EQUAL, b.R1, TCP, "tcp"), b.jump(b.UNEQUAL, b.R1, UDP, "ignore"),
            # Only a datagram's first fragment has the header of UDP.
            b.jump(b.UNEQUAL, b.R3, 0, "rest"), b.constant(b.SUB, b.R9, UDP_HEADER_BYTES), "rest",
            b.add_to_memory(b.R7, UDP_BYTES, b.R9), b.jump(b.ALWAYS, 0, 0, "ignore"),
            "tcp",
            b.register(b.MOVE, b.R2, b.R8), *packet(16, AT_TCP),
            b.load(b.BYTE, b.R1, b.R10, AT_TCP + 12), b.constant(b.SHIFT_RIGHT, b.R1, 4),
            b.constant(b.SHIFT_LEFT, b.R1, 2), b.register(b.SUB, b.R9, b.R1),
            b.add_to_memory(b.R7, TCP_BYTES, b.R9),
            b.load(b.WORD, b.R8, b.R10, AT_TCP + 4), b.from_network(b.R8, 32),
            b.load(b.WORD, b.R1, b.R10, AT_IP + 12), b.store(b.WORD, b.R10, AT_CONNECTION, b.R1),
            b.load(b.WORD, b.R1, b.R10, AT_TCP), b.store(b.WORD, b.R10, AT_CONNECTION + 4, b.R1),
            b.load(b.BYTE, b.R1, b.R10, AT_TCP + 13), b.constant(b.AND, b.R1, SYN),
            b.jump(b.EQUAL, b.R1, 0, "segment"),
            # A new connection; its data begin after the SYN.
            b.constant(b.ADD, b.R8, 1, b.BITS_32), b.store(b.WORD, b.R10, AT_STATE, b.R8),
            b.store(b.WORD, b.R10, AT_EVENT + 8, b.R8), b.store(b.WORD, b.R10, AT_EVENT + 16, b.R8),
            b.constant(b.MOVE, b.R1, 0), b.store(b.WORD, b.R10, AT_STATE + 4, b.R1),
            b.store(b.WORD, b.R10, AT_EVENT + 12, b.R1),
            b.constant(b.MOVE, b.R1, 1), b.store(b.WORD, b.R10, AT_EVENT + 20, b.R1),
            *update_connection(), *push_event(), b.jump(b.EQUAL, b.R9, 0, "keep"),
            "segment",
            ("map", b.R1, connections), *stack(b.R2, AT_CONNECTION), b.call(b.LOOKUP),
            b.jump(b.EQUAL, b.R9, 0, "empty"), b.jump(b.UNEQUAL, b.R0, 0, "known"),
            # A connection without a SYN.
            b.add_to_memory(b.R7, NEW_BYTES, b.R9), b.register(b.ADD, b.R8, b.R9, b.BITS_32),
            b.store(b.WORD, b.R10, AT_STATE, b.R8), b.constant(b.MOVE, b.R1, 1),
            b.store(b.WORD, b.R10, AT_STATE + 4, b.R1), *update_connection(),
            b.jump(b.ALWAYS, 0, 0, "keep"),
            "known",
            b.load(b.WORD, b.R1, b.R0, 0), b.register(b.MOVE, b.R2, b.R8),
            b.register(b.SUB, b.R2, b.R1, b.BITS_32), b.jump(b.EQUAL, b.R2, 0, "in order"),
            b.store(b.WORD, b.R10, AT_EVENT + 8, b.R8), b.store(b.WORD, b.R10, AT_EVENT + 12, b.R9),
            b.store(b.WORD, b.R10, AT_EVENT + 16, b.R1),
            b.register(b.ADD, b.R2, b.R9, b.BITS_32),  # how far it reaches beyond the data so far
            b.register(b.ADD, b.R8, b.R9, b.BITS_32), b.register(b.MOVE, b.R9, b.R0),
            b.jump(b.SIGNED_AT_MOST, b.R2, 0, "old", b.JUMP_32), b.store(b.WORD, b.R9, 0, b.R8),
            "old",
            b.constant(b.MOVE, b.R1, 0), b.store(b.WORD, b.R10, AT_EVENT + 20, b.R1),
            *push_event(), b.jump(b.EQUAL, b.R0, 0, "data"),
            b.constant(b.MOVE, b.R1, 1), b.add_to_memory(b.R7, LOST, b.R1),
            b.jump(b.ALWAYS, 0, 0, "data"),
            "in order",
            b.add_to_memory(b.R7, NEW_BYTES, b.R9), b.register(b.ADD, b.R8, b.R9, b.BITS_32),
            b.store(b.WORD, b.R0, 0, b.R8), b.register(b.MOVE, b.R9, b.R0),
            "data",
            b.load(b.WORD, b.R1, b.R9, 4), b.jump(b.UNEQUAL, b.R1, 0, "empty"),
            b.constant(b.MOVE, b.R1, 1), b.store(b.WORD, b.R9, 4, b.R1),
            b.jump(b.ALWAYS, 0, 0, "keep"),
            "empty",
            b.load(b.BYTE, b.R1, b.R10, AT_TCP + 13), b.jump(b.ANY_BIT, b.R1, FIN, "keep"),
            "ignore", *b.end(0),
            "keep", *b.end(KEPT_BYTES),
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

    Its socket becomes readable when a TCP connection opens, carries its first data, or closes.
    """

    def __init__(self, interface: str) -> None:
        self._maps = [
            bpf.Map(bpf.ARRAY, 4, COUNTS.size, 1),
            bpf.Map(bpf.LRU_HASH, 8, STATE.size, CONNECTIONS_MAX),
            bpf.Map(bpf.QUEUE, 0, EVENT.size, EVENTS_MAX),
        ]
        self._counts, _, self._events = self._maps
        # With protocol 0, no packet arrives before the socket is bound to the interface.
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        bpf.attach(self.socket, _program(*(each.descriptor for each in self._maps)))
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
