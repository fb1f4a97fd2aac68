r"""Plan of background flows: extra links, and each flow with its random draws.

Extra links are access links with their own base RTT, and a second bottleneck:

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

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from losslab.emulation.mechanism import netem_link
from losslab.emulation.programs import PYTHON, Flow, Program
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
from losslab.study.background import SAME, Group

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


def extra_rtts_ms(condition: Condition) -> list[float]:
    """Return the base RTTs of flows that differ from the path's, in ascending order."""
    groups = background.parse(condition.flows)
    rtts_ms = {group.rtt_ms for group in groups if group.rtt_ms is not None}
    return sorted(rtts_ms - {condition.rtt_ms})


def access_links(condition: Condition) -> dict[float, Link]:
    """Return the access links by their flows' base RTT in ms; the sender's end comes first."""
    return {
        rtt_ms: link(FIRST + number, "sender", "r1", f"a{number}")
        for number, rtt_ms in enumerate(extra_rtts_ms(condition), 1)
    }


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
    of_path = path_qdiscs(replace(condition, rate_mbit=condition.second_rate_mbit), seed)
    moved = {bottleneck(): SECOND[0], interface("sender", "r1"): ENTRY[0]}
    # A policer polices the first bottleneck only.
    over_r4 = [
        replace(qdisc, where=moved[qdisc.where])
        for qdisc in of_path
        if qdisc.where in moved and not isinstance(qdisc, Filter)
    ]
    last = netem_link(condition, "data").qdiscs(LAST[0], seed, "netem-data-second")
    return [*delays, *over_r4, *last]


def network_of(condition: Condition) -> NetworkExtension:
    """Return the hosts, links and routes that a condition's background flows need."""
    access = tuple(access_links(condition).values())
    networks = [f"{near.address.removesuffix('.1')}.0/24" for near, _ in access]
    over_r1 = {
        router: [(network, interface(router, "r1")) for network in networks]
        for router in ("r2", "r3")
    }
    extension = NetworkExtension(links=access, routes=over_r1)
    if not condition.second_rate_mbit:
        return extension
    near, far = interface("r2", "receiver"), interface("receiver", "r2")
    return extension.plus(NetworkExtension(
        hosts=(ROUTER,),
        links=(ENTRY, SECOND, LAST),
        routes={
            "sender": [(SECOND_ONLY_NETWORK, ENTRY[0])],
            "r2": [(RECEIVER_ADDRESS, SECOND[0]), (SECOND_ONLY_NETWORK, SECOND[0])],
            ROUTER: [(RECEIVER_ADDRESS, LAST[0])],
        },
        commands={
            "receiver": [f"addr add {FIRST_ONLY_ADDRESS}/24 dev {far.name}"],
            "r2": [
                f"neigh replace {FIRST_ONLY_ADDRESS} lladdr {far.mac} dev {near.name} nud permanent"
            ],
        },
    ))  # fmt: skip


PORT = 5_300
# Below Linux's ephemeral ports (ip_local_port_range), so that none is in use.
SOURCE_PORT = 10_001
# Window in which each flow's start is drawn, so that flows are not in phase with each other, the
# bottleneck or the probes, and no flow is always first. It includes the foreground flow.
START_JITTER_S = 0.1
# Time from the replicate's 0 s to the window, in which the background flows' program starts.
LEAD_S = 0.1
KILOBYTE = 1000
# Sizes of web files have a tail with a shape of about 1.1 (Crovella and Bestavros, 1997). The
# distribution is bounded, because otherwise one flow in a thousand would dominate a run's mean.
PARETO_SHAPE = 1.1
PARETO_MAX = 1000.0  # largest size divided by the smallest
# Flows per command-line argument, which may have 128 KiB (MAX_ARG_STRLEN, linux/binfmts.h).
CHUNK = 500
# Fields of a flow that the sender's program needs (`program.Sending`).
SENT = (
    "source", "source_port", "destination", "algorithm", "start_s", "end_s", "size_bytes",
    "rate_mbit",
)  # fmt: skip
MODULE = "losslab.emulation.flows.program"
PROGRAM = [*PYTHON, MODULE]


