"""Packets of a path that has more links than the usual: where all of them went."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from losslab.emulation.accounts import Traffic
from losslab.emulation.crowd.network import ENTRY, LAST, SECOND, ends_of
from losslab.emulation.crowd.plan import Crowd
from losslab.emulation.topology import Interface


def of_all_links(
    counted: Traffic, crowd: Crowd, before: dict[str, Any], after: dict[str, Any]
) -> Traffic:
    """Add what further links carried to what the path's own did.

    States are as of `hosts.read_back`.
    """

    def packets(side: str, ends: Iterable[Interface]) -> int:
        return sum(
            int(state[end.host]["links"][end.name][side]["packets"]) * sign
            for end in ends
            for state, sign in ((after, 1), (before, -1))
        )

    back = counted.received_back + packets("rx", ends_of(crowd.network, "sender"))
    if SECOND not in crowd.network.links:
        return dataclasses.replace(counted, received_back=back)
    return dataclasses.replace(
        counted,
        received_back=back,
        sent=counted.sent + packets("tx", [ENTRY[0]]),
        received=counted.received + packets("rx", [LAST[1]]),
        bottleneck_drops=counted.bottleneck_drops + _drops(SECOND[0], before, after),
        loss_drops=counted.loss_drops + _drops(LAST[0], before, after),
        sender_drops=counted.sender_drops + _drops(ENTRY[0], before, after),
    )


def second(crowd: Crowd, before: dict[str, Any], after: dict[str, Any]) -> dict[str, int]:
    """Count the packets for which a second bottleneck had no room, where there is one."""
    if SECOND not in crowd.network.links:
        return {}
    return {"second_bottleneck_drops": _drops(SECOND[0], before, after)}


def _drops(end: Interface, before: dict[str, Any], after: dict[str, Any]) -> int:
    """Count what the qdisc of an interface dropped."""
    return sum(
        int(qdisc.get("drops", 0)) * sign
        for state, sign in ((after, 1), (before, -1))
        for qdisc in state[end.host]["qdiscs"]
        if qdisc.get("dev") == end.name and qdisc.get("handle") == "1:"
    )
