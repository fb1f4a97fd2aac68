"""Sizes of full packets and of their payload, from the MTU, the IP version and TCP's options.

Every limit, check and conversion between packets and bytes takes its sizes from here. The guest
imports this module: use only the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from losslab.study import hostsettings

ETHERNET_BYTES = 14
IP_BYTES = {4: 20, 6: 40}  # without options
TCP_BYTES, UDP_BYTES = 20, 8
TIMESTAMP_BYTES = 12  # RFC 7323, with padding
TIMESTAMPS = "net.ipv4.tcp_timestamps"
# The smallest MTU is the datagram that every IPv4 host must accept (RFC 791), the largest that of
# Linux's virtual Ethernet (ETH_MAX_MTU).
MIN_MTU_BYTES, MAX_MTU_BYTES = 576, 65_535
# The smallest MTU of IPv6 (RFC 8200, section 5).
MIN_MTU_IPV6_BYTES = 1280
# Payload of the smallest datagrams in which QUIC begins a connection (RFC 9000, section 14.1).
QUIC_BYTES = 1200
# Size of the largest aggregate (GSO_LEGACY_MAX_SIZE, linux/netdevice.h), with IP's header.
AGGREGATE_BYTES = 65_536


@dataclass(frozen=True)
class PacketSizes:
    """Sizes of the full packets of a path; by default those of Ethernet, IPv4 and time stamps."""

    mtu_bytes: int = 1500
    ip_version: int = 4
    timestamps: bool = True

    @property
    def frame_bytes(self) -> int:
        """A full packet with its Ethernet header, as qdiscs and links count it."""
        return self.mtu_bytes + ETHERNET_BYTES

    @property
    def ip_bytes(self) -> int:
        """Header of IP, also for a version that the axis refuses."""
        return IP_BYTES.get(self.ip_version, IP_BYTES[4])

    @property
    def segment_bytes(self) -> int:
        """Payload of a full TCP segment: the maximum segment size less TCP's options."""
        options = TIMESTAMP_BYTES if self.timestamps else 0
        return self.mtu_bytes - self.ip_bytes - TCP_BYTES - options

    @property
    def datagram_bytes(self) -> int:
        """Payload of a full UDP datagram."""
        return self.mtu_bytes - self.ip_bytes - UDP_BYTES

    @property
    def payload_share(self) -> float:
        """Share of TCP's payload in a full link's bytes."""
        return self.segment_bytes / self.frame_bytes


DEFAULT = PacketSizes()


def of(condition: Any) -> PacketSizes:
    """Return the sizes of the full packets of a condition without problems.

    TCP's segments have time stamps if both hosts use them, as Linux does by default.
    """
    own = hostsettings.parse(str(condition.sysctl))
    timestamps = all(own[host].get(TIMESTAMPS) != "0" for host in hostsettings.ENDS)
    return PacketSizes(condition.mtu_bytes, condition.ip_version, timestamps)


def frame_bytes(mtu_bytes: float) -> int:
    """Return the size of a full frame, also for an MTU that the axis refuses."""
    return PacketSizes(int(min(max(mtu_bytes, MIN_MTU_BYTES), MAX_MTU_BYTES))).frame_bytes