@dataclass(frozen=True)
class PlannedFlow:
    """One flow of data from the sender to the receiver."""

    name: str
    algorithm: str
    source: str  # address
    source_port: int
    destination: str
    start_s: float
    end_s: float  # time at which an unfinished flow is stopped
    size_bytes: int | None  # None: unlimited
    rate_mbit: float | None  # application limit; None: unlimited
    rtt_ms: float  # base RTT
    over: str  # bottlenecks on its route, where there are two
    short: bool  # part of an arrival process
    label: str  # name of its group in metrics

    @property
    def upload(self) -> bool:
        """Return whether the data flow from the receiver to the sender."""
        return self.source == RECEIVER_ADDRESS

    @property
    def bulk(self) -> bool:
        """Return whether only the network limits it, until it is stopped."""
        return self.size_bytes is None and self.rate_mbit is None


@dataclass(frozen=True)
class BackgroundFlows:
    """Background flows of a condition; one program at each end handles all of them."""

    flow: Flow  # both programs
    algorithms: list[str]  # all that a draw may select
    streams: list[PlannedFlow]  # manifests have this name
    network: NetworkExtension  # extra hosts and links
    qdiscs: list[Qdisc]  # of the extra links
    second_rate_mbit: float  # 0: no second bottleneck
    # Flows from the receiver to the sender, and their programs.
    back: Flow | None
    back_streams: list[PlannedFlow]

    @property
    def directions(self) -> list[tuple[Flow, list[PlannedFlow]]]:
        """List both pairs of programs that have flows, with these."""
        pairs = ((self.flow, self.streams), (self.back, self.back_streams))
        return [(programs, flows) for programs, flows in pairs if programs and flows]

    def callers(self, origin_ns: int, warmup_s: float) -> list[Program]:
        """Return the sending programs with the monotonic clock at the replicate's 0 s."""
        senders = []
        for programs, flows in self.directions:
            values = [[getattr(flow, name) for name in SENT] for flow in flows]
            chunks = [json.dumps(values[at : at + CHUNK]) for at in range(0, len(values), CHUNK)]
            # Only the sender's connections are sampled.
            mark = ["--mark", str(warmup_s)] if programs is self.back else []
            command = [*programs.caller.command, str(origin_ns), *chunks, *mark]
            senders.append(replace(programs.caller, command=command))
        return senders


def own_start_s(seed: int) -> float:
    """Draw the start of the foreground flow's program in s, with background flows."""
    return LEAD_S + random.Random(derived_seed(seed, "flows-0")).uniform(0, START_JITTER_S)


def plan_background_flows(
    condition: Condition, seed: int, setup_rtts: int
) -> BackgroundFlows | None:
    """Plan a condition's background flows; None if it has none.

    Flows start `setup_rtts` later: the foreground flow needs that many RTTs from its program's
    start to its data connection, and would otherwise never be the first.
    """
    groups = background.parse(condition.flows)
    if not groups:
        return None
    ready_s = LEAD_S + setup_rtts * condition.rtt_ms / 1e3
    flows = [
        flow
        for number, group in enumerate(groups, 1)
        for flow in _flows_of(group, number, condition, seed, ready_s)
    ]
    flows.sort(key=lambda flow: flow.start_s)
    flows = [replace(flow, source_port=SOURCE_PORT + n) for n, flow in enumerate(flows)]
    uploads = [flow for flow in flows if flow.upload]
    downloads = [flow for flow in flows if not flow.upload]
    # With a label, the first byte of each flow counts.
    noted = ["--size", "0"] if any(group.label for group in groups) else []
    uploading = _programs(condition, "uploads", ("receiver", "sender"), len(uploads), noted)
    return BackgroundFlows(
        flow=_programs(condition, "flows", ("sender", "receiver"), len(downloads), noted),
        back=uploading if uploads else None,
        back_streams=uploads,
        algorithms=sorted({_algorithm(group, condition) for group in groups}),
        streams=downloads,
        network=network_of(condition),
        qdiscs=qdiscs_of(condition, seed),
        second_rate_mbit=condition.second_rate_mbit,
    )


