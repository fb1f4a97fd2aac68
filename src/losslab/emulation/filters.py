"""Filters that drop what leaves an interface.

tc does not print a policer's rate as JSON; what the kernel has is read over netlink. Layouts:
linux/pkt_cls.h, linux/tc_act/tc_gact.h, linux/pkt_sched.h, linux/gen_stats.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from losslab.emulation.probes import netlink
from losslab.emulation.probes.netlink import attributes, messages
from losslab.emulation.probes.queue import (
    NETLINK_ROUTE,
    TCA_STATS_BASIC,
    TCA_STATS_QUEUE,
)
from losslab.emulation.qdiscs import FRAME_BYTES, Shaper
from losslab.emulation.topology import Interface

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
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as asked:
        asked.send(netlink.request(RTM_GETTFILTER, netlink.NLM_F_DUMP, body))
        answers = messages(asked)
    found = []
    for kind, payload in answers:
        if kind == RTM_NEWTFILTER:
            found += list(_actions(attributes(payload[20:])))
    return found


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
