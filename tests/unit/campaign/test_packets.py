"""Packets and segments of a capture."""

import struct

import pytest

from losslab.campaign import packets
from losslab.emulation import probes
from losslab.emulation.capture import FILE_HEADER, RECORD
from losslab.errors import LosslabError
from losslab.study.condition import Condition

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


def capture(*frames):
    """Return a pcap with a frame per millisecond, after the pings of the idle path."""
    pings = [frame(1, probes.echo_request(number)) for number in (0, 1, 0)]
    records = [
        RECORD.pack(7, n * 1_000_000, len(each), len(each)) + each
        for n, each in enumerate([*pings, *frames])
    ]
    return FILE_HEADER + b"".join(records)


def test_segments_of_a_server_at_the_sender_have_the_ports_of_its_clients():
    _, seen = packets.segments(capture(data(0), ack(1000)))
    condition = Condition(algorithm="cubic", app="command", listens="sender")
    assert [s.port for s in packets.by_flow(seen, condition)] == [s.remote_port for s in seen]
    assert packets.by_flow(seen, Condition(algorithm="cubic")) == seen
    assert {s.remote_port for s in seen}.isdisjoint({s.port for s in seen})


def test_packets_of_the_sender_are_numbered_from_the_start_of_the_traffic():
    ping_of_traffic = frame(1, probes.echo_request(1))
    _, seen = packets.sent(capture(data(0), ack(1000), ping_of_traffic, data(1000)))
    assert [its and its.begin for its in seen] == [None, START, None, START + 1000 - 2**32]


def test_capture_of_another_program_is_refused():
    with pytest.raises(LosslabError, match="found another header"):
        packets.segments(b"\xd4\xc3\xb2\xa1")
    with pytest.raises(LosslabError, match="first ping"):
        packets.segments(FILE_HEADER)
