"""Probes: sockets and queues over netlink or of the kernel's own record, and ICMP round trips.

`ss` costs a process per sample, and pyroute2 costs 1.5 s of imports per replicate. These probes
cost a request and a reply per sample. `ping` would poll the clock for up to 10 ms before it sends.
In virtual time, such polling costs seconds of wall time per run, because only clock reads advance
the time meanwhile. Layouts: linux/netlink.h, linux/rtnetlink.h, linux/gen_stats.h,
linux/inet_diag.h, linux/tcp.h. Standard library only.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from losslab.study.packetsizes import ETHERNET_BYTES

HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
ATTRIBUTE_HEADER = struct.Struct("=HH")
NLM_F_REQUEST, NLM_F_ACK, NLM_F_ECHO, NLM_F_DUMP = 0x1, 0x4, 0x8, 0x300
NETLINK_ROUTE = 0
NLMSG_ERROR, NLMSG_DONE = 2, 3
# Maximum size of one part of a reply (netlink_recvmsg, net/netlink/af_netlink.c).
PART_BYTES = 1 << 15


def request(kind: int, flags: int, body: bytes) -> bytes:
    """Build a request; its socket must have no other request under way."""
    return HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST | flags, 1, 0) + body


def attributes(data: bytes) -> dict[int, bytes]:
    """Parse netlink attributes into payloads by type; NLA_ALIGNTO is 4."""
    payloads = {}
    at = 0
    while at + 4 <= len(data):
        length, kind = ATTRIBUTE_HEADER.unpack_from(data, at)
        if length < 4:
            break
        payloads[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return payloads


def split(part: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the messages of a reply's part as (type, payload); OSError if it is a refusal."""
    at = 0
    while at + HEADER.size <= len(part):
        length, kind, *_ = HEADER.unpack_from(part, at)
        payload = part[at + HEADER.size : at + length]
        if kind == NLMSG_ERROR and (code := -struct.unpack_from("=i", payload)[0]):
            raise OSError(code, "netlink refused a request")
        yield kind, payload
        at += (length + 3) & ~3


def attribute(kind: int, content: bytes) -> bytes:
    """Build a netlink attribute."""
    data = ATTRIBUTE_HEADER.pack(ATTRIBUTE_HEADER.size + len(content), kind) + content
    return data + bytes(-len(data) % 4)


def ask(kind: int, flags: int, body: bytes) -> None:
    """Send a request about links and wait for the acknowledgement; OSError if refused."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as sock:
        sock.send(request(kind, flags, body))
        list(split(sock.recv(PART_BYTES)))


def dump(kind: int, body: bytes) -> list[tuple[int, bytes]]:
    """Return the messages of a dump as (type, payload); OSError if it is refused."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as sock:
        sock.send(request(kind, NLM_F_DUMP, body))
        return answer(sock)


def answer(sock: socket.socket) -> list[tuple[int, bytes]]:
    """Return the messages of a dump that a socket has asked for; OSError if it is refused."""
    messages: list[tuple[int, bytes]] = []
    while True:
        for kind, payload in split(sock.recv(PART_BYTES)):
            if kind == NLMSG_DONE:
                return messages
            messages.append((kind, payload))


def write_csv(path: Path, columns: str, rows: Iterable[str]) -> None:
    """Write a table."""
    path.write_text("\n".join([columns, *rows]) + "\n")


PING_COLUMNS = "t_s,rtt_ms"
BEFORE_COUNT = 20  # at 10 % loss in each direction, all 20 are lost in one of 10^14 runs
BEFORE_INTERVAL_S = 0.02
# Added to the path's delay: a reply that is later counts as lost.
BEFORE_TIMEOUT_S = 1.0
DURING_INTERVAL_S = 0.1

# Echo reply and request, by version of IP (linux/icmp.h, linux/icmpv6.h).
ECHO_REPLY, ECHO_REQUEST = 0, 8
ECHO_REPLY_6, ECHO_REQUEST_6 = 129, 128
ECHO_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence
PAYLOAD = bytes(56)  # as ping(8)
# Of pings during the traffic, and of those on the idle path, which may be answered as late.
IDENTIFIER, IDLE_IDENTIFIER = 0x10_55, 0x10_56
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the control message has the same number
TIMESPEC = struct.Struct("@qq")


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return int(~(total + (total >> 16)) & 0xFFFF)


