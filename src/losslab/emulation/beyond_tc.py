"""Netlink access to what tc cannot set or print: filters' actions, and DualPI2 (RFC 9332).

tc does not print a policer's rate as JSON. The image's tc does not know DualPI2 (Linux 6.17): it
can create one only with default options. Both are therefore set and read over netlink. Layouts:
linux/pkt_cls.h, linux/pkt_sched.h, linux/tc_act/tc_gact.h, linux/gen_stats.h, linux/rtnetlink.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from losslab.emulation.probes.netlink import NLM_F_ACK, ask, attribute, attributes, dump
from losslab.emulation.probes.queue import (
    RTM_GETQDISC,
    RTM_NEWQDISC,
    TCA_STATS2,
    TCA_STATS_BASIC,
    TCA_STATS_QUEUE,
)
from losslab.emulation.qdiscs import FRAME_BYTES, Qdisc
from losslab.emulation.tcvalues import bucket_bytes
from losslab.emulation.topology import Interface
from losslab.errors import LosslabError

HANDLE = "ffff:"
RTM_NEWTFILTER, RTM_GETTFILTER = 44, 46
EGRESS = 0xFFFF_FFF3  # TC_H_CLSACT with TC_H_MIN_EGRESS
TCA_KIND, TCA_OPTIONS = 1, 2
# Attribute with a classifier's actions.
ACTIONS = {b"matchall": 2, b"flower": 3}
TCA_ACT_KIND, TCA_ACT_OPTIONS, TCA_ACT_STATS = 1, 2, 4
TCA_POLICE_TBF, TCA_GACT_PARMS, TCA_GACT_PROB = 1, 2, 3
# struct tc_police: index, action, limit, burst, mtu, last field of the rate.
POLICE = struct.Struct("=IiIII8xI")
GACT = struct.Struct("=IIi")  # index, capabilities, action
GACT_PROB = struct.Struct("=HHi")  # kind, one of, action
OK, DROP, DETERMINISTIC = 0, 2, 2  # TC_ACT_OK, TC_ACT_SHOT, PGACT_DETERM
DUALPI2 = "dualpi2"
NLA_F_NESTED, TCA_STATS_APP, TCA_DUALPI2_LIMIT = 0x8000, 4, 1
# struct tc_dualpi2_xstats up to the marks: probability; delays of the C and L queues in us; packets
# into each; maximum queue length; marks; marks by the L queue's step threshold.
DUALPI2_STATS = struct.Struct("=8I")
DUALPI2_NAMES = (
    "prob", "delay_c_us", "delay_l_us", "packets_in_c", "packets_in_l", "maxq", "ecn_mark",
    "step_marks",
)  # fmt: skip


@dataclass(frozen=True)
class Filter(Qdisc):
    """Egress filter of an interface, with the action that must be read back."""

    action: Mapping[str, int | str] | None = None

    @classmethod
    def on(cls, where: Interface, arguments: str, action: Mapping[str, int | str]) -> Filter:
        """Build a filter on an interface from tc arguments."""
        line = f"filter add dev {where.name} egress {arguments}"
        return cls(where, "", HANDLE, "clsact", "", {}, (line,), action=action)

    def read_into(self, state: dict[str, Any]) -> None:
        """Read the actions of the interface's filters into the state of its host."""
        state.setdefault("filters", {})[self.where.name] = read(self.where.name)

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """List the deviations of the action that was read back from the planned one."""
        expected = dict(self.action or {})
        actions = state["filters"][self.where.name]
        found = [{name: each.get(name) for name in expected} for each in actions]
        if found == [expected]:
            return []
        where = f"{self.where.name} on {self.where.host}"
        return [f"filter on {where} must be {expected}, found {found}"]


def read(name: str) -> list[dict[str, Any]]:
    """Read the actions of the egress filters of an interface in this network namespace."""
    body = struct.pack("=BxxxiIII", socket.AF_UNSPEC, socket.if_nametoindex(name), 0, EGRESS, 0)
    return [
        action
        for kind, payload in dump(RTM_GETTFILTER, body)
        if kind == RTM_NEWTFILTER
        for action in _actions(attributes(payload[20:]))
    ]


