"""What a guest's kernel answered over netlink, against what `ss` and `tc` said at that instant."""

import json
import re
import socket
import struct

import pytest

from losslab.emulation.probes import netlink, queue, tcp
from tests.golden import netlink as recorded

RECORDED = json.loads(recorded.FILE.read_text())
TCP, QUEUE = RECORDED["tcp"], RECORDED["queue"]
BOTTLENECK = recorded.BOTTLENECK


class Kernel:
    """A netlink socket on which the recorded replies come, once the recorded request was sent."""

    def __init__(self, recorded):
        self.replies = [bytes.fromhex(reply) for reply in recorded["replies"]]
        self.request = bytes.fromhex(recorded["request"])

    def send(self, data):
        assert data == self.request

    def recv(self, size):
        return self.replies.pop(0)


class Answers(netlink.Answers):
    """What such a socket answers."""

    def __init__(self, sock):
        self._socket = sock

    def _parts(self):
        yield from self._socket.replies


@pytest.fixture
def samples(monkeypatch):
    """What the probe of connections makes of a recorded dump."""

    def sample(recorded):
        monkeypatch.setattr(tcp.socket, "socket", lambda *family: Kernel(recorded))
        monkeypatch.setattr(netlink, "Answers", Answers)
        return tcp.TcpProbe().sample()

    return sample


@pytest.fixture
def waiting(monkeypatch):
    """What the probe of queues makes of a recorded dump, asked for the interface `index`."""

    def sample(recorded, index=QUEUE["index"]):
        monkeypatch.setattr(queue.socket, "socket", lambda *family: Kernel(recorded))
        monkeypatch.setattr(queue.socket, "if_nametoindex", {BOTTLENECK: index}.get)
        probe = queue.QueueProbe(BOTTLENECK)
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
    with pytest.raises(PermissionError, match="refused a request"):
        samples(TCP | {"replies": [refusal.hex()]})


@pytest.fixture
def datagrams(monkeypatch):
    """Answers that come on a socket, and what sends them."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.settimeout(5)
    with ours, theirs:
        yield netlink.Answers(ours), theirs.send


def message(kind, payload):
    return struct.pack("=IHHII", 16 + len(payload), kind, 0, 1, 0) + payload


DONE = message(netlink.NLMSG_DONE, bytes(4))


def test_a_dump_and_its_end_come_in_one_system_call(datagrams, monkeypatch):
    answers, say = datagrams
    calls, receive = [], answers._receive

    def counted(*arguments):
        calls.append(arguments)
        return receive(*arguments)

    monkeypatch.setattr(answers, "_receive", counted)
    for payload in (b"once", b"more"):  # in the same memory
        say(message(20, payload))
        say(DONE)
        assert answers.dump() == [(20, payload)]
    assert len(calls) == 2


def test_a_dump_may_have_more_parts_than_one_call_takes(datagrams):
    answers, say = datagrams
    # net/netlink/af_netlink.c: no part of an answer is longer than this.
    parts = [message(20, bytes([n]) * (netlink.PART_BYTES - 16)) for n in range(3)]
    for part in [*parts, DONE]:
        say(part)
    assert answers.dump() == [(20, part[16:]) for part in parts]


def test_a_socket_that_is_gone_is_an_error(datagrams):
    answers, _ = datagrams
    answers._number = -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        answers.dump()


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
    [root] = [q for q in json.loads(QUEUE["tool"]) if q["dev"] == BOTTLENECK and "root" in q]
    assert root["qlen"] > 0
    assert root["drops"] > 0
    assert waiting(QUEUE) == queue.QueueSample(
        1.5, root["qlen"], root["backlog"], root["drops"], root["bytes"]
    )


def test_an_answer_about_an_inner_queue_is_not_taken(waiting):
    [reply] = map(bytes.fromhex, QUEUE["replies"])
    root = struct.pack("=I", queue.TC_H_ROOT)
    assert reply.count(root) == 1
    inner = reply.replace(root, struct.pack("=I", 0x0001_0000))
    with pytest.raises(OSError, match="no root qdisc"):
        waiting(QUEUE | {"replies": [inner.hex()]})


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