def echo_request(sequence: int, version: int = 4, identifier: int = IDENTIFIER) -> bytes:
    """Build an echo request; the kernel adds the checksum of ICMPv6."""
    if version == 6:
        return ECHO_HEADER.pack(ECHO_REQUEST_6, 0, 0, identifier, sequence) + PAYLOAD
    blank = ECHO_HEADER.pack(ECHO_REQUEST, 0, 0, identifier, sequence) + PAYLOAD
    return ECHO_HEADER.pack(ECHO_REQUEST, 0, checksum(blank), identifier, sequence) + PAYLOAD


def ping_frame_bytes(ip_version: int) -> int:
    """Return the size of an echo request or reply with its Ethernet and IP headers."""
    return ETHERNET_BYTES + {4: 20, 6: 40}[ip_version] + ECHO_HEADER.size + len(PAYLOAD)


def reply_sequence(packet: bytes, version: int = 4, of: int = IDENTIFIER) -> int | None:
    """Return the sequence number of a reply to the probe `of`; None for any other ICMP packet."""
    # A raw socket keeps the header of IPv4, and not that of IPv6.
    header_bytes, reply = (
        (4 * (packet[0] & 0x0F), ECHO_REPLY) if version == 4 else (0, ECHO_REPLY_6)
    )
    kind, _, _, identifier, sequence = ECHO_HEADER.unpack_from(packet, header_bytes)
    return int(sequence) if (kind, identifier) == (reply, of) else None


class EchoProbe:
    """Sender of echo requests in the namespace where it is created, and receiver of the replies."""

    def __init__(self, address: str, identifier: int = IDENTIFIER) -> None:
        self._identifier = identifier
        self._version = 6 if ":" in address else 4
        family, protocol = (
            (socket.AF_INET6, socket.IPPROTO_ICMPV6)
            if self._version == 6
            else (socket.AF_INET, socket.IPPROTO_ICMP)
        )
        self._socket = socket.socket(family, socket.SOCK_RAW, protocol)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)
        self._socket.connect((address, 0))
        self._sent: list[tuple[float, int]] = []  # caller's time in s, kernel's clock in ns
        self._rtt_ms: dict[int, float] = {}

    def send(self, t_s: float) -> None:
        """Send a request at `t_s` of the caller's clock."""
        self._sent.append((t_s, time.clock_gettime_ns(time.CLOCK_REALTIME)))
        number = (len(self._sent) - 1) & 0xFFFF
        self._socket.send(echo_request(number, self._version, self._identifier))

    @property
    def answered(self) -> bool:
        """Return whether every request has a reply."""
        return len(self._rtt_ms) == len(self._sent)

    def replies(self) -> list[tuple[float, float]]:
        """Return (send time in s, RTT in ms) of each request that has a reply."""
        self.receive()
        return [(self._sent[n][0], rtt_ms) for n, rtt_ms in sorted(self._rtt_ms.items())]

    def receive(self) -> None:
        """Read the replies that have arrived, until every request has one."""
        while not self.answered:
            try:
                packet, control, _, _ = self._socket.recvmsg(2048, 64)
            except BlockingIOError:
                return
            sequence = reply_sequence(packet, self._version, self._identifier)
            if sequence is None:
                continue
            seconds, nanoseconds = next(
                TIMESPEC.unpack(data[: TIMESPEC.size])
                for level, kind, data in control
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)
            )
            # The latest request whose number has these lower 16 bits.
            number = len(self._sent) - 1 - ((len(self._sent) - 1 - sequence) & 0xFFFF)
            arrived_ns = seconds * 1_000_000_000 + nanoseconds
            self._rtt_ms[number] = (arrived_ns - self._sent[number][1]) / 1e6

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def measure_idle(
    probe: EchoProbe, rtt_ms: float, min_interval_s: float = 0.0
) -> list[tuple[float, float]]:
    """Ping an idle path with an RTT of about `rtt_ms`; return the replies as `replies` does."""
    interval_s = max(BEFORE_INTERVAL_S, min_interval_s)
    for number in range(BEFORE_COUNT):
        probe.send(number * interval_s)
        time.sleep(interval_s)
    deadline = time.monotonic() + BEFORE_TIMEOUT_S + 2 * rtt_ms / 1e3 + min_interval_s
    while not probe.answered and time.monotonic() < deadline:
        time.sleep(BEFORE_INTERVAL_S)
        probe.receive()
    return probe.replies()


