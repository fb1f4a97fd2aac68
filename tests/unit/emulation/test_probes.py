"""What a guest's kernel answered over netlink, against what `ss` and `tc` said at that instant."""

import json
import re
import struct

import pytest

from losslab.emulation.probes import queue, tcp
from tests.golden import netlink

RECORDED = json.loads(netlink.FILE.read_text())
TCP, QUEUE = RECORDED["tcp"], RECORDED["queue"]


class Kernel:
    """A netlink socket on which the recorded replies come, once the recorded request was sent."""

    def __init__(self, recorded):
        self.replies = [bytes.fromhex(reply) for reply in recorded["replies"]]
        self.request = bytes.fromhex(recorded["request"])

    def send(self, data):
        assert data == self.request

    def recv(self, size):
        return self.replies.pop(0)


@pytest.fixture
def samples(monkeypatch):
    """What the probe of connections makes of a recorded dump."""

    def sample(recorded):
        monkeypatch.setattr(tcp.socket, "socket", lambda *family: Kernel(recorded))
        return tcp.TcpProbe().sample()

    return sample


@pytest.fixture
def waiting(monkeypatch):
    """What the probe of queues makes of a recorded dump, asked for the interface `index`."""

    def sample(recorded, index=QUEUE["index"]):
        monkeypatch.setattr(queue.socket, "socket", lambda *family: Kernel(recorded))
        monkeypatch.setattr(queue.socket, "if_nametoindex", {netlink.BOTTLENECK: index}.get)
        probe = queue.QueueProbe(netlink.BOTTLENECK)
        if index != QUEUE["index"]:
            probe._socket.request = probe._request
        return probe.sample(1.5)

    return sample


def split(dump):
    """The messages of a dump."""
    found, at = [], 0
    while at < len(dump):
        length = struct.unpack_from("=I", dump, at)[0]
        found.append(dump[at : at + length])
        at += length
    return found


def test_connections_are_those_that_ss_shows(samples):
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
    # Both a window that has left slow start and one that has not are there.
    assert {sample.ssthresh_packets is None for sample in found} == {True, False}


def test_a_dump_may_come_in_pieces(samples):
    first, done = map(bytes.fromhex, TCP["replies"])
    pieces = TCP | {"replies": [part.hex() for part in (*split(first), done)]}
    assert len(pieces["replies"]) == 3
    assert samples(pieces) == samples(TCP)


def test_a_refused_dump_is_an_error(samples):
    refusal = struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -1)  # NLMSG_ERROR, EPERM
    with pytest.raises(PermissionError, match="refused a dump"):
        samples(TCP | {"replies": [refusal.hex()]})


def test_a_sample_asks_for_no_more_memory_than_the_interpreter_keeps():
    """mallopt(3): from M_MMAP_THRESHOLD on, 128 KiB, memory is mapped and unmapped each time."""
    assert tcp.ANSWER_BYTES < 128 * 1024
    # net/netlink/af_netlink.c: no part of an answer is longer.
    assert tcp.ANSWER_BYTES >= 32 * 1024


def test_a_rate_without_pacing_is_none():
    info = bytearray(232)
    struct.pack_into("=Q", info, 104, 2**64 - 1)
    assert tcp.parse_tcp_info(1, "cubic", bytes(info)).pacing_mbit == 0


def test_what_is_selectively_acknowledged_is_delivered():
    info = bytearray(232)
    struct.pack_into("=I", info, 16, 1448)  # snd_mss
    struct.pack_into("=I", info, 28, 3)  # sacked
    struct.pack_into("=Q", info, 120, 10_000)  # bytes_acked
    sample = tcp.parse_tcp_info(1, "cubic", bytes(info))
    assert (sample.bytes_acked, sample.delivered_bytes) == (10_000, 14_344)
    assert sample.row(0.5).split(",")[-1] == "14344"
    assert len(sample.row(0.5).split(",")) == len(tcp.COLUMNS.split(","))


def test_a_server_that_has_closed_but_not_sent_all_is_seen():
    """net/tcp_states.h: established, the first state after closing, and both ends closing."""
    assert tcp.STATES == 1 << 1 | 1 << 4 | 1 << 11


def test_the_queue_is_the_one_that_tc_shows(waiting):
    [root] = [
        q for q in json.loads(QUEUE["tool"]) if q["dev"] == netlink.BOTTLENECK and "root" in q
    ]
    assert root["qlen"] > 0
    assert root["drops"] > 0
    assert waiting(QUEUE) == queue.QueueSample(
        1.5, root["qlen"], root["backlog"], root["drops"], root["bytes"]
    )


def test_the_queue_is_the_roots_also_where_an_inner_one_is_listed_first(waiting):
    first, done = map(bytes.fromhex, QUEUE["replies"])
    parts = split(first)
    inner = [part for part in parts if b"pfifo\0" in part]
    assert len(inner) == 1
    drops = struct.pack("=I", waiting(QUEUE).drops)
    other = inner[0].replace(drops, struct.pack("=I", 7_777))
    assert other != inner[0]
    dump = b"".join([other, *(part for part in parts if part not in inner)])
    assert waiting(QUEUE | {"replies": [dump.hex(), done.hex()]}) == waiting(QUEUE)


def test_more_than_4_gib_are_counted(waiting):
    sent = waiting(QUEUE).sent_bytes
    more = [
        bytes.fromhex(reply).replace(struct.pack("=Q", sent), struct.pack("=Q", sent + 2**40))
        for reply in QUEUE["replies"]
    ]
    found = waiting(QUEUE | {"replies": [reply.hex() for reply in more]})
    assert found.sent_bytes == sent + 2**40


def test_an_interface_without_a_root_qdisc_is_an_error(waiting):
    with pytest.raises(OSError, match="interface 99"):
        waiting(QUEUE, index=99)
