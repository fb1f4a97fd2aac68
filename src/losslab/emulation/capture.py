"""Capture what crosses an interface, as a file that Wireshark opens, without touching the numbers.

The kernel copies the beginning of each packet into a ring that is as long as the whole run and is
read behind it: while packets flow nobody wakes, and no clock is looked at. Layouts: TPACKET_V2 of
linux/if_packet.h, and pcap's format (draft-ietf-opsawg-pcap) with nanoseconds.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.emulation import netns
from losslab.emulation.qdiscs import FRAME_BYTES
from losslab.errors import LosslabError

if TYPE_CHECKING:
    import mmap

    from losslab.emulation.flows import Host
    from losslab.emulation.plan import Plan

ETH_P_ALL = 3  # linux/if_ether.h
SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 263, 5, 6, 10
TPACKET_V2 = 1
TP_STATUS_USER = 1
# tp_status, tp_len, tp_snaplen, tp_mac, tp_net, tp_sec, tp_nsec
HEADER = struct.Struct("=IIIHHII")
# Of each packet; what is left beside the ring's own header has Ethernet's, IP's and the longest of
# TCP's, which are 134 bytes.
FRAME_ROOM_BYTES = 256
BLOCK_BYTES = 1 << 20
# A ring has as many full packets as the link carries in the run and this many times more: half of
# that are acknowledgements, the rest is for packets that are smaller.
ROOM = 4
# Before and after the traffic: pings, handshakes, and what waits for a retransmission.
MORE_S = 20.0
RING_MAX_BYTES = 1 << 30  # half of a guest's memory
# Nanoseconds, version 2.4, no time zone, whole frames of any length, Ethernet.
FILE_HEADER = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 1)
RECORD = struct.Struct("=IIII")


def name(link: str) -> str:
    """Name the file of a link's capture."""
    return f"capture-{link}.pcap"


Opened = tuple[socket.socket, "mmap.mmap"]  # of one interface, and its ring


def _write(opened: Opened, link: str, path: Path) -> list[str]:
    """Write what was seen, in its order; say what of it is missing."""
    sock, ring = opened
    count = 0
    with path.open("wb") as out:
        out.write(FILE_HEADER)
        for at in range(0, len(ring), FRAME_ROOM_BYTES):
            status, length, kept, mac, _, sec, nsec = HEADER.unpack_from(ring, at)
            if not status & TP_STATUS_USER:
                break
            out.write(RECORD.pack(sec, nsec, kept, length))
            out.write(ring[at + mac : at + mac + kept])
            count += 1
    _, dropped = struct.unpack("=II", sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    if dropped == 0 and count:
        return []
    return [
        f"the capture of {link} must hold every packet, found {count} in it and {dropped} that "
        "found no room"
    ]


@contextlib.contextmanager
def running(
    links: Sequence[str], plan: Plan, nodes: Mapping[str, Host], folder: Path, reasons: list[str]
) -> Iterator[None]:
    """Capture links for the length of the block; leave a file of each in `folder` at its end.

    A link is an interface, `HOST-NEIGHBOUR`: what leaves and what reaches it. What is missing of a
    capture is added to `reasons`.
    """
    with contextlib.ExitStack() as stack:
        opened = {link: _open(link, plan, nodes, stack) for link in links}
        yield
        for link, each in opened.items():
            reasons += _write(each, link, folder / name(link))


def _open(link: str, plan: Plan, nodes: Mapping[str, Host], stack: contextlib.ExitStack) -> Opened:
    host = next((host for host, its in plan.hosts.items() if link in its.interfaces), None)
    if host is None:
        known = sorted(name for its in plan.hosts.values() for name in its.interfaces)
        raise LosslabError(f"a link to capture must be one of {', '.join(known)}, found {link}")
    # Not before: what is not used is not loaded either.
    import mmap

    seconds = plan.duration_s + MORE_S
    packets = ROOM * plan.promise.rate_mbit * 1e6 / 8 / FRAME_BYTES * seconds
    octets = min(RING_MAX_BYTES, BLOCK_BYTES * (1 + int(packets * FRAME_ROOM_BYTES) // BLOCK_BYTES))
    frames = octets // FRAME_ROOM_BYTES
    with netns.inside(nodes[host].pid):
        # Bound to nothing before it has its ring.
        sock = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        sock.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        request = struct.pack("=IIII", BLOCK_BYTES, octets // BLOCK_BYTES, FRAME_ROOM_BYTES, frames)
        sock.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        ring = stack.enter_context(contextlib.closing(mmap.mmap(sock.fileno(), octets)))
        sock.bind((link, ETH_P_ALL))
    return sock, ring
