r"""What flows need of a network besides the path: access links, and a second bottleneck.

    sender ==== r1            the link that every path has, which the data of all flows take
       \-- a1 --/             one more for each further round-trip time, which takes the
        \- a2 -/              acknowledgements of the flows whose address it has

The router delays on such a link what is longer than the path's. All of that delay is on the way
back: where on its round a flow's delay sits shifts its clock against the bottleneck's and changes
nothing else.

    sender --- r1 ==== r2 ==== r4 --- receiver       a flow over both bottlenecks
    sender --- r1 ==== r2 ----------- receiver       over the first
    sender ----------- r2 ==== r4 --- receiver       over the second

The receiver has an address for each way; acknowledgements come back as on every path.
"""

from __future__ import annotations

import dataclasses
import math

from losslab.emulation.mechanism import line
from losslab.emulation.qdiscs import Shaper, netem
from losslab.emulation.shaping import shapers
from losslab.emulation.topology import (
    RECEIVER_ADDRESS,
    SENDER_ADDRESS,
    Beside,
    Link,
    bottleneck,
    interface,
    link,
)
from losslab.study import crowd
from losslab.study.condition import Condition
from losslab.study.seeds import derived_seed

# Their networks are 10.0.21.0/24 and on; those of the path's own links are below.
FIRST = 20
ROUTER = "r4"
ENTRY, SECOND, LAST = (
    link(10, "sender", "r2"),
    link(11, "r2", ROUTER),
    link(12, ROUTER, "receiver"),
)
# The receiver's second one on its link to r2, and its own on that to r4.
FIRST_ONLY_ADDRESS, SECOND_ONLY_ADDRESS = "10.0.3.3", LAST[1].address
SECOND_ONLY_NETWORK = "10.0.12.0/24"
# Where flows go, by the bottlenecks that they pass.
DESTINATIONS = {
    "both": RECEIVER_ADDRESS, "first": FIRST_ONLY_ADDRESS, "second": SECOND_ONLY_ADDRESS,
}  # fmt: skip


def access_links(condition: Condition) -> dict[float, Link]:
    """Make the links, the sender's end first, by their flows' round-trip time in ms."""
    return {
        rtt_ms: link(FIRST + number, "sender", "r1", f"a{number}")
        for number, rtt_ms in enumerate(crowd.own_rtts_ms(condition), 1)
    }


def source_address(condition: Condition, rtt_ms: float) -> str:
    """Return the address from which flows of a round-trip time come."""
    if rtt_ms == condition.rtt_ms:
        return SENDER_ADDRESS
    return access_links(condition)[rtt_ms][0].address


def qdiscs_of(condition: Condition, seed: int) -> list[Shaper]:
    """List the qdiscs of the further links.

    Access links delay and lose nothing. The way over r4 is as the path's own, but for the rate.
    """
    delays = [
        netem(end, rtt_ms - condition.rtt_ms, 0.0, derived_seed(seed, f"netem-{end.name}"))
        for rtt_ms, (_, end) in access_links(condition).items()
    ]
    if not condition.second_rate_mbit:
        return delays
    own = shapers(dataclasses.replace(condition, rate_mbit=condition.second_rate_mbit), seed)
    moved = {bottleneck(): SECOND[0], interface("sender", "r1"): ENTRY[0]}
    found = [dataclasses.replace(q, where=moved[q.where]) for q in own if q.where in moved]
    assert found[1].expected["rate"] == math.floor(condition.second_rate_mbit * 1e6 / 8)
    last = line(condition, "data").shapers(LAST[0], seed, "netem-data-second")
    return [*delays, *found, *last]


def network_of(condition: Condition) -> Beside:
    """Say which hosts, links and routes a condition's flows need."""
    access = list(access_links(condition).values())

    networks = [f"{near.address.removesuffix('.1')}.0/24" for near, _ in access]
    over_r1 = {
        router: [(network, interface(router, "r1")) for network in networks]
        for router in ("r2", "r3")
    }
    if not condition.second_rate_mbit:
        return Beside(links=tuple(access), routes=over_r1)
    near, far = interface("r2", "receiver"), interface("receiver", "r2")
    return Beside(
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
