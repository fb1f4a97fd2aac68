"""Captured packets of a run, and the TCP segments at its sender.

A run without a capture is measured again with one, which must give the same bytes otherwise.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST
from losslab.campaign import rerun
from losslab.campaign.results import MANIFEST_FILE
from losslab.emulation import capture
from losslab.emulation.capture import FILE_HEADER, RECORD
from losslab.emulation.plan import make_plan
from losslab.emulation.probes import ECHO_REQUEST, ECHO_REQUEST_6, IDENTIFIER
from losslab.emulation.topology import SENDER_ADDRESS, at_version, interface
from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.study.condition import Condition
from losslab.study.packetsizes import ETHERNET_BYTES, IP_BYTES

SENDERS_LINK = interface("sender", "r1").name
IPV4, IPV6 = 0x0800, 0x86DD
# Numbers of the protocols (RFC 790, RFC 4443), and types of echo requests.
TCP = 6
PINGS = {IPV4: (1, ECHO_REQUEST), IPV6: (58, ECHO_REQUEST_6)}
SACK, END, NOTHING = 5, 0, 1  # TCP options, RFC 9293 and RFC 2018


@dataclass(frozen=True)
class Segment:
    """A TCP segment at the sender's interface."""

    at_ns: int
    sent: bool  # False: received
    port: int  # the sender's port
    begin: int  # first sequence number of the data
    octets: int
    acked: int
    sacked: tuple[tuple[int, int], ...] = ()
    remote_port: int = 0


def packets(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the packets of a capture: the time in ns, and the captured part of the frame."""
    if not content.startswith(FILE_HEADER):
        raise LosslabError("a capture must be a pcap file written by losslab, found another header")
    at = len(FILE_HEADER)
    while at < len(content):
        seconds, nanoseconds, kept, _ = RECORD.unpack_from(content, at)
        at += RECORD.size
        yield seconds * 1_000_000_000 + nanoseconds, content[at : at + kept]
        at += kept


def segments(content: bytes) -> tuple[int, list[Segment]]:
    """Read the TCP segments of all connections from a capture of the sender's interface.

    Also returns the time in ns that is 0 s in the run's tables, that of the first ping during the
    traffic.
    """
    origin_ns, found = traffic(content)
    return origin_ns, [segment for _, segment in found if segment is not None]


def traffic(content: bytes) -> tuple[int, list[tuple[int, Segment | None]]]:
    """Return the origin of `segments`, and times of all segments and the sender's other packets."""
    origins, timed = [], list[tuple[int, Segment | None]]()
    # The sender's network: beside other traffic, user programs have addresses of their own.
    sender = bytes(map(int, SENDER_ADDRESS.split(".")[:3]))
    sender6 = socket.inet_pton(socket.AF_INET6, at_version(SENDER_ADDRESS, 6))[:8]
    for at_ns, frame in packets(content):
        kind_of_ip = struct.unpack_from("!H", frame, 12)[0]
        if kind_of_ip not in PINGS:
            continue
        if kind_of_ip == IPV4:
            header = ETHERNET_BYTES + 4 * (frame[ETHERNET_BYTES] & 0x0F)
            protocol, from_sender = frame[ETHERNET_BYTES + 9], frame[26:29] == sender
            end = ETHERNET_BYTES + struct.unpack_from("!H", frame, ETHERNET_BYTES + 2)[0]
        else:
            header = ETHERNET_BYTES + IP_BYTES[6]
            protocol, from_sender = frame[ETHERNET_BYTES + 6], frame[22:30] == sender6
            end = header + struct.unpack_from("!H", frame, ETHERNET_BYTES + 4)[0]
        icmp, request = PINGS[kind_of_ip]
        if protocol == icmp:
            kind, _, _, identifier, number = struct.unpack_from("!BBHHH", frame, header)
            if (kind, identifier, number) == (request, IDENTIFIER, 0):
                origins.append(at_ns)
        if protocol == TCP:
            timed.append((at_ns, _segment(at_ns, frame, header, end, from_sender)))
        elif from_sender:
            timed.append((at_ns, None))
    if not origins:
        raise LosslabError("a capture must contain the first ping of the traffic, found none")
    # The pings on the idle path, if they have the same identifier, come first.
    return origins[-1], timed


def _segment(at_ns: int, frame: bytes, header: int, end: int, sent: bool) -> Segment:
    source, target, begin, acked, size, flags = struct.unpack_from("!HHIIBB", frame, header)
    data = header + 4 * (size >> 4)
    syn = flags & 0x02
    return Segment(
        at_ns, sent, source if sent else target, begin + (1 if syn else 0), end - data, acked,
        () if sent else tuple(_sacked(frame[header + 20 : data])), target if sent else source,
    )  # fmt: skip


def _sacked(options: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(options) and options[at] != END:
        if options[at] == NOTHING:
            at += 1
            continue
        length = options[at + 1]
        if options[at] == SACK:
            for block in range(at + 2, at + length, 8):
                yield struct.unpack_from("!II", options, block)
        at += max(2, length)


def links(names: Sequence[str], condition: Condition, where: str = GUEST) -> list[str]:
    """Return the distinct names of links to capture, or `state`; refuse impossible ones."""
    plan = make_plan(condition, 0)
    available = sorted(name for host in plan.hosts.values() for name in host.interfaces)
    if unknown := sorted({*names} - {*available, capture.STATE}):
        raise UsageError(
            f"a link to capture must be one of {', '.join(available)}, or it must be "
            f"{capture.STATE}, found {', '.join(unknown)}"
        )
    reason = ""
    if where != GUEST:
        reason = f"this machine's own kernel (where {where}), which keeps no record of it"
    elif all(flow.protocol == "udp" for flow in plan.flows):
        reason = f"the app {condition.app}, whose congestion control is a program's and not TCP's"
    if reason and capture.STATE in names:
        raise UsageError(
            f"the {capture.STATE} must be that of a congestion control in losslab's kernel, found "
            f"{reason}"
        )
    return list(dict.fromkeys(names))


@contextlib.contextmanager
def captured(
    folder: Path, manifest: dict[str, Any], link: str, trusted: bool = False
) -> Iterator[Path]:
    """Yield the capture of a link or of the state; measure the run again if it has none.

    Raises LosslabError if the bytes differ then, or the manifest names programs of its author and
    is not `trusted`.
    """
    file = folder / capture.name(link)
    if file.is_file():
        yield file
        return
    where = manifest["instrument"].get("where", GUEST)
    links([link], Condition.from_json(manifest["cell"]), where)
    with rerun.again(manifest, rerun.ready(manifest, trusted), captures=[link]) as (second, _):
        # The capture is new, and the manifest lists it.
        if problems := rerun.compare(folder, second).problems(file.name, MANIFEST_FILE):
            raise LosslabError(
                f"the run must give the same bytes as {folder} when measured again, found: "
                f"{problems}",
                hint="another instrument or machine measured it; measure again with --capture",
            )
        yield second / file.name
