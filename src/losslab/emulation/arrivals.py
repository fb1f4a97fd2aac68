"""What arrives at a link: counts of user programs' packets and of their new bytes.

A BPF program at a packet socket counts IPv4 packets by protocol inside the kernel, because a reader
of packets in user space would slow a guest down (layouts: linux/bpf.h, bpf(2)). It follows each TCP
connection's highest sequence number, and so knows that a segment in order is new. It reports all
other segments, from which `Gaps` finds the bytes that arrive for the first time: a retransmission
may fill a gap, or repeat what has arrived. ICMP is not counted: losslab's own pings are ICMP.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import socket
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

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
# Operations and sizes of memory accesses, as parts of an instruction's first byte.
ARITHMETIC = {"+=": 0x00, "-=": 0x10, "&=": 0x50, "<<=": 0x60, ">>=": 0x70, "=": 0xB0}
COMPARISONS = {"==": 0x10, "&": 0x40, "!=": 0x50, "s<=": 0xD0}
SIZES = {"u8": 0x10, "u16": 0x08, "u32": 0x00, "u64": 0x18}
# Operation, registers (to, from), offset or a jump's label, immediate value.
Instruction = tuple[int, int, int, "int | str", int]


def assemble(text: str) -> bytes:
    """Assemble statements, separated by lines or semicolons; `NAME:` is a label.

    The notation is that of the kernel's disassembler: r1 has 64 bits, w1 its lower 32. Memory is
    `SIZE[BASE+OFFSET]`, with a register or one of `PLACES` as base.
    """
    code, labels = list[Instruction](), dict[str, int]()
    for statement in re.split("[;\n]", re.sub("#.*", "", text)):
        words = statement.split()
        if words and words[0].endswith(":"):
            labels[words[0][:-1]] = len(code)
        elif words:
            code += _instructions(words)
    return b"".join(
        INSTRUCTION.pack(
            operation, source << 4 | to,
            labels[offset] - at - 1 if isinstance(offset, str) else offset, value,
        )
        for at, (operation, to, source, offset, value) in enumerate(code)
    )  # fmt: skip


def _memory(operand: str) -> tuple[int, int, int]:
    """Return size, register and offset of an operand."""
    size, place, *more = re.findall(r"\w+", operand)
    base, offset = PLACES.get(place) or (int(place[1:]), 0)
    return SIZES[size], base, offset + sum(map(int, more))


def _instructions(words: list[str]) -> Iterator[Instruction]:
    """Yield the instructions of a statement."""
    match words:
        case ["exit", octets]:
            yield 0xB7, 0, 0, 0, int(octets)
            yield 0x95, 0, 0, 0, 0
        case ["call", function]:
            yield 0x85, 0, 0, 0, int(function)
        case ["goto", label]:
            yield 0x05, 0, 0, label, 0
        case ["if", left, comparison, number, "goto", label]:
            width = 5 if left[0] == "r" else 6
            yield width | COMPARISONS[comparison], int(left[1:]), 0, label, int(number)
        case ["be16" | "be32" as order, to]:  # from network byte order
            yield 0xDC, int(to[1:]), 0, 0, int(order[2:])
        case [to, "=", "map", descriptor]:
            yield 0x18, int(to[1:]), PSEUDO_MAP_FD, 0, int(descriptor)
            yield 0, 0, 0, 0, 0
        case [to, "=", "address", place]:
            yield 0xBF, int(to[1:]), PLACES[place][0], 0, 0
            yield 0x07, int(to[1:]), 0, 0, PLACES[place][1]
        case ["lock", to, "+=", source]:
            _, base, offset = _memory(to)
            yield 0xDB, base, int(source[1:]), offset, 0
        case [to, "=", source] if "[" in source:
            size, base, offset = _memory(source)
            yield 0x61 | size, int(to[1:]), base, offset, 0
        case [to, "=", source] if "[" in to:
            size, base, offset = _memory(to)
            yield 0x63 | size, base, int(source[1:]), offset, 0
        case [to, operation, source]:
            first = (7 if to[0] == "r" else 4) | ARITHMETIC[operation]
            register = source[0] == "r"
            other, value = (int(source[1:]), 0) if register else (0, int(source))
            yield first | 0x08 * register, int(to[1:]), other, 0, value


_libc = ctypes.CDLL(None, use_errno=True)


def _call(command: int, attributes: bytes) -> int:
    block = ctypes.create_string_buffer(attributes, ATTRIBUTES_BYTES)
    number = SYSTEM_CALLS.get(platform.machine(), -1)
    result = int(_libc.syscall(number, command, block, ATTRIBUTES_BYTES))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


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
        messages = log.value.decode(errors="replace").strip().splitlines()
        raise LosslabError(
            "the kernel must accept losslab's BPF program, found: "
            + (" / ".join(messages[-3:]) or str(error.strerror))
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
# Source address and ports; first sequence number, payload, end of the data so far; 1 for a SYN.
EVENT = struct.Struct("=8sIIII")
# Highest sequence number; whether data have arrived.
STATE = struct.Struct("=II")
# Places of the program on its stack, and in the counts.
PLACES = {
    "ip": (10, -24), "tcp": (10, -40), "key": (10, -44), "connection": (10, -56),
    "state": (10, -64), "event": (10, -64 - EVENT.size),
    "packets": (7, 0), "ip_bytes": (7, 8), "tcp_bytes": (7, 16), "new_bytes": (7, 24),
    "udp_bytes": (7, 32), "lost": (7, 40),
}  # fmt: skip


def _program(pair: Addresses | None, counts: int, connections: int, events: int) -> bytes:
    """Assemble the program for a pair, as of `ArrivalProbe`, and descriptors of its maps."""
    select = ""
    if pair is not None:
        source, destination = (struct.unpack("=i", socket.inet_aton(each))[0] for each in pair)
        select = f"""
            r1 = u32[ip+12]; if w1 == {source} goto selected
            r1 = u32[ip+16]; if w1 != {destination} goto ignore
            selected:"""

    def copy(octets: int, place: str) -> str:
        """Copy bytes of the packet, from the offset in r2, to the stack."""
        return f"""r1 = r6; r3 = address {place}; r4 = {octets}
            call {LOAD_BYTES}; if r0 != 0 goto ignore"""

    update_connection = f"""r1 = map {connections}; r2 = address connection; r3 = address state
            r4 = 0; call {UPDATE}"""
    push_event = f"""r1 = u64[connection]; u64[event] = r1
            r1 = map {events}; r2 = address event; r3 = 0; call {PUSH}"""
    # r6: packet. r7: counts. r8: length of IP's header, later the sequence number. r9: payload.
    return assemble(
        f"""
            r6 = r1; r2 = 0; {copy(20, "ip")}
            r1 = u8[ip+9]; if r1 == {ICMP} goto ignore
            {select}
            r1 = 0; u32[key] = r1
            r1 = map {counts}; r2 = address key; call {LOOKUP}
            if r0 == 0 goto ignore; r7 = r0
            r9 = u16[ip+2]; be16 r9
            r1 = 1; lock u64[packets] += r1; lock u64[ip_bytes] += r9
            r8 = u8[ip]; r8 &= 15; r8 <<= 2; r9 -= r8
            r3 = u16[ip+6]; be16 r3; r3 &= {FRAGMENT_OFFSET}
            r1 = u8[ip+9]; if r1 == {TCP} goto tcp; if r1 != {UDP} goto ignore
            if r3 != 0 goto rest; r9 -= {UDP_HEADER_BYTES}  # a datagram's first fragment
        rest:
            lock u64[udp_bytes] += r9; goto ignore
        tcp:
            r2 = r8; {copy(16, "tcp")}
            r1 = u8[tcp+12]; r1 >>= 4; r1 <<= 2; r9 -= r1
            lock u64[tcp_bytes] += r9
            r8 = u32[tcp+4]; be32 r8
            r1 = u32[ip+12]; u32[connection] = r1; r1 = u32[tcp]; u32[connection+4] = r1
            r1 = u8[tcp+13]; r1 &= {SYN}; if r1 == 0 goto segment
            # A new connection: its data begin after the SYN.
            w8 += 1; u32[state] = r8; u32[event+8] = r8; u32[event+16] = r8
            r1 = 0; u32[state+4] = r1; u32[event+12] = r1; r1 = 1; u32[event+20] = r1
            {update_connection}
            {push_event}
            if r9 == 0 goto keep
        segment:
            r1 = map {connections}; r2 = address connection; call {LOOKUP}
            if r9 == 0 goto empty; if r0 != 0 goto known
            # A connection without a SYN.
            lock u64[new_bytes] += r9; w8 += r9; u32[state] = r8; r1 = 1; u32[state+4] = r1
            {update_connection}
            goto keep
        known:
            r1 = u32[r0]; r2 = r8; w2 -= r1; if r2 == 0 goto in_order
            u32[event+8] = r8; u32[event+12] = r9; u32[event+16] = r1
            w2 += r9  # how far it reaches beyond the data so far
            w8 += r9; r9 = r0; if w2 s<= 0 goto old
            u32[r9] = r8
        old:
            r1 = 0; u32[event+20] = r1
            {push_event}
            if r0 == 0 goto data; r1 = 1; lock u64[lost] += r1; goto data
        in_order:
            lock u64[new_bytes] += r9; w8 += r9; u32[r0] = r8; r9 = r0
        data:
            r1 = u32[r9+4]; if r1 != 0 goto empty; r1 = 1; u32[r9+4] = r1; goto keep
        empty:
            r1 = u8[tcp+13]; if r1 & {FIN} goto keep
        ignore:
            exit 0
        keep:
            exit {KEPT_BYTES}
        """
    )


ARRIVALS = "arrivals.csv"
ARRIVAL_COLUMNS = (
    "t_s,packets,ip_bytes,tcp_bytes,tcp_new_bytes,udp_bytes,sender_ended,receiver_ended,"
    "sender_pending"
)


@dataclass(frozen=True)
class Arrived:
    """Counts since the probe began."""

    packets: int  # of IPv4, without ICMP
    ip_bytes: int
    tcp_bytes: int  # payload of TCP, repetitions included
    tcp_new_bytes: int  # payload of TCP that arrived for the first time
    udp_bytes: int  # payload of UDP

    def row(self, t_s: float, flags: str) -> str:
        """Format as a line of `ARRIVAL_COLUMNS`; `flags` are its last three."""
        counts = (
            self.packets, self.ip_bytes, self.tcp_bytes, self.tcp_new_bytes, self.udp_bytes,
        )  # fmt: skip
        return f"{t_s:.6f},{','.join(map(str, counts))},{flags}"


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
            # The segment fills `low` to `high`, and leaves what is before and after.
            low = min(max(offset, 0), offset + length)
            high = max(min(offset + length, octets), low)
            new += high - low
            for first, last in ((offset, low), (high, offset + length)):
                if last > first:
                    left.append(((sequence + first) & 0xFFFF_FFFF, last - first))
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
