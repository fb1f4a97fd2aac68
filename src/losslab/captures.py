"""Packets of captures in the formats pcap and pcapng, and the TCP segments in them."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator

from losslab.reading import PCAP, PCAPNG, UsageError

FILE_HEADER_BYTES, PACKET_BYTES = 24, 16
# Blocks of pcapng (draft-ietf-opsawg-pcapng), and an interface's option of its clock.
SECTION, INTERFACE, SIMPLE, ENHANCED, IF_TSRESOL = 0x0A0D0D0A, 1, 3, 6, 9
IPV4, IPV6, VLANS, PPPOE, TCP = 0x0800, 0x86DD, (0x8100, 0x88A8, 0x9100), 0x8864, 6
PPP_PROTOCOLS = {0x0021: IPV4, 0x0057: IPV6}
# Link types with Ethernet's protocol: bytes of the header, and where it has the protocol.
LINKS = {1: (14, 12), 113: (16, 14), 276: (20, 0)}
RAW_LINKS = (12, 14, 101, 228, 229)
LOOPBACKS = (0, 108)  # four bytes with the address family
PPP_LINKS = (9, 50)
NAMES = {
    105: "IEEE 802.11", 119: "IEEE 802.11", 127: "IEEE 802.11", 187: "Bluetooth", 189: "USB",
    10: "FDDI", 195: "IEEE 802.15.4", 201: "Bluetooth", 220: "USB", 239: "log of netfilter",
    253: "netlink",
}  # fmt: skip

Packet = tuple[float, int, bytes, int]  # s, link type, kept bytes, bytes on the wire
Blocks = tuple[tuple[int, int], ...]  # of SACK, RFC 2018
Segment = tuple[float, bytes, bytes, int, int, int, int, Blocks, int]
SYN, ACK = 0x02, 0x10  # flags of TCP
SACK = 5  # an option of TCP
# Headers of IPv6 before TCP: options of each hop, which BIG TCP has, routing and the destination.
EXTENSIONS = (0, 43, 60)
PROTOCOLS = {1: "ICMP", 17: "UDP", 47: "GRE", 58: "ICMPv6", 132: "SCTP"}
# A copy of a packet, as from several interfaces, comes within this time.
COPY_S = 0.2
COPIES = "that are copies"


def is_capture(data: bytes) -> bool:
    """Return whether these are the first bytes of a pcap or pcapng file."""
    return data[:4] in PCAP or data.startswith(PCAPNG)


def segments(data: bytes, where: str, skipped: Counter[str]) -> Iterator[Segment]:
    """Yield the TCP segments: time, source, target, sequence, acknowledged number, bytes of data.

    The last values are the flags, the blocks of SACK and the window without its scale. `skipped`
    counts other packets by what they are. A packet that the capture has several times, as one of
    `-i any`, counts once. A SYN with another number begins a new connection, whose ends differ from
    those of the one before.
    """
    seen: dict[bytes, tuple[float, bytes]] = {}
    opened: dict[tuple[bytes, ...], tuple[int, int]] = {}  # its SYN's number, and the count
    for at_s, link, frame, wire in _packets(data, where):
        ip, why = _ip(link, frame)
        if ip is None:
            skipped[why] += 1
            continue
        tcp, ends, octets, why = _tcp(ip, wire - len(frame))
        if tcp is None or _is_copy(ip, tcp, ends, at_s, seen):
            skipped[why or COPIES] += 1
            continue
        _, _, begin, acked, size, flags, window = struct.unpack_from("!HHIIBBH", tcp)
        if not octets:
            skipped["of TCP without data"] += 1
        sacked = _sacked(tcp[20 : 4 * (size >> 4)]) if size >> 4 > 5 else ()
        source, target = ends[0] + tcp[:2], ends[1] + tcp[2:4]
        pair = (min(source, target), max(source, target))
        first, count = opened.get(pair, (begin, 0))
        if flags & SYN and not flags & ACK and (pair not in opened or first != begin):
            count += pair in opened
            opened[pair] = begin, count
        number = count.to_bytes(4) if count else b""
        yield at_s, source + number, target + number, begin, acked, octets, flags, sacked, window


def _tcp(ip: bytes, cut: int) -> tuple[bytes | None, tuple[bytes, bytes], int, str]:
    """Return the TCP header, the addresses and the bytes of data of an IP packet.

    Instead of a header, None with what the packet is. `cut` bytes of it are not in the capture.
    """
    if len(ip) >= 20 and ip[0] >> 4 == 4:
        header, total = 4 * (ip[0] & 15), int.from_bytes(ip[2:4])
        protocol, ends = ip[9], (ip[12:16], ip[16:20])
        if int.from_bytes(ip[6:8]) & 0x1FFF:
            return None, ends, 0, "that are later fragments"
    elif len(ip) >= 40 and ip[0] >> 4 == 6:
        header, total = 40, int.from_bytes(ip[4:6])
        total = 40 + total if total else 0
        protocol, ends = ip[6], (ip[8:24], ip[24:40])
        while protocol in EXTENSIONS and len(ip) >= header + 8:
            protocol, header = ip[header], header + 8 * (ip[header + 1] + 1)
    else:
        return None, (b"", b""), 0, "cut too short"
    if protocol != TCP:
        name = PROTOCOLS.get(protocol, f"the IP protocol {protocol}")
        return None, ends, 0, f"of {name}"
    tcp = ip[header:]
    if len(tcp) < 20:
        return None, ends, 0, "cut too short"
    # A segment that the interface cuts (TSO) may have no length of its own.
    total = total or len(ip) + cut
    return tcp, ends, max(0, total - header - 4 * (tcp[12] >> 4)), ""


def _is_copy(
    ip: bytes, tcp: bytes, ends: tuple[bytes, bytes], at_s: float,
    seen: dict[bytes, tuple[float, bytes]],
) -> bool:  # fmt: skip
    """Return whether a packet is in the capture already, and keep it in `seen`.

    Its identification in IPv4 and its TCP header are the same; a retransmission has another.
    """
    if ip[0] >> 4 != 4 or not any(ip[4:6]):
        return False
    packet = ip[4:6] + b"".join(ends)
    before_s, same = seen.get(packet, (0.0, b""))
    if same == tcp[:16] and abs(at_s - before_s) <= COPY_S:
        return True
    seen[packet] = at_s, tcp[:16]
    return False


def refuse_other(data: bytes, where: str) -> None:
    """Raise UsageError if a file is neither a capture in a known format nor text."""
    snoop = data.startswith(b"snoop\0")
    if snoop or b"\0" in data[:4096]:
        raise UsageError(
            f"{where} must be text, or a capture in the format pcap or pcapng, found "
            + ("a capture of snoop" if snoop else "other bytes"),
            hint=f"if it is a capture, convert it: `editcap -F pcap {where} capture.pcap`",
        )


def instead(skipped: Counter[str]) -> str:
    """Return what a capture has that is not used, the most first; empty without any."""
    return ", ".join(
        f"{count} packet{'s' * (count != 1)} {why}" for why, count in skipped.most_common(5)
    )


def copies_note(skipped: Counter[str]) -> list[str]:
    """Return the note on packets that a capture has several times, if there is any."""
    if not (count := skipped[COPIES]):
        return []
    return [
        "packets that the capture has several times, as from several interfaces, count once: "
        f"{count} copies"
    ]


def _sacked(options: bytes) -> Blocks:
    """Return the blocks of SACK in the options of a TCP header."""
    while options and options[0] != 0:
        if options[0] == 1:
            options = options[1:]
            continue
        length = options[1] if len(options) > 1 else 0
        if length < 2 or length > len(options):
            return ()
        if options[0] == SACK:
            return tuple(struct.iter_unpack("!II", options[2 : 2 + (length - 2) // 8 * 8]))
        options = options[length:]
    return ()


def _packets(data: bytes, where: str) -> Iterator[Packet]:
    if data.startswith(PCAPNG):
        yield from _of_pcapng(data, where)
        return
    order, ticks = PCAP[data[:4]]
    link = struct.unpack_from(f"{order}I", data.ljust(FILE_HEADER_BYTES, b"\0"), 20)[0] & 0xFFFF
    _require_link(link, where)
    at = FILE_HEADER_BYTES
    while at + PACKET_BYTES <= len(data):
        seconds, parts, kept, wire = struct.unpack_from(f"{order}IIII", data, at)
        at += PACKET_BYTES
        yield seconds + parts / ticks, link, data[at : at + kept], wire
        at += kept


def _of_pcapng(data: bytes, where: str) -> Iterator[Packet]:
    """Yield the packets of all interfaces of a pcapng file."""
    at, order, links = 0, "<", list[tuple[int, float]]()
    while at + 12 <= len(data):
        if data[at : at + 4] == PCAPNG:
            order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            links = []
        kind, length = struct.unpack_from(f"{order}II", data, at)
        if length < 12 or length % 4:
            raise UsageError(f"{where} must be a whole pcapng file, found a block of "
                             f"{length} bytes at byte {at}")  # fmt: skip
        body = data[at + 8 : at + length - 4]
        at += length
        if kind == INTERFACE and len(body) >= 8:
            link = struct.unpack_from(f"{order}H", body)[0]
            _require_link(link, where)
            links.append((link, _ticks(body[8:], order)))
        elif kind == ENHANCED and len(body) >= 20:
            number, high, low, kept, wire = struct.unpack_from(f"{order}IIIII", body)
            if number < len(links):
                link, ticks = links[number]
                yield ((high << 32) | low) / ticks, link, body[20 : 20 + kept], wire
        elif kind == SIMPLE and links:
            raise UsageError(f"{where} must have the times of its packets, found simple blocks of "
                             "pcapng, which have none")  # fmt: skip


def _ticks(options: bytes, order: str) -> float:
    """Return an interface's ticks per second."""
    while len(options) >= 4:
        code, size = struct.unpack_from(f"{order}HH", options)
        if code == IF_TSRESOL and len(options) > 4:
            exponent = options[4]
            return float(2 ** (exponent & 127) if exponent & 128 else 10**exponent)
        options = options[4 + (size + 3) // 4 * 4 :]
    return 1e6


def _require_link(link: int, where: str) -> None:
    known = (*LINKS, *RAW_LINKS, *LOOPBACKS, *PPP_LINKS)
    if link in known:
        return
    name = f" ({NAMES[link]})" if link in NAMES else ""
    raise UsageError(
        f"{where} must have a link type of {', '.join(map(str, sorted(known)))}, found "
        f"{link}{name}",
        hint="capture on an interface that has IP packets, such as `tcpdump -i eth0 -s 128`",
    )


def _ip(link: int, frame: bytes) -> tuple[bytes | None, str]:
    """Return the IP packet in a frame, or None with what it is instead."""
    if link in RAW_LINKS:
        return frame, ""
    if link in LOOPBACKS:
        return frame[4:], ""
    if link in PPP_LINKS:
        frame = frame.removeprefix(b"\xff\x03")
        return _of_ppp(frame)
    skip, place = LINKS[link]
    kind, ip = int.from_bytes(frame[place : place + 2]), frame[skip:]
    while kind in VLANS:
        kind, ip = int.from_bytes(ip[2:4]), ip[4:]
    if kind == PPPOE:
        return _of_ppp(ip[6:])
    if kind not in (IPV4, IPV6):
        return None, {0x0806: "of ARP", 0x8847: "of MPLS"}.get(
            kind, f"of the protocol 0x{kind:04x}"
        )
    return ip, ""


def _of_ppp(frame: bytes) -> tuple[bytes | None, str]:
    # One byte is enough for protocols below 256 (RFC 1661).
    size = 1 if frame[:1] and frame[0] & 1 else 2
    protocol = int.from_bytes(frame[:size])
    return (frame[size:], "") if protocol in PPP_PROTOCOLS else (None, f"of PPP 0x{protocol:04x}")
