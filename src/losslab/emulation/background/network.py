r"""Extra links of background flows: access links with their own base RTT, and a second bottleneck.

    sender ==== r1            the link of every path, which carries the data of all flows
       \-- a1 --/             one access link for each further base RTT, which carries the
        \- a2 -/              acknowledgements of the flows with its address

The router adds the flow's extra delay on its access link, all of it on the reverse path. Where the
delay is added along the round trip does not change the results.

    sender --- r1 ==== r2 ==== r4 --- receiver       a flow over both bottlenecks
    sender --- r1 ==== r2 ----------- receiver       over the first
    sender ----------- r2 ==== r4 --- receiver       over the second

The receiver has an address for each of these routes. Acknowledgements take the usual reverse path.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from losslab.emulation.mechanism import netem_link
from losslab.emulation.qdiscs import Filter, Qdisc, netem
from losslab.emulation.shaping import path_qdiscs
from losslab.emulation.topology import (
    RECEIVER_ADDRESS,
    SENDER_ADDRESS,
    Link,
    NetworkExtension,
    bottleneck,
    interface,
    link,
)
from losslab.study import background
from losslab.study.axes import derived_seed

if TYPE_CHECKING:
    from losslab.study.condition import Condition

# Access links use 10.0.21.0/24 and up; the path's own links use lower numbers.
FIRST = 20
ROUTER = "r4"
ENTRY, SECOND, LAST = (
    link(10, "sender", "r2"),
    link(11, "r2", ROUTER),
    link(12, ROUTER, "receiver"),
)
# The receiver's second address on its link to r2, and its address on the link to r4.
FIRST_ONLY_ADDRESS, SECOND_ONLY_ADDRESS = "10.0.3.3", LAST[1].address
SECOND_ONLY_NETWORK = "10.0.12.0/24"
# Destination address by the bottlenecks on a flow's route.
DESTINATIONS = {
    "both": RECEIVER_ADDRESS, "first": FIRST_ONLY_ADDRESS, "second": SECOND_ONLY_ADDRESS,
}  # fmt: skip


def access_links(condition: Condition) -> dict[float, Link]:
    """Return the access links by their flows' base RTT in ms; the sender's end comes first."""
    return {
        rtt_ms: link(FIRST + number, "sender", "r1", f"a{number}")
        for number, rtt_ms in enumerate(background.extra_rtts_ms(condition), 1)
    }


def source_address(condition: Condition, rtt_ms: float) -> str:
    """Return the source address of flows with a base RTT."""
    if rtt_ms == condition.rtt_ms:
        return SENDER_ADDRESS
    return access_links(condition)[rtt_ms][0].address


def qdiscs_of(condition: Condition, seed: int) -> list[Qdisc]:
    """List the qdiscs of the extra links.

    Access links add delay and no loss. The route over r4 equals the path's own except for its rate.
    """
    delays = [
        netem(end, rtt_ms - condition.rtt_ms, 0.0, derived_seed(seed, f"netem-{end.name}"))
        for rtt_ms, (_, end) in access_links(condition).items()
    ]
    if not condition.second_rate_mbit:
        return delays
    own = path_qdiscs(dataclasses.replace(condition, rate_mbit=condition.second_rate_mbit), seed)
    moved = {bottleneck(): SECOND[0], interface("sender", "r1"): ENTRY[0]}
    # A policer polices the first bottleneck only.
    found = [
        dataclasses.replace(q, where=moved[q.where])
        for q in own
        if q.where in moved and not isinstance(q, Filter)
    ]
    assert found[1].expected["rate"] == math.floor(condition.second_rate_mbit * 1e6 / 8)
    last = netem_link(condition, "data").qdiscs(LAST[0], seed, "netem-data-second")
    return [*delays, *found, *last]


def network_of(condition: Condition) -> NetworkExtension:
    """Return the hosts, links and routes that a condition's background flows need."""
    access = list(access_links(condition).values())

    networks = [f"{near.address.removesuffix('.1')}.0/24" for near, _ in access]
    over_r1 = {
        router: [(network, interface(router, "r1")) for network in networks]
        for router in ("r2", "r3")
    }
    if not condition.second_rate_mbit:
        return NetworkExtension(links=tuple(access), routes=over_r1)
    near, far = interface("r2", "receiver"), interface("receiver", "r2")
    return NetworkExtension(
        hosts=(ROUTER,),
        links=(*access, ENTRY, SECOND, LAST),
        routes={
            "sender": [(SECOND_ONLY_NETWORK, ENTRY[0])],
            "r2": [*over_r1["r2"], (RECEIVER_ADDRESS, SECOND[0]), (SECOND_ONLY_NETWORK, SECOND[0])],
            "r3": over_r1["r3"],
            ROUTER: [(RECEIVER_ADDRESS, LAST[0])],
        },
        commands={
            "receiver": [f"addr add {FIRST_ONLY_ADDRESS}/24 dev {far.name}"],
            "r2": [
                f"neigh replace {FIRST_ONLY_ADDRESS} lladdr {far.mac} dev {near.name} nud permanent"
            ],
        },
    )
