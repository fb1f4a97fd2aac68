"""Captures of packets (pcap) and of the state of TCP, without any effect on the results.

The kernel copies the beginning of each packet into a ring buffer that holds the whole run and is
read afterwards. During the run no process wakes up and no clock is read. Layouts: TPACKET_V2 of
linux/if_packet.h, and the pcap format (draft-ietf-opsawg-pcap) with nanoseconds.

The state is the kernel's record of events (net/ipv4/tcp_record.c) in the sender's network
namespace. It is read with each ping, when a process is awake anyway, and compressed in parts
(`pack`).
"""

from __future__ import annotations

import contextlib
import functools
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.emulation import hosts
from losslab.emulation.probes import Record
from losslab.errors import LosslabError
from losslab.study.packetsizes import DEFAULT

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.emulation.programs import Host

ETH_P_ALL = 3  # linux/if_ether.h
SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 263, 5, 6, 10
TPACKET_V2 = 1
TP_STATUS_KERNEL, TP_STATUS_USER = 0, 1
STATUS = struct.Struct("=I")
# tp_status, tp_len, tp_snaplen, tp_mac, tp_net, tp_sec, tp_nsec
HEADER = struct.Struct("=IIIHHII")
# Bytes of each packet in the ring. Besides the ring's own header they hold the Ethernet, IP and
# longest TCP headers (134 bytes).
FRAME_ROOM_BYTES = 256
BLOCK_BYTES = 1 << 20
# Ring size as a multiple of the full packets that the link can carry in the run. Acknowledgements
# take half of it; the rest is for smaller packets.
ROOM = 4
# Time before and after the traffic, for pings, handshakes and retransmissions.
MORE_S = 20.0
RING_MAX_BYTES = 1 << 30  # half of a guest's memory
# Nanoseconds, version 2.4, no time zone, whole frames of any length, Ethernet.
FILE_HEADER = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 1)
RECORD = struct.Struct("=IIII")
# A capture that is of no link: the private state of the sender's congestion controls. The file that
# says what it means is in the job's folder.
STATE, LAYOUTS = "state", "layouts.json"
GZIP_BITS = 31  # zlib: a window of 32 KiB, with the header of gzip
ROOM_BYTES = 1 << 20  # for events that are not compressed yet
RECORD_BLOCK_BYTES = 1 << 14  # the kernel hands out whole blocks, as many as fit
# `struct tcp_event` of net/ipv4/tcp_record.c: place of `private_bytes`, and the bytes before
# `private`. An event's length is a multiple of 8.
PRIVATE_BYTES_AT, HEAD_BYTES, ALIGNMENT = 78, 96, 8
COUNT_BYTES = 4  # of the number of events in a part


def name(link: str) -> str:
    """Return the file name of a link's capture, or of that of the state."""
    return "capture-state.gz" if link == STATE else f"capture-{link}.pcap"