def _actions(parts: Mapping[int, bytes]) -> Iterator[dict[str, Any]]:
    """Yield the actions of a filter; the kernel also lists filters without actions."""
    options = attributes(parts.get(TCA_OPTIONS, b""))
    place = ACTIONS.get(parts[TCA_KIND].rstrip(b"\0"))
    for _, action in sorted(attributes(options.get(place or 0, b"")).items()):
        fields = attributes(action)
        kind = fields[TCA_ACT_KIND].rstrip(b"\0").decode()
        stats = attributes(fields[TCA_ACT_STATS])
        octets, packets = struct.unpack_from("=QI", stats[TCA_STATS_BASIC])
        _, _, drops = struct.unpack_from("=III", stats[TCA_STATS_QUEUE])
        counts = {"bytes": octets, "packets": packets, "drops": drops}
        yield {"kind": kind} | _options(kind, attributes(fields[TCA_ACT_OPTIONS])) | counts


def _options(kind: str, options: Mapping[int, bytes]) -> dict[str, int]:
    if kind == "police":
        _, action, _, ticks, _, rate = POLICE.unpack_from(options[TCA_POLICE_TBF])
        # The kernel keeps the burst as its transmission time in whole ticks.
        burst = round(bucket_bytes(rate, ticks) / FRAME_BYTES) * FRAME_BYTES
        return {"action": action, "rate": rate, "burst": burst}
    if kind == "gact":
        _, _, action = GACT.unpack_from(options[TCA_GACT_PARMS])
        if TCA_GACT_PROB not in options:
            return {"action": action}
        random, one_of, otherwise = GACT_PROB.unpack_from(options[TCA_GACT_PROB])
        return {"action": action, "random": random, "one_of": one_of, "otherwise": otherwise}
    return {}


@dataclass(frozen=True)
class DualPi2(Qdisc):
    """A DualPI2 qdisc with a limit in packets."""

    limit: int = 0
    needs = (
        "queue dualpi2 needs a kernel with DualPI2 (6.17 or later)",
        "use the kernel 7.2 or another queue",
    )

    def _message(self) -> bytes:
        handle = int(self.handle.rstrip(":"), 16) << 16
        major, minor = (int(part, 16) for part in self.parent.split()[-1].split(":"))
        index = socket.if_nametoindex(self.where.name)
        return struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, handle, major << 16 | minor, 0)

    def complete(self) -> None:
        """Set the limit, in this network namespace."""
        limit = attribute(TCA_DUALPI2_LIMIT, struct.pack("=I", self.limit))
        body = self._message() + attribute(TCA_KIND, DUALPI2.encode() + b"\0")
        try:
            ask(RTM_NEWQDISC, NLM_F_ACK, body + attribute(TCA_OPTIONS | NLA_F_NESTED, limit))
        except OSError as error:
            raise LosslabError(
                f"{DUALPI2} on {self.where.name} must take a limit of {self.limit} packets, found "
                f"{os.strerror(error.errno or 0)}"
            ) from error

    def read_into(self, state: dict[str, Any]) -> None:
        """Read limit and counters in this network namespace; empty if there is no such qdisc."""
        message, state[DUALPI2] = self._message(), {}
        for kind, payload in dump(RTM_GETQDISC, message):
            if kind == RTM_NEWQDISC and payload[4:16] == message[4:16]:
                parts = attributes(payload[20:])
                if parts[TCA_KIND].rstrip(b"\0").decode() == DUALPI2:
                    state[DUALPI2] = dualpi2_state(parts)

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """List a deviation if the limit is not the planned one."""
        found = state[DUALPI2].get("limit")
        where = f"{self.where.name} on {self.where.host}"
        expected = f"qdisc {DUALPI2} on {where} must have limit {self.limit}"
        return [] if found == self.limit else [f"{expected}, found {found}"]


def dualpi2_state(parts: Mapping[int, bytes]) -> dict[str, int]:
    """Return the limit and the counters in a qdisc's attributes."""
    (limit,) = struct.unpack_from("=I", attributes(parts[TCA_OPTIONS])[TCA_DUALPI2_LIMIT])
    stats = DUALPI2_STATS.unpack_from(attributes(parts[TCA_STATS2])[TCA_STATS_APP])
    return {"limit": limit} | dict(zip(DUALPI2_NAMES, stats, strict=True))
