"""What a guest's kernel answered over netlink, against what `ss` and `tc` said at that instant."""

import json
import re
import struct

import pytest

from losslab.emulation.probes import queue, tcp
from tests.golden import netlink

RECORDED = json.loads(netlink.FILE.read_text())


class Kernel:
    """A netlink socket on which the recorded replies come, once the recorded request was sent."""

    def __init__(self, recorded):
        self.replies = [bytes.fromhex(reply) for reply in recorded["replies"]]
        self.request = bytes.fromhex(recorded["request"])

    def send(self, data):
        assert data == self.request

    def recv(self, size):
        return self.replies.pop(0)


def probe(kind, recorded):
    """A probe in front of the recorded kernel."""
    found = object.__new__(kind)
    found._socket, found._request = Kernel(recorded), bytes.fromhex(recorded["request"])
    return found


def test_connections_are_those_that_ss_shows():
    samples = probe(tcp.TcpProbe, RECORDED["tcp"]).sample()
    said = re.findall(r"(\S+):(\d+) \S+\n\t (\w+) (.*)", RECORDED["tcp"]["tool"])
    assert [(str(s.source_port), s.algorithm) for s in samples] == [
        (port, algorithm) for _, port, algorithm, _ in said
    ]
    for sample, (*_, words) in zip(samples, said, strict=True):
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
        assert round(sample.busy_s * 1e3) == int(numbers["busy"])
        assert (sample.rwnd_limited_s, sample.sndbuf_limited_s) == (0, 0)
    # Both a window in congestion avoidance and one in slow start are there.
    assert {sample.ssthresh_packets is None for sample in samples} == {True, False}


def test_the_queue_is_the_one_that_tc_shows():
    recorded = RECORDED["queue"]
    queue_probe = probe(queue.QueueProbe, recorded)
    queue_probe._index = recorded["index"]
    [root] = [
        q for q in json.loads(recorded["tool"]) if q["dev"] == netlink.BOTTLENECK and "root" in q
    ]
    assert root["qlen"] > 0
    assert root["drops"] > 0
    assert queue_probe.sample(1.5) == queue.QueueSample(
        1.5, root["qlen"], root["backlog"], root["drops"], root["bytes"]
    )


def test_an_interface_without_a_root_qdisc_is_an_error():
    queue_probe = probe(queue.QueueProbe, RECORDED["queue"])
    queue_probe._index = 99
    with pytest.raises(OSError, match="interface 99"):
        queue_probe.sample(0.0)


def test_a_dump_may_come_in_pieces():
    recorded = RECORDED["tcp"]
    first, done = map(bytes.fromhex, recorded["replies"])
    length = struct.unpack_from("=I", first)[0]
    pieces = {**recorded, "replies": [p.hex() for p in (first[:length], first[length:], done)]}
    assert probe(tcp.TcpProbe, pieces).sample() == probe(tcp.TcpProbe, recorded).sample()


def test_a_refused_dump_is_an_error():
    refusal = struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -1)  # NLMSG_ERROR, EPERM
    refused = {**RECORDED["tcp"], "replies": [refusal.hex()]}
    with pytest.raises(PermissionError, match="refused a dump"):
        probe(tcp.TcpProbe, refused).sample()


def test_a_rate_without_pacing_is_none():
    info = bytearray(232)
    struct.pack_into("=Q", info, 104, 2**64 - 1)
    assert tcp.parse_tcp_info(1, "cubic", bytes(info)).pacing_mbit == 0
