"""Conversion of a capture to a packetdrill script."""

import struct
from dataclasses import replace

import pytest

from losslab.campaign import packetdrill
from losslab.emulation.capture import FILE_HEADER, RECORD
from losslab.emulation.probes import ping
from losslab.reading import UsageError
from losslab.study.condition import Condition

SENDER, RECEIVER = bytes([10, 0, 1, 1]), bytes([10, 0, 3, 2])
PORT, START, OTHER = 40001, 0xFFFF_FF00, 500  # sequence numbers wrap around during the flow
STAMP, OTHERS_STAMP = 7000, 9000
SYN, ACK = 0x02, 0x10
BEGIN_OPTIONS = bytes([2, 4, 5, 180, 4, 2])  # MSS 1460, SACK permitted
SCALE = bytes([1, 3, 3, 7])
CONDITION = Condition(algorithm="cubic", rate_mbit=10, rtt_ms=20, buffer_packets=30, duration_s=4)
MANIFEST = {
    "cell": CONDITION.to_json(),
    "plan": {"hosts": {"sender": {"sysctls": {f"net.ipv4.{n}": "1" for n in packetdrill.SYSCTLS}}}},
}


def frame(protocol, payload, source=SENDER, target=RECEIVER):
    length = 20 + len(payload)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, protocol, 0) + source + target
    return bytes(12) + struct.pack("!H", 0x0800) + ip + payload


def stamps(own, other):
    return bytes([8, 10]) + struct.pack("!II", own, other)


def tcp(source, target, sequence, acked, flags, options, octets=0, window=100):
    size = (20 + len(options)) // 4 << 4
    numbers = sequence % 2**32, acked % 2**32
    header = struct.pack("!HHIIBBHHH", source, target, *numbers, size, flags, window, 0, 0)
    ways = (SENDER, RECEIVER) if source == PORT else (RECEIVER, SENDER)
    return frame(6, header + options + bytes(octets), *ways)


def sent(at, octets, ms, heard_ms, flags=ACK):
    options = bytes([1, 1]) + stamps(STAMP + ms, OTHERS_STAMP + heard_ms)
    return tcp(PORT, 5201, START + 1 + at, OTHER + 1, flags, options, octets)


def received(at, ms, heard_ms, *blocks):
    options = bytes([1, 1]) + stamps(OTHERS_STAMP + ms, STAMP + heard_ms)
    if blocks:
        edges = struct.pack(f"!{len(blocks)}I", *((START + 1 + each) % 2**32 for each in blocks))
        options += bytes([1, 1, 5, 2 + len(edges)]) + edges
    return tcp(5201, PORT, OTHER + 1, START + 1 + at, ACK, options)


def script(until_s=1.0, manifest=MANIFEST):
    """Return the script of a handshake, a first write, and a loss."""
    syn = BEGIN_OPTIONS + stamps(STAMP, 0) + SCALE
    answer = BEGIN_OPTIONS + stamps(OTHERS_STAMP, STAMP) + SCALE
    frames = [
        *((0, frame(1, ping.request(number))) for number in (0, 1, 0)),
        (10, tcp(PORT, 5201, START, 0, SYN, syn)),
        (30, tcp(5201, PORT, OTHER, START + 1, SYN | ACK, answer)),
        (30, sent(0, 0, 20, 0)),
        (30, sent(0, 37, 20, 0, ACK | 0x08)),
        (50, received(37, 20, 20)),
        (50, sent(37, 1448, 40, 20)),
        (50, sent(1485, 1448, 40, 20, ACK | 0x08)),
        (51, sent(2933, 1448, 41, 20)),
        (80, received(37, 40, 20, 1485, 2933)),
        (95, sent(37, 1448, 70, 40)),
    ]
    records = (RECORD.pack(7, ms * 10**6, len(f), len(f)) + f for ms, f in frames)
    rows = [
        {"t_s": str(ms / 1e3), "flow": str(flow), "cwnd_packets": "10", "ssthresh_packets": after}
        for ms, flow, after in ((60, PORT, ""), (60, 5, "9"), (80, PORT, "9"), (90, PORT, "9"))
    ]  # fmt: skip
    return packetdrill.script("title", manifest, rows, FILE_HEADER + b"".join(records), until_s)


def events(text):
    return [line for line in text.splitlines() if line[0].isdigit() and line[1] == "."]


def test_script_has_segments_acknowledgements_and_windows():
    assert events(script()) == [
        "0.000000 > S 0:0(0) <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7>",
        "0.020000 < S. 0:0(0) ack 1 win 100 <mss 1460,sackOK,TS val 1 ecr 1,nop,wscale 7>",
        "0.020000 > . 1:1(0) ack 1 <nop,nop,TS val 21 ecr 1>",
        "0.020000 write(3, ..., 37) = 37",
        "0.020000 > P. 1:38(37) ack 1 <nop,nop,TS val 21 ecr 1>",
        "0.040000 < . 1:1(0) ack 38 win 100 <nop,nop,TS val 21 ecr 21>",
        "0.040000 write(3, ..., 1052920) = 1052920",
        # Two segments that left together: a device may take them as one.
        "0.040000 > P. 38:2934(2896) ack 1 <nop,nop,TS val 41 ecr 21>",
        "0.041000 > . 2934:4382(1448) ack 1 <nop,nop,TS val 42 ecr 21>",
        # Not at 80 ms, when a packet arrived.
        "0.050000 %{ assert (tcpi_snd_cwnd, tcpi_snd_ssthresh) == (10, 2147483647), "
        "(tcpi_snd_cwnd, tcpi_snd_ssthresh) }%",
        "0.070000 < . 1:1(0) ack 38 win 100 <nop,nop,TS val 41 ecr 21,nop,nop,sack 1486:2934>",
        "0.080000 %{ assert (tcpi_snd_cwnd, tcpi_snd_ssthresh) == (10, 9), "
        "(tcpi_snd_cwnd, tcpi_snd_ssthresh) }%",
        "0.085000 > . 38:1486(1448) ack 1 <nop,nop,TS val 71 ecr 41>",
    ]


def test_script_ends_at_a_time_of_the_tables():
    assert events(script(until_s=0.06))[-1].startswith("0.041000 > .")


def test_script_sets_the_senders_qdisc_and_algorithm():
    assert "tc qdisc replace dev tun0 root fq limit 10000 flow_limit 10000`" in script()
    assert 'TCP_CONGESTION, "cubic", 5) = 0' in script()
    manifest = MANIFEST | {"cell": replace(CONDITION, sender_queue="fq_codel").to_json()}
    assert "root pfifo`" in script(manifest=manifest)


@pytest.mark.parametrize(
    ("name", "value"), [("ecn", "on"), ("app", "web"), ("offloads", "on"), ("competitor", "bbr")]
)
def test_other_senders_are_refused(name, value):
    with pytest.raises(UsageError, match=f"found {name} {value}"):
        packetdrill.require(replace(CONDITION, **{name: value}))
