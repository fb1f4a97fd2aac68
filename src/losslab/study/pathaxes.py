"""The axes of paths that do more to packets than delay them and lose each by itself.

`condition.py` has them among its own; standard library only.
"""

from __future__ import annotations

from losslab.study.axes import Seed, axis
from losslab.study.changes import NONE

changes = axis(
    NONE,
    help="what becomes of the path while it runs: `at_s=10,rate_mbit=2+at_s=15,rate_mbit=20`, of "
    "`rate_mbit`, `rtt_ms`, `loss_percent` and `outage_s`, so long everything is lost",
    pattern="[a-z0-9_=.,+]+", named="changes-{}",
)  # fmt: skip
loss_burst_packets = axis(
    1.0,
    help="mean length of a burst of losses (Gilbert-Elliott); 1 for independent ones",
    span="[1, 1000]", unit="packets", named="burst{}",
)  # fmt: skip
jitter_ms = axis(
    0.0,
    help="further delay of each data packet, drawn evenly from 0 to this",
    span="[0, 1000]", unit="ms", named="jitter{}",
)  # fmt: skip
jitter_order = axis(
    "kept",
    help="whether packets of other delays overtake",
    choices={"kept": "no: who comes behind a late one waits", "mixed": "yes"},
    named="jitter-{}",
)  # fmt: skip
reorder_percent = axis(
    0.0,
    help="data packets that come `reorder_ms` before their turn",
    span="[0, 100)", unit="% of packets", named="reorder{}",
)  # fmt: skip
reorder_ms = axis(
    5.0,
    help="by how much; at most half of the RTT",
    span="[0.01, 1000]", unit="ms", named="early{}",
)  # fmt: skip
duplicate_percent = axis(
    0.0,
    help="data packets that come twice",
    span="[0, 100)", unit="% of packets", named="twice{}",
)  # fmt: skip
ack_thinning = axis(
    1,
    help="of so many acknowledgements without data one gets through; 1 for all",
    span="[1, 100]", named="thin{}",
)  # fmt: skip
policer_mbit = axis(
    0.0,
    help="what is above this rate before the bottleneck is dropped and never waits; 0 for none",
    span="[0, 10000]", unit="Mbit/s", named="policer{}",
)  # fmt: skip
policer_burst_packets = axis(
    100,
    help="what the policer lets through at once: full packets in its bucket",
    span="[2, 100000]", unit="packets", named="bucket{}",
)  # fmt: skip
ecn = axis(
    "off",
    help="explicit congestion notification of the hosts, and of every queue that can mark (quoted "
    "in a study: YAML reads on as true)",
    choices={"off": "", "on": "RFC 3168", "accurate": "AccECN, of newer kernels"},
    named="ecn-{}", seed=Seed.NEVER,
)  # fmt: skip
mark_packets = axis(
    20,
    help="what may wait before the queue `red-step` marks; 20 as in the paper on DCTCP at 1 Gbit/s",
    span="[1, 100000]", unit="packets", named="mark{}", seed=Seed.NEVER,
)  # fmt: skip
