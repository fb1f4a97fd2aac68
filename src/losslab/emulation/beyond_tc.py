"""Netlink access to what tc cannot set or print: filters' actions, and DualPI2 (RFC 9332).

tc prints no policer's rate as JSON, and the image's tc does not know DualPI2, which kernels have
since 6.17: it makes one with its defaults. The rest is set and read over netlink. Layouts:
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
from losslab.emulation.qdiscs import FRAME_BYTES, Shaper
from losslab.emulation.topology import Interface
from losslab.errors import LosslabError

HANDLE = "ffff:"
RTM_NEWTFILTER, RTM_GETTFILTER = 44, 46
EGRESS = 0xFFFF_FFF3  # TC_H_CLSACT with TC_H_MIN_EGRESS
TCA_KIND, TCA_OPTIONS = 1, 2
# The attribute of a classifier that has its actions.
ACTIONS = {b"matchall": 2, b"flower": 3}
TCA_ACT_KIND, TCA_ACT_OPTIONS, TCA_ACT_STATS = 1, 2, 4
TCA_POLICE_TBF, TCA_GACT_PARMS, TCA_GACT_PROB = 1, 2, 3
# struct tc_police: index, action, limit, burst, mtu, and of its rate the last word.
POLICE = struct.Struct("=IiIII8xI")
GACT = struct.Struct("=IIi")  # index, capabilities, action
GACT_PROB = struct.Struct("=HHi")  # kind, one of, action
OK, DROP, DETERMINISTIC = 0, 2, 2  # TC_ACT_OK, TC_ACT_SHOT, PGACT_DETERM
TICK_NS = 64  # of the clock that a bucket is counted in (PSCHED_SHIFT, net/pkt_sched.h)
DUALPI2 = "dualpi2"
NLA_F_NESTED, TCA_STATS_APP, TCA_DUALPI2_LIMIT = 0x8000, 4, 1
# struct tc_dualpi2_xstats, up to its marks: probability, delays of C and L queue in us, packets
# that came to each, the longest queue, marks, and those of them by the L queue's threshold.
DUALPI2_STATS = struct.Struct("=8I")
DUALPI2_NAMES = (
    "prob", "delay_c_us", "delay_l_us", "packets_in_c", "packets_in_l", "maxq", "ecn_mark",
    "step_marks",
)  # fmt: skip


@dataclass(frozen=True)
class Filter(Shaper):
    """A filter on what leaves an interface, and what its action must read back as."""

    action: Mapping[str, int | str] | None = None

    @classmethod
    def on(cls, where: Interface, words: str, action: Mapping[str, int | str]) -> Filter:
        """Make one on an interface, in tc's words."""
        line = f"filter add dev {where.name} egress {words}"
        return cls(where, "", HANDLE, "clsact", "", {}, (line,), action=action)

    def read_into(self, state: dict[str, Any]) -> None:
        """Read the actions on its interface into the state of its host."""
        state.setdefault("filters", {})[self.where.name] = read(self.where.name)

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """Say how what was read differs from what was asked."""
        wanted = dict(self.action or {})
        found = state["filters"][self.where.name]
        got = [{name: each.get(name) for name in wanted} for each in found]
        if got == [wanted]:
            return []
        return [f"filter on {self.where.name} on {self.where.host} must be {wanted}, found {got}"]


def read(name: str) -> list[dict[str, Any]]:
    """Read the actions of the filters on what leaves an interface of this network namespace."""
    body = struct.pack("=BxxxiIII", socket.AF_UNSPEC, socket.if_nametoindex(name), 0, EGRESS, 0)
    return [
        action
        for kind, payload in dump(RTM_GETTFILTER, body)
        if kind == RTM_NEWTFILTER
        for action in _actions(attributes(payload[20:]))
    ]


def _actions(parts: Mapping[int, bytes]) -> Iterator[dict[str, Any]]:
    """List the actions of a filter, of which the kernel also names those without any."""
    options = attributes(parts.get(TCA_OPTIONS, b""))
    place = ACTIONS.get(parts[TCA_KIND].rstrip(b"\0"))
    for _, action in sorted(attributes(options.get(place or 0, b"")).items()):
        its = attributes(action)
        kind = its[TCA_ACT_KIND].rstrip(b"\0").decode()
        stats = attributes(its[TCA_ACT_STATS])
        octets, packets = struct.unpack_from("=QI", stats[TCA_STATS_BASIC])
        _, _, drops = struct.unpack_from("=III", stats[TCA_STATS_QUEUE])
        counts = {"bytes": octets, "packets": packets, "drops": drops}
        yield {"kind": kind} | _options(kind, attributes(its[TCA_ACT_OPTIONS])) | counts


def _options(kind: str, options: Mapping[int, bytes]) -> dict[str, int]:
    if kind == "police":
        _, action, _, ticks, _, rate = POLICE.unpack_from(options[TCA_POLICE_TBF])
        # The bucket is kept as the time that its rate needs for it, in whole ticks.
        burst = round(ticks * TICK_NS * rate / 1e9 / FRAME_BYTES) * FRAME_BYTES
        return {"action": action, "rate": rate, "burst": burst}
    if kind == "gact":
        _, _, action = GACT.unpack_from(options[TCA_GACT_PARMS])
        if TCA_GACT_PROB not in options:
            return {"action": action}
        random, one_of, otherwise = GACT_PROB.unpack_from(options[TCA_GACT_PROB])
        return {"action": action, "random": random, "one_of": one_of, "otherwise": otherwise}
    return {}


@dataclass(frozen=True)
class DualPi2(Shaper):
    """A DualPI2, of a stated length in packets."""

    limit: int = 0
    needs = (
        "queue dualpi2 needs a kernel that has it (6.17 or later)",
        "measure it with the kernel 7.2, or take another queue",
    )

    def _message(self) -> bytes:
        """Name it: interface, handle and parent."""
        handle = int(self.handle.rstrip(":"), 16) << 16
        major, minor = (int(part, 16) for part in self.parent.split()[-1].split(":"))
        index = socket.if_nametoindex(self.where.name)
        return struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, handle, major << 16 | minor, 0)

    def complete(self) -> None:
        """Set its length, in this network namespace."""
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
        """Read its limit and counters, in this network namespace; empty where it is not there."""
        wanted, state[DUALPI2] = self._message(), {}
        for kind, payload in dump(RTM_GETQDISC, wanted):
            if kind == RTM_NEWQDISC and payload[4:16] == wanted[4:16]:
                parts = attributes(payload[20:])
                if parts[TCA_KIND].rstrip(b"\0").decode() == DUALPI2:
                    state[DUALPI2] = dualpi2_state(parts)

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """Say how its limit differs from what was asked."""
        found = state[DUALPI2].get("limit")
        where = f"{self.where.name} on {self.where.host}"
        wanted = f"qdisc {DUALPI2} on {where} must have limit {self.limit}"
        return [] if found == self.limit else [f"{wanted}, found {found}"]


def dualpi2_state(parts: Mapping[int, bytes]) -> dict[str, int]:
    """Return the limit and the counters that a qdisc's attributes state."""
    (limit,) = struct.unpack_from("=I", attributes(parts[TCA_OPTIONS])[TCA_DUALPI2_LIMIT])
    stats = DUALPI2_STATS.unpack_from(attributes(parts[TCA_STATS2])[TCA_STATS_APP])
    return {"limit": limit} | dict(zip(DUALPI2_NAMES, stats, strict=True))
