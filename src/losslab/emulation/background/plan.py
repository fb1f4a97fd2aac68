"""Plan of background flows: one stream for each flow, with its random draws."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from losslab.emulation.background.network import DESTINATIONS, network_of, qdiscs_of, source_address
from losslab.emulation.programs import PYTHON, Flow, Program
from losslab.emulation.qdiscs import Qdisc
from losslab.emulation.topology import NetworkExtension
from losslab.study import background
from losslab.study.axes import derived_seed
from losslab.study.background import SAME, Group

if TYPE_CHECKING:
    from losslab.study.condition import Condition

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
# Fields of a stream that the sender's program needs (`program.Sending`).
SENT = (
    "source", "source_port", "destination", "algorithm", "start_s", "end_s", "size_bytes",
    "rate_mbit",
)  # fmt: skip
MODULE = "losslab.emulation.background.program"
PROGRAM = [*PYTHON, MODULE]


@dataclass(frozen=True)
class Stream:
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

    @property
    def bulk(self) -> bool:
        """Return whether only the network limits it, until it is stopped."""
        return self.size_bytes is None and self.rate_mbit is None


@dataclass(frozen=True)
class BackgroundFlows:
    """Background flows of a condition; one program at each end handles all of them."""

    flow: Flow  # both programs
    algorithms: list[str]  # all that a draw may select
    streams: list[Stream]
    network: NetworkExtension  # extra hosts and links
    qdiscs: list[Qdisc]  # of the extra links
    second_rate_mbit: float  # 0: no second bottleneck

    def caller(self, origin_ns: int) -> Program:
        """Return the sender's program with the monotonic clock at the replicate's 0 s."""
        values = [[getattr(stream, name) for name in SENT] for stream in self.streams]
        chunks = [json.dumps(values[at : at + CHUNK]) for at in range(0, len(values), CHUNK)]
        program = self.flow.caller
        return replace(program, command=[*program.command, str(origin_ns), *chunks])


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
    streams = [
        stream
        for number, group in enumerate(groups, 1)
        for stream in _streams(group, number, condition, seed, ready_s)
    ]
    streams.sort(key=lambda stream: stream.start_s)
    receiver = [*PROGRAM, "receive", str(PORT), str(len(streams))]
    return BackgroundFlows(
        flow=Flow(
            name="flows",
            algorithm=condition.algorithm,
            port=PORT,
            listener=Program("receiver", receiver, "flows-receiver.log"),
            caller=Program("sender", [*PROGRAM, "send", str(PORT)], "flows-sender.log"),
            bulk=False,
        ),
        algorithms=sorted({_algorithm(group, condition) for group in groups}),
        streams=[replace(s, source_port=SOURCE_PORT + n) for n, s in enumerate(streams)],
        network=network_of(condition),
        qdiscs=qdiscs_of(condition, seed),
        second_rate_mbit=condition.second_rate_mbit,
    )


def _algorithm(group: Group, condition: Condition) -> str:
    return condition.algorithm if group.algorithm == SAME else group.algorithm


def _streams(
    group: Group, number: int, condition: Condition, seed: int, ready_s: float
) -> Iterator[Stream]:
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
        sizes: list[int | None] = [_size_bytes(rng, group) for _ in starts]
    else:
        planned_s = [group.start_s + each * group.every_s for each in range(group.count)]
        starts = [max(at_s, ready_s) + rng.uniform(0, START_JITTER_S) for at_s in planned_s]
        size = None if group.size_kb is None else _bytes(group.size_kb)
        sizes = [size for _ in starts]
    for each, (start_s, octets) in enumerate(zip(starts, sizes, strict=True), 1):
        yield Stream(
            name=f"{number}-{each}",
            algorithm=_algorithm(group, condition),
            source=source_address(condition, rtt_ms),
            source_port=0,
            destination=DESTINATIONS[group.over],
            start_s=start_s,
            end_s=end_s,
            size_bytes=octets,
            rate_mbit=group.rate_mbit,
            rtt_ms=rtt_ms,
            over=group.over,
            short=group.short,
        )


def _size_bytes(rng: random.Random, group: Group) -> int:
    mean_kb = group.size_kb or 0.0
    if group.sizes == "exponential":
        return _bytes(rng.expovariate(1 / mean_kb))
    if group.sizes == "pareto":
        return _bytes(pareto(rng.random(), mean_kb))
    return _bytes(mean_kb)


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
