r"""Links of flows with a round-trip time of their own: the access links of a dumbbell.

    sender ==== r1            the link that every path has, which the data of all flows take
       \-- a1 --/             one more for each further round-trip time, which takes the
        \- a2 -/              acknowledgements of the flows whose address it has

The router delays on such a link what is longer than the path's. All of that delay is on the way
back: where on its round a flow's delay sits shifts its clock against the bottleneck's and changes
nothing else.
"""

from __future__ import annotations

from losslab.emulation.qdiscs import Shaper, netem
from losslab.emulation.topology import SENDER_ADDRESS, Interface, Link, link
from losslab.study import crowd
from losslab.study.condition import Condition
from losslab.study.seeds import derived_seed

# Their networks are 10.0.20.0/24 and on; those of the path's own links are below.
FIRST = 20


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


def delays(condition: Condition, seed: int) -> list[Shaper]:
    """List the access links' delay lines, which lose nothing."""
    return [
        netem(end, rtt_ms - condition.rtt_ms, 0.0, derived_seed(seed, f"netem-{end.name}"))
        for rtt_ms, (_, end) in access_links(condition).items()
    ]


def ends(condition: Condition, host: str) -> list[Interface]:
    """List a host's interfaces on these links."""
    return [end for its in access_links(condition).values() for end in its if end.host == host]