def write_replies(replies: Iterable[tuple[float, float]], path: Path) -> None:
    """Write the replies to pings as a table with `PING_COLUMNS`."""
    write_csv(path, PING_COLUMNS, (f"{t_s:.3f},{rtt_ms:.6f}" for t_s, rtt_ms in replies))


RTM_NEWQDISC = 36
RTM_GETQDISC = 38
TC_H_ROOT = 0xFFFF_FFFF
TCA_STATS2 = 7
TCA_STATS_BASIC = 1
TCA_STATS_QUEUE = 3

QUEUE_COLUMNS = "t_s,backlog_packets,backlog_bytes,drops"


@dataclass(frozen=True)
class QueueSample:
    """Backlog of a queue at a time, and its drops and sent bytes so far."""

    t_s: float
    backlog_packets: int
    backlog_bytes: int
    drops: int
    sent_bytes: int = 0

    def row(self) -> str:
        """Format as a line of `QUEUE_COLUMNS`."""
        return f"{self.t_s:.6f},{self.backlog_packets},{self.backlog_bytes},{self.drops}"


class QueueProbe:
    """Probe of an interface's root qdisc, in the namespace where it is created."""

    def __init__(self, interface_name: str) -> None:
        self._index = socket.if_nametoindex(interface_name)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
        # A dump would cover every interface. Without NLM_F_ECHO, kernels before Linux 6.8 reply
        # only to sockets that listen to changes (tc_get_qdisc, net/sched/sch_api.c).
        self._request = request(
            RTM_GETQDISC,
            NLM_F_ECHO,
            struct.pack("=BxxxiIII", socket.AF_UNSPEC, self._index, 0, TC_H_ROOT, 0),
        )

    def sample(self, t_s: float) -> QueueSample:
        """Read the queue's state at `t_s` of the caller's clock; OSError without a root qdisc."""
        self._socket.send(self._request)
        for kind, payload in split(self._socket.recv(PART_BYTES)):
            if kind != RTM_NEWQDISC:
                continue
            index, _, parent = struct.unpack_from("=iII", payload, 4)
            if index != self._index or parent != TC_H_ROOT:
                continue
            stats = attributes(attributes(payload[20:])[TCA_STATS2])
            packets, octets, drops = struct.unpack_from("=III", stats[TCA_STATS_QUEUE])
            (sent,) = struct.unpack_from("=Q", stats[TCA_STATS_BASIC])
            return QueueSample(t_s, packets, octets, drops, sent)
        raise OSError(f"no root qdisc on interface {self._index}")

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
INET_DIAG_INFO = 2
INET_DIAG_CONG = 4
# net/tcp_states.h. A server closes a connection right after its last write; in the latter two
# states, TCP still sends the bytes in the socket's buffer.
TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_CLOSING = 1, 4, 11
STATES = 1 << TCP_ESTABLISHED | 1 << TCP_FIN_WAIT1 | 1 << TCP_CLOSING
DIAG_MSG_BYTES = 72
TCP_INFINITE_SSTHRESH = 0x7FFF_FFFF  # net/tcp.h: no threshold set yet
# All states in which a socket has a congestion control: from SYN_SENT to CLOSING, without
# TIME_WAIT, CLOSE and LISTEN.
OPEN_STATES = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
# Fields of `struct tcp_info`: snd_mss, unacked, sacked; rtt, rttvar, snd_ssthresh, snd_cwnd;
# total_retrans, pacing_rate; bytes_acked; notsent_bytes; delivery_rate, busy_time, rwnd_limited,
# sndbuf_limited; bytes_sent, bytes_retrans.
TCP_INFO = struct.Struct("=16xI4x2I 36x4I 16xIQ 8xQ 16xI12x4Q 8x2Q")
UNPACED = 2**64 - 1