class Ring:
    """Copies of an interface's packets, which the kernel makes without waking a process.

    It is open in the network namespace in which it is created. `kind` is SOCK_RAW for whole frames,
    or SOCK_DGRAM for packets without the Ethernet header.
    """

    def __init__(self, interface: str, protocol: int, octets: int, kind: int) -> None:
        # Imported only when a ring is needed.
        import mmap

        # Protocol 0: the socket receives nothing until it has its ring and is bound.
        self._socket, self._at, self._octets = socket.socket(socket.AF_PACKET, kind, 0), 0, octets
        self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        shape = (BLOCK_BYTES, octets // BLOCK_BYTES, FRAME_ROOM_BYTES, octets // FRAME_ROOM_BYTES)
        self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, struct.pack("=IIII", *shape))
        self._memory = mmap.mmap(self._socket.fileno(), octets)
        self._socket.bind((interface, protocol))

    def packets(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Take out the packets that have come; yield time in s and ns, length, first bytes."""
        while True:
            status, length, kept, begin, _, sec, nsec = HEADER.unpack_from(self._memory, self._at)
            if not status & TP_STATUS_USER:
                return
            yield sec, nsec, length, self._memory[self._at + begin : self._at + begin + kept]
            STATUS.pack_into(self._memory, self._at, TP_STATUS_KERNEL)
            self._at = (self._at + FRAME_ROOM_BYTES) % self._octets

    def dropped(self) -> int:
        """Return the number of packets that found the ring full, since the last call."""
        counts = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        return int(struct.unpack("=II", counts)[1])

    def close(self) -> None:
        """Close the ring."""
        self._memory.close()
        self._socket.close()


def _write(ring: Ring, link: str, path: Path) -> list[str]:
    """Write the packets in their order; return a violation if any is missing."""
    count = 0
    with path.open("wb") as out:
        out.write(FILE_HEADER)
        for sec, nsec, length, kept in ring.packets():
            out.write(RECORD.pack(sec, nsec, len(kept), length))
            out.write(kept)
            count += 1
    dropped = ring.dropped()
    if dropped == 0 and count:
        return []
    return [
        f"the capture of {link} must hold every packet, found {count} captured and {dropped} "
        "dropped because the ring was full"
    ]


def event_bytes(events: bytearray | bytes) -> int:
    """Return the length of each of the kernel's events, given the first."""
    private = int.from_bytes(events[PRIVATE_BYTES_AT : PRIVATE_BYTES_AT + 2], sys.byteorder)
    return HEAD_BYTES + private + -private % ALIGNMENT


def pack(events: bytearray) -> bytes:
    """Return events with the bytes of each place together, and constant bytes only once.

    They are the number of events, the first event, a byte for each place that is 1 if
    other events differ there, and these places' bytes of all events. To make and compress this
    takes half of the time that compressing the events as they are takes, and a third of the room.
    """
    size = event_bytes(events)
    places = [events[n::size] for n in range(size)]
    differs = [place != place[:1] * len(place) for place in places]
    varying = [place for place, its in zip(places, differs, strict=True) if its]
    count = (len(events) // size).to_bytes(COUNT_BYTES, "little")
    return b"".join([count, events[:size], bytes(differs), *varying])


class StateLog:
    """Record of the events of congestion controls in the network namespace that begins it."""

    origin_ns = 0  # 0 s of the run's tables

    def __init__(self, layouts: str) -> None:
        import zlib  # imported only when a capture is requested

        # A `compressobj` has a lock, and taking it reads the clock.
        self._compress = functools.partial(zlib.compress, level=1, wbits=GZIP_BITS)
        self._layouts, self._record = layouts, Record()
        self._packed = list[bytes]()
        self._room, self._used = bytearray(ROOM_BYTES), 0
        self._record.begin("events")

    def read(self) -> None:
        """Take what has been recorded out of the kernel's memory, which holds 32 MiB."""
        room = memoryview(self._room)
        while True:
            self._used += self._record.read_into(room[self._used :])
            if self._used <= ROOM_BYTES - RECORD_BLOCK_BYTES:
                return  # the next block had room, so there is none
            self._pack()

    def _pack(self) -> None:
        if not self._used:
            return
        self._packed.append(self._compress(pack(self._room[: self._used])))
        self._used = 0

    def write(self, path: Path) -> list[str]:
        """Write layouts and origin as a line of JSON, then the events; return a violation."""
        self.read()
        self.read()  # finds out whether the record was full
        self._record.close()
        header = f'{{"origin_ns": {self.origin_ns}, "layouts": {self._layouts}}}'
        line = " ".join(header.split()) + "\n"
        self._pack()
        path.write_bytes(b"".join([self._compress(line.encode()), *self._packed]))
        if not self._record.full:
            return []
        return ["the capture of the state must hold every event, found the kernel's record full"]


@contextlib.contextmanager
def running(
    links: Sequence[str], plan: Plan, nodes: Mapping[str, Host], folder: Path, violations: list[str]
) -> Iterator[StateLog | None]:
    """Capture links for the length of the block; write a file for each to `folder` at its end.

    A link is an interface, `HOST-NEIGHBOUR`. Its packets are captured in both directions. The block
    must read the log of the `state`, if any, which is yielded. An incomplete capture is added to
    `violations`.
    """
    with contextlib.ExitStack() as stack:
        captures = {link: _open(link, plan, nodes, stack) for link in links if link != STATE}
        state = None
        if STATE in links:
            with hosts.inside(nodes["sender"].pid):
                state = StateLog((folder.parent / LAYOUTS).read_text())
        yield state
        if state is not None:
            violations += state.write(folder / name(STATE))
        for link, ring in captures.items():
            violations += _write(ring, link, folder / name(link))


def ring_bytes(rate_mbit: float, duration_s: float, frame_bytes: int = DEFAULT.frame_bytes) -> int:
    """Return the size of a capture's ring."""
    packets = ROOM * rate_mbit * 1e6 / 8 / frame_bytes * (duration_s + MORE_S)
    return min(RING_MAX_BYTES, BLOCK_BYTES * (1 + int(packets * FRAME_ROOM_BYTES) // BLOCK_BYTES))


def _open(link: str, plan: Plan, nodes: Mapping[str, Host], stack: contextlib.ExitStack) -> Ring:
    host = next((host for host, setup in plan.hosts.items() if link in setup.interfaces), None)
    if host is None:
        links = sorted(name for setup in plan.hosts.values() for name in setup.interfaces)
        raise LosslabError(f"a link to capture must be one of {', '.join(links)}, found {link}")
    path = plan.path_spec
    octets = ring_bytes(path.rate_mbit, plan.duration_s, path.sizes.frame_bytes)
    with hosts.inside(nodes[host].pid):
        ring = Ring(link, ETH_P_ALL, octets, socket.SOCK_RAW)
    return stack.enter_context(contextlib.closing(ring))
