"""Packets of a path that has more links than the usual: where all of them went."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from losslab.emulation.accounts import Traffic
from losslab.emulation.crowd.plan import Crowd
from losslab.emulation.topology import Interface


def of_all_links(
    counted: Traffic, crowd: Crowd, before: dict[str, Any], after: dict[str, Any]
) -> Traffic:
    """Add what further links carried to what the path's own did.

    Args:
        counted: Of the path's own links, as `accounts.traffic` has it.
        crowd: The flows, and their links.
        before: The state before the traffic, as `hosts.read_back` gives it.
        after: The state after it.
    """

    def packets(side: str, ends: Iterable[Interface]) -> int:
        return sum(
            int(state[end.host]["links"][end.name][side]["packets"]) * sign
            for end in ends
            for state, sign in ((after, 1), (before, -1))
        )

    ends = [end for both in crowd.links for end in both]
    return dataclasses.replace(
        counted,
        received_back=counted.received_back + packets("rx", _of("sender", ends)),
    )


def _of(host: str, ends: Iterable[Interface]) -> list[Interface]:
    return [end for end in ends if end.host == host]