# Since Linux 7.0: offset of the byte whose lower two bits are the ECN mode, and
# TCPI_ECN_MODE_ACCECN.
ECN_MODE_BYTE, ACCURATE = 276, 2

TCP_COLUMNS = (
    "t_s,flow,cwnd_packets,ssthresh_packets,srtt_ms,rttvar_ms,pacing_mbit,delivery_mbit,retransmits,"
    "acked_bytes,delivered_bytes"
)


@dataclass(frozen=True)
class TcpSample:
    """State of a socket; RTTs in ms, rates in Mbit/s, busy and limited times in s."""

    source_port: int
    algorithm: str
    cwnd_packets: int
    ssthresh_packets: int | None
    srtt_ms: float
    rttvar_ms: float
    pacing_mbit: float
    delivery_mbit: float
    retransmits: int
    bytes_acked: int
    # Acknowledged, with what arrived behind a gap: packets that are selectively acknowledged (SACK)
    # or, without SACK, one for each duplicate acknowledgement.
    delivered_bytes: int
    busy_s: float
    rwnd_limited_s: float
    sndbuf_limited_s: float
    accurate_ecn: bool = False  # negotiated
    sent_bytes: int = 0  # without retransmissions
    pending: bool = False  # has segments that are not sent or not acknowledged

    def row(self, t_s: float) -> str:
        """Format as a line of `TCP_COLUMNS`."""
        ssthresh = "" if self.ssthresh_packets is None else self.ssthresh_packets
        return (
            f"{t_s:.6f},{self.source_port},{self.cwnd_packets},{ssthresh},{self.srtt_ms:.3f},"
            f"{self.rttvar_ms:.3f},{self.pacing_mbit:.3f},{self.delivery_mbit:.3f},"
            f"{self.retransmits},{self.bytes_acked},{self.delivered_bytes}"
        )


def parse_tcp_info(source_port: int, algorithm: str, info: bytes) -> TcpSample:
    """Decode `struct tcp_info`."""
    accurate = len(info) > ECN_MODE_BYTE and info[ECN_MODE_BYTE] & 3 == ACCURATE
    return tcp_sample(source_port, algorithm, TCP_INFO.unpack_from(info), accurate)


def tcp_sample(
    source_port: int, algorithm: str, fields: tuple[int, ...], accurate_ecn: bool
) -> TcpSample:
    """Make a sample of the fields of `TCP_INFO`."""
    (
        mss, unacked, sacked, rtt_us, rttvar_us, ssthresh, cwnd, retransmits, pacing, acked,
        unsent, delivery, busy_us, rwnd_limited_us, sndbuf_limited_us, sent, sent_again,
    ) = fields  # fmt: skip
    return TcpSample(
        source_port=source_port,
        algorithm=algorithm,
        cwnd_packets=cwnd,
        ssthresh_packets=None if ssthresh >= TCP_INFINITE_SSTHRESH else ssthresh,
        srtt_ms=rtt_us / 1e3,
        rttvar_ms=rttvar_us / 1e3,
        pacing_mbit=0.0 if pacing == UNPACED else pacing * 8 / 1e6,
        delivery_mbit=delivery * 8 / 1e6,
        retransmits=retransmits,
        bytes_acked=acked,
        # Packets with selective acknowledgements are full ones, except for the last packet.
        delivered_bytes=acked + sacked * mss,
        busy_s=busy_us / 1e6,
        rwnd_limited_s=rwnd_limited_us / 1e6,
        sndbuf_limited_s=sndbuf_limited_us / 1e6,
        accurate_ecn=accurate_ecn,
        sent_bytes=sent - sent_again,
        pending=unacked + unsent > 0,
    )


