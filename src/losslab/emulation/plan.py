"""What a condition and a seed stand for: plain data, made before anything runs.

A replicate is set up from its plan, and what is read back is compared with it; nothing behind the
plan looks at the condition or draws a number. It stands in the manifest.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from losslab.emulation import mechanism
from losslab.emulation.accounts import Traffic
from losslab.emulation.crowd.plan import Crowd, make_crowd, own_start_s
from losslab.emulation.flows import Flow
from losslab.emulation.mechanism import Mechanism, loss_percent
from losslab.emulation.qdiscs import FRAME_BYTES, Shaper
from losslab.emulation.shaping import shapers
from losslab.emulation.topology import (
    HOSTS,
    INTERFACES,
    Beside,
    address_commands,
    reverse_router,
    routes,
    sysctls,
)
from losslab.study import features
from losslab.study.condition import NO_TRACE, Condition
from losslab.study.seeds import derived_seed

# A compromise: a sample costs the host about as much as a hundred packets.
SAMPLE_INTERVAL_S = 0.02
# Packets that the bottleneck passes between two samples, where it is slower than that.
SAMPLE_PACKETS = 6
SAMPLE_INTERVAL_MAX_S = 0.1
# A thousand lines of samples per second, whatever the number of flows.
SAMPLE_PER_FLOW_S = 0.001
# Flows of different replicates must not start in phase with the bottleneck and the probes.
START_JITTER_S = 0.1
# Queues whose length says how long a packet that comes now will wait.
IN_ORDER = ("fifo", "bfifo")


@dataclass(frozen=True)
class HostPlan:
    """What one host is set to, and must read back."""

    ip_commands: list[str]  # `ip -batch` lines: addresses, permanent neighbours, routes
    routes: dict[str, str]  # beyond its own links: destination to outgoing interface
    sysctls: dict[str, str]
    interfaces: list[str]
    offloads: str  # "on" or "off", of every interface
    qdiscs: list[Shaper]
    udp_offloads: bool = False  # these are as the others, too; otherwise nobody uses them


@dataclass(frozen=True)
class Start:
    """A flow, and when its caller starts."""

    flow: Flow
    at_s: float | None  # on the replicate's clock; None: by the flow before it
    after_s: float  # so long after the flow before it was started, where `at_s` is None


@dataclass(frozen=True)
class Promise:
    """What the emulated path promises to packets, whatever the flows do with it."""

    mechanisms: list[Mechanism]
    rtt_ms: float  # 0: a bare path, without delay lines
    rate_mbit: float
    loss_percent: float  # on the way to the receiver, by the routers
    loss_back_percent: float
    # Of aggregates, by netem on the sender's own interface; None: nothing is lost there.
    loss_at_sender_percent: float | None
    # Offloads are off: what is lost, counted and dropped is a packet, not an aggregate.
    single_packets: bool
    # The bottleneck's length says how long a packet that comes now will wait for its rate.
    in_order: bool
    # The rate is the trace's instead.
    by_trace: bool
    # The receiver's window is Linux's own: where it holds a flow back, that is a finding.
    window_may_limit: bool

    @property
    def bare(self) -> bool:
        """Tell whether the path is without delay, and so without netem and fq."""
        return self.rtt_ms == 0

    @property
    def below_ms(self) -> float:
        """Return by how much a ping on the idle path may be faster than the path."""
        return sum(each.below_ms for each in self.mechanisms)

    @property
    def above_ms(self) -> float:
        """Return by how much the fastest may be slower."""
        return sum(each.above_ms for each in self.mechanisms)

    @property
    def loss_run_packets(self) -> float:
        """Return the mean length of a run of losses."""
        return max((each.loss_run_packets for each in self.mechanisms), default=1.0)

    @property
    def mean_rate_mbit(self) -> float | None:
        """Return the mean rate of the time that goodput is of, where the rate changes."""
        rates = (each.mean_rate_mbit for each in self.mechanisms)
        return next((rate for rate in rates if rate is not None), None)

    def summary(self, counted: Traffic) -> dict[str, float]:
        """Describe what the path did of what it promises."""
        return {k: v for each in self.mechanisms for k, v in each.summary(counted).items()}

    def more(self) -> dict[str, Any]:
        """Write what the path does besides; nothing for a plain one."""
        first = [each for each in features.mechanisms() if each.with_others]
        used = [each for each in self.mechanisms if fields(each)]
        of_all = {type(each): each for each in (*first, *used)}
        if list(of_all.values()) == first:
            return {}
        return {k: v for each in of_all.values() for k, v in each.specified().items()}


@dataclass(frozen=True)
class Plan:
    """Everything that a replicate does."""

    app: str
    hosts: dict[str, HostPlan]
    back_router: str  # the first that the receiver's packets meet
    starts: list[Start]
    start_jitter_s: float  # between the probes' start and the replicate's 0 s
    sample_interval_s: float  # of flows and queue
    crowd: Crowd | None  # the flows beside the app's
    promise: Promise
    warmup_s: float
    duration_s: float
    parts: dict[str, Any] = field(default_factory=dict)  # of mechanisms, by name

    @property
    def hosts_at_end(self) -> dict[str, HostPlan]:
        """What the hosts are set to in the end: of a path that changes, other qdiscs."""
        found = self.hosts
        for each in self.promise.mechanisms:
            if (last := each.last_qdiscs(self)) is not None:
                found = {h: replace(p, qdiscs=_of_host(h, last)) for h, p in found.items()}
        return found

    @property
    def flows(self) -> list[Flow]:
        """List the flows in the order of their start."""
        return [start.flow for start in self.starts]

    @property
    def programs(self) -> list[Flow]:
        """List all pairs of programs: those of the flows, and of all flows beside them."""
        return [*self.flows, *([self.crowd.flow] if self.crowd else [])]

    @property
    def algorithms(self) -> set[str]:
        """Name the kernel's algorithms that are needed."""
        beside = self.crowd.algorithms if self.crowd else []
        return {flow.algorithm for flow in self.flows} | set(beside)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data, without what it does not have."""
        found = {name: part for name, part in asdict(self).items() if part is not None}
        for host in found["hosts"].values():
            if not host["udp_offloads"]:
                del host["udp_offloads"]
        del found["promise"]["mechanisms"]
        if more := self.promise.more():
            found["promise"]["more"] = more
        parts: dict[str, Any] = found.pop("parts")
        return {"links": []} | found | parts


def make_plan(condition: Condition, seed: int, video: Path | None = None) -> Plan:
    """Make the plan of a replicate.

    The seed decides every random draw; `video` is the stream that the app `ffmpeg` sends.
    """
    app = features.apps()[condition.app]
    flows = app.flows(condition, video)
    promise = _promise(condition)
    crowd = make_crowd(condition, seed, app.setup_rtts)
    bulk = sum(stream.bulk for stream in crowd.streams) if crowd else 0
    beside = crowd.network if crowd else Beside()
    ends = [*INTERFACES, *beside.ends]
    qdiscs = [*shapers(condition, seed), *(crowd.qdiscs if crowd else [])]
    ways = routes(condition.path, beside)
    return Plan(
        app=condition.app,
        hosts={
            host: HostPlan(
                ip_commands=address_commands(host, condition.path, beside),
                routes={destination: out.name for destination, out in ways.get(host, [])},
                sysctls=sysctls(host, condition, ends),
                interfaces=[end.name for end in ends if end.host == host],
                offloads=condition.offloads,
                qdiscs=_of_host(host, qdiscs),
                udp_offloads=app.udp_offloads,
            )
            for host in (*HOSTS, *beside.hosts)
        },
        back_router=reverse_router(condition.path),
        starts=_starts(flows, seed, 0.0 if crowd is None else own_start_s(seed)),
        start_jitter_s=_jitter_s(seed, "start"),
        sample_interval_s=sample_interval_s(condition.rate_mbit, bulk),
        crowd=crowd,
        promise=promise,
        warmup_s=condition.warmup_s,
        duration_s=condition.duration_s,
        parts={
            name: part
            for each in promise.mechanisms
            for name, part in each.plan(condition, seed).items()
        },
    )


def _of_host(host: str, qdiscs: Sequence[Shaper]) -> list[Shaper]:
    return [qdisc for qdisc in qdiscs if qdisc.where.host == host]


def _promise(condition: Condition) -> Promise:
    at_sender, mechanisms = condition.sender_delay_ms > 0, mechanism.of(condition)
    return Promise(
        mechanisms=mechanisms,
        rtt_ms=condition.rtt_ms,
        rate_mbit=condition.rate_mbit,
        loss_percent=loss_percent(condition, "data"),
        loss_back_percent=loss_percent(condition, "back"),
        loss_at_sender_percent=condition.loss_percent if at_sender else None,
        single_packets=condition.offloads == "off",
        in_order=(
            condition.queue in IN_ORDER
            and condition.trace == NO_TRACE
            and condition.shaper == "tbf"
            and not any(m.below_ms or m.above_ms or m.mean_rate_mbit for m in mechanisms)
        ),
        by_trace=condition.trace != NO_TRACE,
        window_may_limit=condition.receive_buffer == "linux",
    )


def _starts(flows: Sequence[Flow], seed: int, first_s: float) -> list[Start]:
    """Draw when each flow's caller starts: in its window, or soon after the one before."""
    starts = []
    for number, flow in enumerate(flows):
        at_s = None if number else first_s
        if flow.start_window_s is not None:
            draw = random.Random(derived_seed(seed, f"start-{flow.name}"))
            at_s = draw.uniform(*flow.start_window_s)
        starts.append(Start(flow, at_s, _jitter_s(seed, f"start-{flow.name}")))
    return starts


def _jitter_s(seed: int, purpose: str) -> float:
    return random.Random(derived_seed(seed, purpose)).uniform(0, START_JITTER_S)


def sample_interval_s(rate_mbit: float, beside: int = 0) -> float:
    """Choose how often flows and queue are sampled: every 20 ms, less often on slow links.

    Of many flows a sample costs more.
    """
    packet_s = FRAME_BYTES * 8 / 1e6 / rate_mbit
    wanted_s = max(SAMPLE_INTERVAL_S, SAMPLE_PACKETS * packet_s, SAMPLE_PER_FLOW_S * beside)
    return min(wanted_s, SAMPLE_INTERVAL_MAX_S)
