"""DualPI2 (RFC 9332), which kernels have since 6.17 and the image's tc does not know.

tc makes it with its defaults; its limit is set, and what it says is read, over netlink. Layouts:
linux/pkt_sched.h, linux/rtnetlink.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from losslab.emulation.probes import netlink
from losslab.emulation.probes.netlink import attributes
from losslab.emulation.probes.queue import (
    NETLINK_ROUTE,
    RTM_GETQDISC,
    RTM_NEWQDISC,
    TCA_STATS2,
)
from losslab.emulation.qdiscs import Shaper
from losslab.errors import LosslabError

KIND = "dualpi2"
NLM_F_ACK, NLA_F_NESTED = 0x4, 0x8000
TCA_KIND, TCA_OPTIONS, TCA_STATS_APP = 1, 2, 4
TCA_DUALPI2_LIMIT = 1
# struct tc_dualpi2_xstats, up to its marks: probability, delays of C and L queue in us, packets
# that came to each, the longest queue, marks, and those of them by the L queue's threshold.
STATS = struct.Struct("=8I")
NAMES = (
    "prob", "delay_c_us", "delay_l_us", "packets_in_c", "packets_in_l", "maxq", "ecn_mark",
    "step_marks",
)  # fmt: skip


@dataclass(frozen=True)
class DualPi2(Shaper):
    """One, of a stated length in packets."""

    limit: int = 0
    needs = (
        f"queue {KIND} needs a kernel that has it (6.17 or later)",
        "measure it with the kernel 7.2, or take another queue",
    )

    def _message(self) -> bytes:
        """Name it: interface, handle and parent."""
        handle = int(self.handle.rstrip(":"), 16) << 16
        major, minor = (int(part, 16) for part in self.parent.split()[-1].split(":"))
        index = socket.if_nametoindex(self.where.name)
        return struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, handle, major << 16 | minor, 0)

    def complete(self) -> None:
        """Make it as long as it is to be, in this network namespace."""
        kind = _attribute(TCA_KIND, KIND.encode() + b"\0")
        limit = _attribute(TCA_DUALPI2_LIMIT, struct.pack("=I", self.limit))
        body = self._message() + kind + _attribute(TCA_OPTIONS | NLA_F_NESTED, limit)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as asked:
            asked.send(netlink.request(RTM_NEWQDISC, NLM_F_ACK, body))
            try:
                list(netlink.split(asked.recv(netlink.PART_BYTES)))
            except OSError as error:
                raise LosslabError(
                    f"{KIND} on {self.where.name} must take a limit of {self.limit} packets, found "
                    f"{os.strerror(error.errno or 0)}"
                ) from error

    def read(self) -> dict[str, int]:
        """Read its limit and counters, in this network namespace; empty where it is not there."""
        wanted = self._message()
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as asked:
            asked.send(netlink.request(RTM_GETQDISC, netlink.NLM_F_DUMP, wanted))
            answers = netlink.messages(asked)
        for kind, payload in answers:
            if kind == RTM_NEWQDISC and payload[4:16] == wanted[4:16]:
                parts = attributes(payload[20:])
                if parts[TCA_KIND].rstrip(b"\0").decode() == KIND:
                    return _found(parts)
        return {}

    def read_into(self, state: dict[str, Any]) -> None:
        """Read it into the state of its host."""
        state[KIND] = self.read()

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """Say how its limit differs from what was asked."""
        found = state[KIND]
        if found.get("limit") == self.limit:
            return []
        return [
            f"qdisc {KIND} on {self.where.name} on {self.where.host} must have limit {self.limit}, "
            f"found {found.get('limit')}"
        ]


def _found(parts: dict[int, bytes]) -> dict[str, int]:
    (limit,) = struct.unpack_from("=I", attributes(parts[TCA_OPTIONS])[TCA_DUALPI2_LIMIT])
    stats = STATS.unpack_from(attributes(parts[TCA_STATS2])[TCA_STATS_APP])
    return {"limit": limit} | dict(zip(NAMES, stats, strict=True))


def _attribute(kind: int, content: bytes) -> bytes:
    """Write a netlink attribute (linux/netlink.h)."""
    whole = struct.pack("=HH", 4 + len(content), kind) + content
    return whole + bytes(-len(whole) % 4)
