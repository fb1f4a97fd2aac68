"""Occupancy and drops of the bottleneck's queue, read over netlink.

Layouts: linux/rtnetlink.h, linux/gen_stats.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab.emulation.probes import netlink
from losslab.emulation.probes.netlink import attributes

RTM_NEWQDISC = 36
RTM_GETQDISC = 38
TC_H_ROOT = 0xFFFF_FFFF
TCA_STATS2 = 7
TCA_STATS_BASIC = 1
TCA_STATS_QUEUE = 3

COLUMNS = "t_s,backlog_packets,backlog_bytes,drops"


@dataclass(frozen=True)
class QueueSample:
    """Backlog of a queue at a time, and its drops and sent bytes so far."""

    t_s: float
    backlog_packets: int
    backlog_bytes: int
    drops: int
    sent_bytes: int = 0

    def row(self) -> str:
        """Format as a line of `COLUMNS`."""
        return f"{self.t_s:.6f},{self.backlog_packets},{self.backlog_bytes},{self.drops}"


def write_csv(samples: Sequence[QueueSample], path: Path) -> None:
    """Write samples as a table with `COLUMNS`."""
    path.write_text("\n".join([COLUMNS, *(sample.row() for sample in samples)]) + "\n")


class QueueProbe:
    """Probe of an interface's root qdisc, in the namespace where it is created."""

    def __init__(self, interface_name: str) -> None:
        self._index = socket.if_nametoindex(interface_name)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, netlink.NETLINK_ROUTE)
        # A dump would cover every interface. Without NLM_F_ECHO, kernels before Linux 6.8 reply
        # only to sockets that listen to changes (tc_get_qdisc, net/sched/sch_api.c).
        self._request = netlink.request(
            RTM_GETQDISC,
            netlink.NLM_F_ECHO,
            struct.pack("=BxxxiIII", socket.AF_UNSPEC, self._index, 0, TC_H_ROOT, 0),
        )

    def sample(self, t_s: float) -> QueueSample:
        """Read the queue's state at `t_s` of the caller's clock; OSError without a root qdisc."""
        self._socket.send(self._request)
        for kind, payload in netlink.split(self._socket.recv(netlink.PART_BYTES)):
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
