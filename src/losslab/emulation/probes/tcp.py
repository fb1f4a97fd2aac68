"""State of TCP sockets, read over netlink as `ss -ti` does.

`ss` costs a process per sample, and pyroute2 costs 1.5 s of imports per replicate. This probe costs
a request and a reply per sample. Layouts: linux/inet_diag.h, linux/tcp.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from losslab.emulation.probes import netlink
from losslab.emulation.probes.netlink import attributes

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

COLUMNS = (
    "t_s,flow,cwnd_packets,ssthresh_packets,srtt_ms,rttvar_ms,pacing_mbit,delivery_mbit,retransmits,"
    "delivered_bytes"
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
    delivered_bytes: int  # acknowledged, selective acknowledgements (SACK) included
    busy_s: float
    rwnd_limited_s: float
    sndbuf_limited_s: float
    accurate_ecn: bool = False  # negotiated
    sent_bytes: int = 0  # without retransmissions
    pending: bool = False  # has segments that are not sent or not acknowledged

    def row(self, t_s: float) -> str:
        """Format as a line of `COLUMNS`."""
        ssthresh = "" if self.ssthresh_packets is None else self.ssthresh_packets
        return (
            f"{t_s:.6f},{self.source_port},{self.cwnd_packets},{ssthresh},{self.srtt_ms:.3f},"
            f"{self.rttvar_ms:.3f},{self.pacing_mbit:.3f},{self.delivery_mbit:.3f},"
            f"{self.retransmits},{self.delivered_bytes}"
        )


def parse_tcp_info(source_port: int, algorithm: str, info: bytes) -> TcpSample:
    """Decode `struct tcp_info`."""
    (
        mss, unacked, sacked, rtt_us, rttvar_us, ssthresh, cwnd, retransmits, pacing, acked,
        unsent, delivery, busy_us, rwnd_limited_us, sndbuf_limited_us, sent, sent_again,
    ) = TCP_INFO.unpack_from(info)  # fmt: skip
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
        accurate_ecn=len(info) > ECN_MODE_BYTE and info[ECN_MODE_BYTE] & 3 == ACCURATE,
        sent_bytes=sent - sent_again,
        pending=unacked + unsent > 0,
    )


class TcpProbe:
    """Probe of the TCP sockets (sock_diag) in the namespace where it is created."""

    def __init__(self, family: int = socket.AF_INET, states: int = STATES) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
        self._reader = netlink.DumpReader(self._socket)
        extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1)
        identity = bytes(48)  # struct inet_diag_sockid: any socket
        self._request = netlink.request(
            SOCK_DIAG_BY_FAMILY,
            netlink.NLM_F_DUMP,
            struct.pack("=BBBxI", family, socket.IPPROTO_TCP, extensions, states) + identity,
        )

    def sample(self) -> list[TcpSample]:
        """Return samples of all connections that may have data to send."""
        return [sample for _, sample in self.identified()]

    def identified(self) -> Iterator[tuple[bytes, TcpSample]]:
        """Yield (struct inet_diag_sockid, sample) of all connections in the probe's states."""
        self._socket.send(self._request)
        for kind, payload in self._reader.dump():
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
