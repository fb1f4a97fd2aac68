"""What arrives at a link: counts of user programs' packets and of their new bytes.

The kernel copies each arriving packet's headers into a ring (`capture.Ring`), which is read with
each sample: a process that woke up for each packet would slow a guest down. ICMP is not counted:
losslab's own pings are ICMP.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from losslab.emulation.capture import Ring
from losslab.errors import LosslabError

Addresses = tuple[str, str]  # of sender and receiver

ETH_P_IP = 0x0800  # linux/if_ether.h
ICMP, TCP, UDP = 1, 6, 17
SYN, FIN = 0x02, 0x01
UDP_HEADER_BYTES = 8
FRAGMENT_OFFSET = 0x1FFF
# Header length, total length, fragment, protocol, source, destination.
IP_HEADER = struct.Struct("!BxHxxHxBxx4s4s")
TCP_HEADER = struct.Struct("!4sI4xBB")  # ports, sequence number, header length, flags
# 131,072 packets between two samples; at 10 Gbit/s, 100 ms have 83,000.
RING_BYTES = 1 << 25
SO_ATTACH_FILTER = 26  # asm-generic/socket.h
FILTER_LINE = struct.Struct("=HBBI")  # linux/filter.h: operation, jumps if true or false, value
# TCP segments with SYN or FIN, of which one byte is kept: `tcpdump -dd 'tcp[13] & 3 != 0'`, without
# Ethernet. Operations: 0x30 loads a byte, 0x28 two bytes, 0x20 four bytes, 0xB1 the length of IP's
# header, and 0x50 a byte after it; 0x15 compares, 0x45 tests bits, 0x06 returns.
SYN_OR_FIN = (
    (0x30, 0, 0, 9), (0x15, 0, 6, TCP), (0x28, 0, 0, 6), (0x45, 4, 0, FRAGMENT_OFFSET),
    (0xB1, 0, 0, 0), (0x50, 0, 0, 13), (0x45, 0, 1, SYN | FIN), (0x06, 0, 0, 1), (0x06, 0, 0, 0),
)  # fmt: skip

ARRIVALS = "arrivals.csv"
ARRIVAL_COLUMNS = (
    "t_s,packets,ip_bytes,tcp_bytes,tcp_new_bytes,udp_bytes,sender_ended,receiver_ended,"
    "sender_pending"
)


@dataclass
class Arrived:
    """Counts since the probe began."""

    packets: int = 0  # of IPv4, without ICMP
    ip_bytes: int = 0
    tcp_bytes: int = 0  # payload of TCP, repetitions included
    tcp_new_bytes: int = 0  # payload of TCP that arrived for the first time
    udp_bytes: int = 0  # payload of UDP

    def row(self, t_s: float, flags: str) -> str:
        """Format as a line of `ARRIVAL_COLUMNS`; `flags` are its last three."""
        counts = (
            self.packets, self.ip_bytes, self.tcp_bytes, self.tcp_new_bytes, self.udp_bytes,
        )  # fmt: skip
        return f"{t_s:.6f},{','.join(map(str, counts))},{flags}"


class Stream:
    """What has arrived of one direction of a TCP connection: its end so far, and gaps."""

    def __init__(self, end: int) -> None:
        self._end = end  # the sequence number after the highest that has arrived
        self._gaps: list[tuple[int, int]] = []  # first sequence number, length
        self.empty = True

    def add(self, sequence: int, octets: int) -> int:
        """Add a segment; return how many of its bytes are new.

        A retransmission may fill a gap, or repeat what has arrived.
        """
        self.empty = False
        ahead = _ahead(sequence, self._end)
        if ahead > 0:
            self._gaps.append((self._end, ahead))
        new = octets if ahead >= 0 else max(0, ahead + octets) + self._fill(sequence, octets)
        if ahead + octets > 0:
            self._end = (sequence + octets) & 0xFFFF_FFFF
        return new

    def _fill(self, sequence: int, octets: int) -> int:
        """Take a segment out of the gaps; return how many of its bytes fill one."""
        filled, left = 0, []
        for begin, length in self._gaps:
            offset = _ahead(begin, sequence)
            # The segment fills `low` to `high`, and leaves what is before and after.
            low = min(max(offset, 0), offset + length)
            high = max(min(offset + length, octets), low)
            filled += high - low
            for first, last in ((offset, low), (high, offset + length)):
                if last > first:
                    left.append(((sequence + first) & 0xFFFF_FFFF, last - first))
        self._gaps = left
        return filled


def _ahead(one: int, other: int) -> int:
    """Return by how much a sequence number is ahead of another one."""
    return ((one - other + (1 << 31)) & 0xFFFF_FFFF) - (1 << 31)


class ArrivalProbe:
    """Counter of the packets that arrive at an interface, in the namespace where it is created.

    Given addresses of sender and receiver, it counts the packets from the one or to the other. Its
    socket becomes readable when a TCP connection opens or closes.
    """

    def __init__(self, interface: str, pair: Addresses | None = None) -> None:
        self._pair = [socket.inet_aton(address) for address in pair or ()]
        self._streams: dict[bytes, Stream] = {}  # by source address and ports
        self.arrived = Arrived()
        self.opened: set[tuple[int, int]] = set()  # ports of connections that have carried data
        # Sockets of this protocol receive what arrives, and not what the host sends.
        self._ring = Ring(interface, ETH_P_IP, RING_BYTES, socket.SOCK_DGRAM)
        # With protocol 0, no packet arrives before the socket is bound to the interface.
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        self.socket.setblocking(False)
        _attach(self.socket, self._pair)
        self.socket.bind((interface, ETH_P_IP))

    def read(self) -> None:
        """Count the packets that have arrived since the last call; LosslabError if any is missing.

        The counts are in `arrived`, and the connections that carried data in `opened`.
        """
        for _, _, _, packet in self._ring.packets():
            self._add(packet)
        if dropped := self._ring.dropped():
            raise LosslabError(
                "losslab must see every packet that arrives, found "
                f"{dropped} more in a sample interval than its ring holds"
            )

    def _add(self, packet: bytes) -> None:
        """Count a packet, given its headers."""
        first, length, fragment, protocol, source, destination = IP_HEADER.unpack_from(packet)
        if protocol == ICMP:
            return
        if self._pair and source != self._pair[0] and destination != self._pair[1]:
            return
        header = 4 * (first & 15)
        self.arrived.packets += 1
        self.arrived.ip_bytes += length
        if protocol == TCP:
            self._add_segment(source, packet, header, length - header)
        elif protocol == UDP:  # only a datagram's first fragment has its header
            of_udp = 0 if fragment & FRAGMENT_OFFSET else UDP_HEADER_BYTES
            self.arrived.udp_bytes += length - header - of_udp

    def _add_segment(self, source: bytes, packet: bytes, header: int, octets: int) -> None:
        """Count a TCP segment, given where its header begins and its length with that header."""
        ports, sequence, offset, flags = TCP_HEADER.unpack_from(packet, header)
        octets -= 4 * (offset >> 4)
        connection = source + ports
        if flags & SYN:  # a new connection: its data begin after the SYN
            sequence = (sequence + 1) & 0xFFFF_FFFF
            self._streams[connection] = Stream(sequence)
        if octets <= 0:
            return
        stream = self._streams.get(connection)
        if stream is None:
            stream = self._streams[connection] = Stream(sequence)
        if stream.empty:
            local, remote = struct.unpack("!HH", ports)
            self.opened.add((local, remote))
        self.arrived.tcp_bytes += octets
        self.arrived.tcp_new_bytes += stream.add(sequence, octets)

    def clear(self) -> None:
        """Take out what made the socket readable."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.socket.recv(1)

    def close(self) -> None:
        """Close the socket and the ring."""
        self.socket.close()
        self._ring.close()


def _attach(sock: socket.socket, pair: Sequence[bytes]) -> None:
    """Let a socket receive `SYN_OR_FIN` only, between a pair's addresses if there is one."""
    lines = [*SYN_OR_FIN]
    if pair:
        source, destination = (int.from_bytes(address, "big") for address in pair)
        lines[:0] = [
            (0x20, 0, 0, 12), (0x15, 2, 0, source), (0x20, 0, 0, 16), (0x15, 0, 8, destination),
        ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(FILTER_LINE.pack(*line) for line in lines))
    program = struct.pack("HP", len(lines), ctypes.addressof(code))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
