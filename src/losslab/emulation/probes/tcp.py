"""Read the state of TCP sockets over netlink, as `ss -ti` does.

`ss` costs a process per sample and pyroute2 1.5 s of imports per replicate; this is one request
and one reply per sample on an open socket. Layouts: linux/inet_diag.h, linux/tcp.h.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR = 2
NLMSG_DONE = 3
INET_DIAG_INFO = 2
INET_DIAG_CONG = 4
# net/tcp_states.h. A server that has handed over its last bytes closes the connection at once; what
# waits in its buffer is then sent in the other two.
TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_CLOSING = 1, 4, 11
STATES = 1 << TCP_ESTABLISHED | 1 << TCP_FIN_WAIT1 | 1 << TCP_CLOSING
DIAG_MSG_BYTES = 72
NETLINK_HEADER = struct.Struct("=IHHII")
# The kernel puts no more into one part of an answer (netlink_recvmsg, net/netlink/af_netlink.c).
# Memory for a longer one would be mapped, touched and unmapped each time: half of a sample's system
# calls, and all of its page faults.
ANSWER_BYTES = 1 << 15
ATTRIBUTE_HEADER = struct.Struct("=HH")
TCP_INFINITE_SSTHRESH = 0x7FFF_FFFF  # net/tcp.h: slow start has no end yet

# Two bits, since Linux 7.0: TCPI_ECN_MODE_ACCECN.
ECN_MODE_BYTE, ACCURATE = 276, 2

COLUMNS = (
    "t_s,flow,cwnd_packets,ssthresh_packets,srtt_ms,rttvar_ms,pacing_mbit,delivery_mbit,retransmits,"
    "delivered_bytes"
)


@dataclass(frozen=True)
class TcpSample:
    """One socket's state; times in ms, rates in Mbit/s, limited times in s."""

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
    delivered_bytes: int  # what the receiver has said it has, also behind a hole
    busy_s: float
    rwnd_limited_s: float
    sndbuf_limited_s: float
    accurate_ecn: bool = False  # it was agreed on

    def row(self, t_s: float) -> str:
        """Format as a line of `COLUMNS`."""
        ssthresh = "" if self.ssthresh_packets is None else self.ssthresh_packets
        return (
            f"{t_s:.6f},{self.source_port},{self.cwnd_packets},{ssthresh},{self.srtt_ms:.3f},"
            f"{self.rttvar_ms:.3f},{self.pacing_mbit:.3f},{self.delivery_mbit:.3f},"
            f"{self.retransmits},{self.delivered_bytes}"
        )


def attributes(data: bytes) -> dict[int, bytes]:
    """Split netlink attributes (type, payload); NLA_ALIGNTO is 4, linux/netlink.h."""
    found = {}
    at = 0
    while at + 4 <= len(data):
        length, kind = ATTRIBUTE_HEADER.unpack_from(data, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def messages(sock: socket.socket) -> list[tuple[int, bytes]]:
    """Receive the messages of one dump, as (type, payload)."""
    found: list[tuple[int, bytes]] = []
    while True:
        data = sock.recv(ANSWER_BYTES)
        at = 0
        while at + 16 <= len(data):
            length, kind, *_ = NETLINK_HEADER.unpack_from(data, at)
            payload = data[at + 16 : at + length]
            if kind == NLMSG_DONE:
                return found
            if kind == NLMSG_ERROR:
                code = -struct.unpack_from("=i", payload)[0]
                raise OSError(code, "netlink refused a dump")
            found.append((kind, payload))
            at += (length + 3) & ~3


def parse_tcp_info(source_port: int, algorithm: str, info: bytes) -> TcpSample:
    """Decode `struct tcp_info`."""
    u32 = struct.Struct("=I").unpack_from
    u64 = struct.Struct("=Q").unpack_from
    ssthresh = u32(info, 76)[0]
    pacing = u64(info, 104)[0]
    acked = u64(info, 120)[0]
    unpaced = pacing == 2**64 - 1
    return TcpSample(
        source_port=source_port,
        algorithm=algorithm,
        cwnd_packets=u32(info, 80)[0],
        ssthresh_packets=None if ssthresh >= TCP_INFINITE_SSTHRESH else ssthresh,
        srtt_ms=u32(info, 68)[0] / 1e3,
        rttvar_ms=u32(info, 72)[0] / 1e3,
        pacing_mbit=0.0 if unpaced else pacing * 8 / 1e6,
        delivery_mbit=u64(info, 160)[0] * 8 / 1e6,
        retransmits=u32(info, 100)[0],
        bytes_acked=acked,
        # Selectively acknowledged packets are full ones, but for a last.
        delivered_bytes=acked + u32(info, 28)[0] * u32(info, 16)[0],
        busy_s=u64(info, 168)[0] / 1e6,
        rwnd_limited_s=u64(info, 176)[0] / 1e6,
        sndbuf_limited_s=u64(info, 184)[0] / 1e6,
        accurate_ecn=len(info) > ECN_MODE_BYTE and info[ECN_MODE_BYTE] & 3 == ACCURATE,
    )


class TcpProbe:
    """An open diagnosis socket in the namespace where it was made."""

    def __init__(self) -> None:
        """Open the socket."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
        extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1)
        identity = bytes(48)  # struct inet_diag_sockid: any
        request = (
            struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, extensions, STATES) + identity
        )
        header = NETLINK_HEADER.pack(
            16 + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, 1, 0
        )
        self._request = header + request

    def sample(self) -> list[TcpSample]:
        """Read every connection that may have data to send."""
        self._socket.send(self._request)
        found = []
        for kind, payload in messages(self._socket):
            if kind != SOCK_DIAG_BY_FAMILY or len(payload) < DIAG_MSG_BYTES:
                continue
            source_port = struct.unpack_from("!H", payload, 4)[0]
            parts = attributes(payload[DIAG_MSG_BYTES:])
            if INET_DIAG_INFO in parts:
                algorithm = parts.get(INET_DIAG_CONG, b"").rstrip(b"\0").decode()
                found.append(parse_tcp_info(source_port, algorithm, parts[INET_DIAG_INFO]))
        return found

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