def _programs(
    condition: Condition, name: str, hosts: tuple[str, str], count: int, noted: list[str]
) -> Flow:
    """Return the programs that send and receive a direction's flows; `hosts` has both of theirs."""
    receiver = [*PROGRAM, "receive", str(PORT), str(count), *noted]
    return Flow(
        name=name,
        algorithm=condition.algorithm,
        port=PORT,
        listener=Program(hosts[1], receiver, f"{name}-receiver.log"),
        caller=Program(hosts[0], [*PROGRAM, "send", str(PORT)], f"{name}-sender.log"),
        bulk=False,
    )


def _algorithm(group: Group, condition: Condition) -> str:
    return condition.algorithm if group.algorithm == SAME else group.algorithm


def _flows_of(
    group: Group, number: int, condition: Condition, seed: int, ready_s: float
) -> Iterator[PlannedFlow]:
    """Draw the flows of a group, which start at `ready_s` at the earliest; ports are set later."""
    end_s = condition.duration_s if group.end_s is None else group.end_s
    rtt_ms = condition.rtt_ms if group.rtt_ms is None else group.rtt_ms
    rng = random.Random(derived_seed(seed, f"flows-{number}"))
    starts: list[float] = []
    if group.arrivals_per_s is not None:  # a Poisson process
        at_s = max(group.start_s, ready_s) + rng.expovariate(group.arrivals_per_s)
        while at_s < end_s:
            starts.append(at_s)
            at_s += rng.expovariate(group.arrivals_per_s)
    else:
        planned_s = [group.start_s + index * group.every_s for index in range(group.count)]
        starts = [max(at_s, ready_s) + rng.uniform(0, START_JITTER_S) for at_s in planned_s]
    source, destination = SENDER_ADDRESS, DESTINATIONS[group.over]
    if rtt_ms != condition.rtt_ms:
        source = access_links(condition)[rtt_ms][0].address
    if group.direction == "back":
        source, destination = RECEIVER_ADDRESS, SENDER_ADDRESS
    for index, start_s in enumerate(starts, 1):
        yield PlannedFlow(
            name=f"{number}-{index}",
            algorithm=_algorithm(group, condition),
            source=source,
            source_port=0,
            destination=destination,
            start_s=start_s,
            end_s=end_s,
            size_bytes=_size_bytes(rng, group),
            rate_mbit=group.rate_mbit,
            rtt_ms=rtt_ms,
            over=group.over,
            short=group.short,
            label=group.name,
        )


def _size_bytes(rng: random.Random, group: Group) -> int | None:
    if group.size_kb is None:
        return None
    if group.sizes == "exponential":
        return _bytes(rng.expovariate(1 / group.size_kb))
    return _bytes(pareto(rng.random(), group.size_kb) if group.sizes == "pareto" else group.size_kb)


def size_bytes(condition: Condition) -> int | None:
    """Return the bytes of the foreground flow; None without a size."""
    return _bytes(condition.size_kb) if condition.size_kb else None


def _bytes(kilobytes: float) -> int:
    return max(1, round(kilobytes * KILOBYTE))


def pareto(u: float, mean: float) -> float:
    """Return the quantile `u` of the bounded Pareto distribution with a mean.

    With minimum l, maximum h = 1000 l and shape a, the distribution function is
    (1 - (l/x)^a) / (1 - (l/h)^a), and the mean l^a a / (a-1) (l^(1-a) - h^(1-a)) / (1 - (l/h)^a).
    """
    a, tail = PARETO_SHAPE, 1 - math.pow(PARETO_MAX, -PARETO_SHAPE)
    mean_of_min = a / (a - 1) * (1 - math.pow(PARETO_MAX, 1 - a)) / tail
    return mean / mean_of_min * math.exp(-math.log(1 - u * tail) / a)
