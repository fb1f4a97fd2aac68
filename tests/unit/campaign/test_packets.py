"""Packets and segments of a capture."""

import struct

import pytest

from losslab.campaign import packets
from losslab.emulation import probes
from losslab.emulation.capture import FILE_HEADER, RECORD
from losslab.errors import LosslabError

SENDER, RECEIVER = bytes([10, 0, 1, 1]), bytes([10, 0, 3, 2])
PORT, START = 40001, 0xFFFF_FF00  # sequence numbers wrap around during the flow


def frame(protocol, payload, source=SENDER, target=RECEIVER):
    length = 20 + len(payload)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, protocol, 0) + source + target
    return bytes(12) + struct.pack("!H", 0x0800) + ip + payload


def data(at, octets=1000):
    header = struct.pack("!HHIIBBHHH", PORT, 5201, (START + at) % 2**32, 1, 5 << 4, 0x10, 0, 0, 0)
    return frame(6, header + bytes(octets))


def ack(at, *blocks):
    options = b"".join(struct.pack("!II", *((START + n) % 2**32 for n in b)) for b in blocks)
    if blocks:
        options = bytes([1, 1, 5, 2 + len(options)]) + options
    size = (20 + len(options)) // 4 << 4
    header = struct.pack("!HHIIBBHHH", 5201, PORT, 1, (START + at) % 2**32, size, 0x10, 0, 0, 0)
    return frame(6, header + options, RECEIVER, SENDER)


# Two pings on the idle path, and the first of the traffic.
PINGS = [
    frame(1, probes.echo_request(0, identifier=probes.IDLE_IDENTIFIER)),
    frame(1, probes.echo_request(1, identifier=probes.IDLE_IDENTIFIER)),
    frame(1, probes.echo_request(0)),
]


def capture(*frames):
    """Return a pcap with a frame per millisecond, after the pings of the idle path."""
    records = [
        RECORD.pack(7, n * 1_000_000, len(each), len(each)) + each
        for n, each in enumerate([*PINGS, *frames])
    ]
    return FILE_HEADER + b"".join(records)


def over_ipv6(frame):
    """Return a frame of `frame` over IPv6, its pings as those of ICMPv6."""
    protocol, payload = {1: 58, 6: 6}[frame[23]], frame[34:]
    if protocol == 58:
        identifier, number = struct.unpack_from("!HH", payload, 4)
        payload = probes.echo_request(number, 6, identifier)
    ends = [
        bytes([0xFD, 0, 0, each[2]]) + bytes(11) + each[3:] for each in (frame[26:30], frame[30:34])
    ]
    ip = struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + ends[0] + ends[1]
    return bytes(12) + struct.pack("!H", 0x86DD) + ip + payload


def test_segments_have_both_ports_and_are_the_same_over_ipv6():
    frames = [data(0), ack(1000, (2000, 3000)), data(1000)]
    content = capture(*frames)
    for each in (*PINGS, *frames):
        old, new = (RECORD.pack(7, 0, len(e), len(e))[8:] + e for e in (each, over_ipv6(each)))
        content = content.replace(old, new)
    assert packets.segments(content) == packets.segments(capture(*frames))
    _, seen = packets.segments(capture(*frames))
    assert {(each.port, each.remote_port) for each in seen} == {(PORT, 5201)}


def test_capture_of_another_program_is_refused():
    with pytest.raises(LosslabError, match="found another header"):
        packets.segments(b"\xd4\xc3\xb2\xa1")
    with pytest.raises(LosslabError, match="first ping"):
        packets.segments(FILE_HEADER)