class TcpProbe:
    """Probe of the TCP sockets (sock_diag) in the namespace where it is created."""

    def __init__(self, family: int = socket.AF_INET, states: int = STATES) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
        extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1)
        identity = bytes(48)  # struct inet_diag_sockid: any socket
        self._request = request(
            SOCK_DIAG_BY_FAMILY,
            NLM_F_DUMP,
            struct.pack("=BBBxI", family, socket.IPPROTO_TCP, extensions, states) + identity,
        )

    def sample(self) -> list[TcpSample]:
        """Return samples of all connections that may have data to send."""
        return [sample for _, sample in self.identified()]

    def identified(self) -> Iterator[tuple[bytes, TcpSample]]:
        """Yield (struct inet_diag_sockid, sample) of all connections in the probe's states."""
        self._socket.send(self._request)
        for kind, payload in answer(self._socket):
            if kind != SOCK_DIAG_BY_FAMILY or len(payload) < DIAG_MSG_BYTES:
                continue
            source_port = struct.unpack_from("!H", payload, 4)[0]
            parts = attributes(payload[DIAG_MSG_BYTES:])
            if INET_DIAG_INFO in parts:
                algorithm = parts.get(INET_DIAG_CONG, b"").rstrip(b"\0").decode()
                sample = parse_tcp_info(source_port, algorithm, parts[INET_DIAG_INFO])
                yield payload[4:52], sample

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


RECORD_FILE = Path("/proc/net_record")
# The kernel hands out whole blocks of 16 KiB, as many as fit.
RECORD_BYTES = 1 << 20
# `struct tcp_sample` and `struct queue_sample` of net/ipv4/tcp_record.c.
TCP_SAMPLE = struct.Struct("=QQQQQQ3Q4I5IHBB16s")
QUEUE_SAMPLE = struct.Struct("=QQIII4x")


class Record:
    """The kernel's own samples in the namespace in which it is created, taken at exact times.

    A guest's kernel samples in a soft interrupt and keeps the samples in memory
    (net/ipv4/tcp_record.c), so that no program wakes up for them and no clock is read. It begins
    with an order.
    """

    def __init__(self) -> None:
        self._descriptor = os.open(RECORD_FILE, os.O_RDWR)
        self.full = False  # the kernel had no room for a sample

    def begin(self, order: str) -> None:
        """Begin to record: `tcp START INTERVAL`, `queue START INTERVAL DEVICE`, or `events`.

        Times are in ns. Events are those of the connections' congestion control.
        """
        os.write(self._descriptor, order.encode())

    def read(self) -> bytes:
        """Take what has been recorded since the last read out of the kernel's memory."""
        parts, room = [], memoryview(bytearray(RECORD_BYTES))
        while count := self.read_into(room):
            parts.append(bytes(room[:count]))
        return b"".join(parts)

    def read_into(self, room: memoryview) -> int:
        """Take as much as has room, at least RECORD_BYTES; return its number of bytes.

        It needs no new memory, whose first use costs a guest as much as the rest.
        """
        try:
            return os.readv(self._descriptor, [room])
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self.full = True
            return 0

    def close(self) -> None:
        """Forget what has been recorded."""
        os.close(self._descriptor)


def tcp_samples(data: bytes) -> Iterator[tuple[int, TcpSample]]:
    """Yield (time in ns, sample) from a record of TCP."""
    for (
        ns, pacing, delivery, acked, sent, sent_again, busy_us, rwnd_us, sndbuf_us, cwnd, ssthresh,
        rtt_us, rttvar_us, retransmits, unacked, sacked, mss, unsent, port, _, accurate, algorithm,
    ) in TCP_SAMPLE.iter_unpack(data):  # fmt: skip
        yield ns, tcp_sample(
            port, algorithm.rstrip(b"\0").decode(), (mss, unacked, sacked, rtt_us, rttvar_us,
            ssthresh, cwnd, retransmits, pacing, acked, unsent, delivery, busy_us, rwnd_us,
            sndbuf_us, sent, sent_again), bool(accurate),
        )  # fmt: skip


def queue_samples(data: bytes, origin_ns: int) -> Iterator[QueueSample]:
    """Yield the samples of a queue's record, with times since `origin_ns`."""
    for ns, sent, packets, octets, drops in QUEUE_SAMPLE.iter_unpack(data):
        yield QueueSample((ns - origin_ns) / 1e9, packets, octets, drops, sent)
