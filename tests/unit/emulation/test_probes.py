"""Netlink probes on recorded answers of a guest's kernel, compared with `ss` and `tc`."""

import json
import re
import socket
import struct

import pytest

from losslab.emulation import probes
from tests.golden import netlink as recorded

RECORDED = json.loads(recorded.FILE.read_text())
TCP, QUEUE = RECORDED["tcp"], RECORDED["queue"]
BOTTLENECK = recorded.BOTTLENECK


class Kernel:
    """A netlink socket that gives the recorded replies to the recorded request."""

    def __init__(self, recorded):
        self.replies = [bytes.fromhex(reply) for reply in recorded["replies"]]
        self.request = bytes.fromhex(recorded["request"])

    def send(self, data):
        assert data == self.request

    def recv(self, size):
        return self.replies.pop(0)


@pytest.fixture
def samples(monkeypatch):
    """Return a function that samples the connections of a recorded dump."""

    def sample(recorded):
        monkeypatch.setattr(probes.socket, "socket", lambda *family: Kernel(recorded))
        return probes.TcpProbe().sample()

    return sample


@pytest.fixture
def waiting(monkeypatch):
    """Return a function that samples the queue of the interface `index` in a recorded dump."""

    def sample(recorded, index=QUEUE["index"]):
        monkeypatch.setattr(probes.socket, "socket", lambda *family: Kernel(recorded))
        monkeypatch.setattr(probes.socket, "if_nametoindex", {BOTTLENECK: index}.get)
        probe = probes.QueueProbe(BOTTLENECK)
        if index != QUEUE["index"]:
            probe._socket.request = probe._request
        return probe.sample(1.5)

    return sample


def test_sampled_connections_equal_those_of_ss(samples):
    found = samples(TCP)
    said = re.findall(r"(\S+):(\d+) \S+\n\t (\w+) (.*)", TCP["tool"])
    assert [(str(s.source_port), s.algorithm) for s in found] == [
        (port, algorithm) for _, port, algorithm, _ in said
    ]
    for sample, (*_, words) in zip(found, said, strict=True):
        numbers = dict(re.findall(r"(\w+):([0-9.]+)", words))
        rates = dict(re.findall(r"(\w+_rate) (\d+)bps", words))
        srtt, rttvar = re.search(r"rtt:([0-9.]+)/([0-9.]+)", words).groups()
        assert sample.cwnd_packets == int(numbers["cwnd"])
        assert str(sample.ssthresh_packets) == numbers.get("ssthresh", "None")
        assert (f"{sample.srtt_ms:g}", f"{sample.rttvar_ms:g}") == (srtt, rttvar)
        assert round(sample.pacing_mbit * 1e6) == int(rates["pacing_rate"])
        assert round(sample.delivery_mbit * 1e6) == int(rates["delivery_rate"])
        assert sample.retransmits == int((re.findall(r"retrans:\d+/(\d+)", words) or ["0"])[0])
        assert sample.bytes_acked == int(numbers["bytes_acked"])
        sacked = int(numbers.get("sacked", 0)) * int(numbers["mss"])
        assert sample.delivered_bytes == sample.bytes_acked + sacked
        assert round(sample.busy_s * 1e3) == int(numbers["busy"])
        assert (sample.rwnd_limited_s, sample.sndbuf_limited_s) == (0, 0)
    # The dump has a connection in slow start and one beyond it.
    assert {sample.ssthresh_packets is None for sample in found} == {True, False}


def test_refused_dump_is_an_error(samples):
    refusal = struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -1)  # NLMSG_ERROR, EPERM
    with pytest.raises(PermissionError, match="refused a request"):
        samples(TCP | {"replies": [refusal.hex()]})


def message(kind, payload):
    return struct.pack("=IHHII", 16 + len(payload), kind, 0, 1, 0) + payload


DONE = message(probes.NLMSG_DONE, bytes(4))


def test_dump_may_have_more_parts_than_one_call_takes():
    # net/netlink/af_netlink.c limits each part of an answer to this length.
    parts = [message(20, bytes([n]) * (probes.PART_BYTES - 16)) for n in range(3)]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.settimeout(5)
    with ours, theirs:
        for part in [*parts, DONE]:
            theirs.send(part)
        assert probes.answer(ours) == [(20, part[16:]) for part in parts]


def test_selectively_acknowledged_data_counts_as_delivered():
    info = bytearray(232)
    struct.pack_into("=I", info, 16, 1448)  # snd_mss
    struct.pack_into("=I", info, 28, 3)  # sacked
    struct.pack_into("=Q", info, 120, 10_000)  # bytes_acked
    sample = probes.parse_tcp_info(1, "cubic", bytes(info))
    assert (sample.bytes_acked, sample.delivered_bytes) == (10_000, 14_344)
    assert sample.row(0.5).split(",")[-1] == "14344"
    assert len(sample.row(0.5).split(",")) == len(probes.TCP_COLUMNS.split(","))


def test_sampled_queue_equals_that_of_tc(waiting):
    [root] = [q for q in json.loads(QUEUE["tool"]) if q["dev"] == BOTTLENECK and "root" in q]
    assert root["qlen"] > 0
    assert root["drops"] > 0
    assert waiting(QUEUE) == probes.QueueSample(
        1.5, root["qlen"], root["backlog"], root["drops"], root["bytes"]
    )


def test_interface_without_a_root_qdisc_is_an_error_whatever_its_inner_ones(waiting):
    [reply] = map(bytes.fromhex, QUEUE["replies"])
    root = struct.pack("=I", probes.TC_H_ROOT)
    assert reply.count(root) == 1
    inner = reply.replace(root, struct.pack("=I", 0x0001_0000))
    with pytest.raises(OSError, match="no root qdisc"):
        waiting(QUEUE | {"replies": [inner.hex()]})
    with pytest.raises(OSError, match="interface 99"):
        waiting(QUEUE, index=99)


def test_checksum_of_a_complete_request_is_zero():
    assert probes.checksum(probes.echo_request(513)) == 0
    # RFC 1071, section 3: the sum of 0001 f203 f4f5 f6f7 is ddf2.
    assert probes.checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF & ~0xDDF2


def test_only_own_replies_count():
    header = bytes([0x45]) + bytes(19)
    reply = struct.pack("!BBHHH", 0, 0, 0, probes.IDENTIFIER, 7)
    assert probes.reply_sequence(header + reply) == 7
    assert probes.reply_sequence(header + probes.echo_request(7)) is None
    other = struct.pack("!BBHHH", 0, 0, 0, probes.IDENTIFIER + 1, 7)
    assert probes.reply_sequence(header + other) is None
    assert probes.reply_sequence(header + other, of=probes.IDLE_IDENTIFIER) == 7
    with_options = bytes([0x46]) + bytes(23)
    assert probes.reply_sequence(with_options + reply) == 7
    # A raw socket of IPv6 gives no header.
    assert probes.reply_sequence(struct.pack("!BBHHH", 129, 0, 0, probes.IDENTIFIER, 7), 6) == 7
    assert probes.reply_sequence(probes.echo_request(7, 6), 6) is None
