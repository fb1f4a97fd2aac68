"""What the axis `flows` and a seed stand for: one stream for each flow, with all that is drawn."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from losslab.emulation.crowd.network import DESTINATIONS, network_of, qdiscs_of, source_address
from losslab.emulation.flows import Flow, Program
from losslab.emulation.qdiscs import Shaper
from losslab.emulation.standby import PYTHON
from losslab.emulation.topology import Beside
from losslab.study import crowd
from losslab.study.condition import Condition
from losslab.study.crowd import SAME, Group
from losslab.study.seeds import derived_seed

PORT = 5_300
# Below the ports that Linux gives away (ip_local_port_range), so that none is taken.
SOURCE_PORT = 10_001
# Flows must not start in phase with each other, the bottleneck or the probes, and none is to be the
# first in every run: each starts, the cell's own among them, at an instant of this window.
START_JITTER_S = 0.1
# From the replicate's 0 s to the window: in it these flows' program starts.
LEAD_S = 0.1
KILOBYTE = 1000
# Files on the web have a tail of a shape of about 1.1 (Crovella and Bestavros, 1997). Bounded: one
# flow in a thousand would decide a run's mean.
PARETO_SHAPE = 1.1
PARETO_MOST = 1000.0  # the largest in units of the least
# Flows in a word of the command line, which may have 128 KiB (MAX_ARG_STRLEN, linux/binfmts.h).
CHUNK = 500
# What the sender's program is told of a stream (`program.Sending`).
SENT = (
    "source", "source_port", "destination", "algorithm", "start_s", "end_s", "size_bytes",
    "rate_mbit",
)  # fmt: skip
PROGRAM = [*PYTHON, "losslab.emulation.crowd.program"]


@dataclass(frozen=True)
class Stream:
    """One flow of data from the sender to the receiver."""

    name: str
    algorithm: str
    source: str  # address
    source_port: int
    destination: str
    start_s: float
    end_s: float  # it is stopped then, if it has not ended
    size_bytes: int | None  # None: as much as it can
    rate_mbit: float | None  # what its program gives it to send; None: as much as it can
    rtt_ms: float
    over: str  # which bottlenecks, where there are two
    short: bool  # one of a process of arrivals

    @property
    def bulk(self) -> bool:
        """Tell whether it wants all that the path can carry, for its whole life."""
        return self.size_bytes is None and self.rate_mbit is None


@dataclass(frozen=True)
class Crowd:
    """Flows beside a cell's own; one program at each end makes all of them."""

    flow: Flow  # those programs
    algorithms: list[str]  # all that may be used, whatever is drawn
    streams: list[Stream]
    network: Beside  # for them, besides the path
    qdiscs: list[Shaper]  # of its links
    second_rate_mbit: float  # 0: there is no second bottleneck


def own_start_s(seed: int) -> float:
    """Draw when the program of the cell's own flow starts, where there are others."""
    return LEAD_S + random.Random(derived_seed(seed, "flows-0")).uniform(0, START_JITTER_S)


def make_crowd(condition: Condition, seed: int, setup_rtts: int) -> Crowd | None:
    """Plan a condition's flows; None where it has none.

    Flows wait for the `setup_rtts` that the cell's own flow needs from its program's start to its
    data connection, or they would be the first in every run.
    """
    groups = crowd.parse(condition.flows)
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
    return Crowd(
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


def caller(crowd: Crowd, origin_ns: int) -> Program:
    """Give the sender's program, which must know when the replicate's clock has its 0 s."""
    told = [[getattr(stream, name) for name in SENT] for stream in crowd.streams]
    chunks = [json.dumps(told[at : at + CHUNK]) for at in range(0, len(told), CHUNK)]
    program = crowd.flow.caller
    return replace(program, command=[*program.command, str(origin_ns), *chunks])


def _algorithm(group: Group, condition: Condition) -> str:
    return condition.algorithm if group.algorithm == SAME else group.algorithm


def _streams(
    group: Group, number: int, condition: Condition, seed: int, ready_s: float
) -> Iterator[Stream]:
    """Draw the flows of a group, none before `ready_s`; their ports come later."""
    end_s = condition.duration_s if group.end_s is None else group.end_s
    rtt_ms = condition.rtt_ms if group.rtt_ms is None else group.rtt_ms
    draw = random.Random(derived_seed(seed, f"flows-{number}"))
    starts: list[float] = []
    if group.arrivals_per_s is not None:  # a Poisson process
        at_s = max(group.start_s, ready_s) + draw.expovariate(group.arrivals_per_s)
        while at_s < end_s:
            starts.append(at_s)
            at_s += draw.expovariate(group.arrivals_per_s)
        sizes: list[int | None] = [_size_bytes(draw, group) for _ in starts]
    else:
        asked = [group.start_s + each * group.every_s for each in range(group.count)]
        starts = [max(at_s, ready_s) + draw.uniform(0, START_JITTER_S) for at_s in asked]
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


def _size_bytes(draw: random.Random, group: Group) -> int:
    """Draw a short flow's size; its mean is the group's `size_kb`."""
    mean_kb = group.size_kb or 0.0
    if group.sizes == "exponential":
        return _bytes(draw.expovariate(1 / mean_kb))
    if group.sizes == "pareto":
        return _bytes(pareto(draw.random(), mean_kb))
    return _bytes(mean_kb)


def _bytes(kilobytes: float) -> int:
    return max(1, round(kilobytes * KILOBYTE))


def pareto(u: float, mean: float) -> float:
    """Return the quantile `u` of the bounded Pareto distribution with a mean.

    With the least size l, the largest h = 1000 l and shape a the distribution function is
    (1 - (l/x)^a) / (1 - (l/h)^a), and the mean l^a a / (a-1) (l^(1-a) - h^(1-a)) / (1 - (l/h)^a).
    """
    a, tail = PARETO_SHAPE, 1 - math.pow(PARETO_MOST, -PARETO_SHAPE)
    mean_of_least = a / (a - 1) * (1 - math.pow(PARETO_MOST, 1 - a)) / tail
    return mean / mean_of_least * math.exp(-math.log(1 - u * tail) / a)
