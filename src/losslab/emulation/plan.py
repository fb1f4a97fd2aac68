"""Plan of a replicate: plain data, made from a condition and a seed before anything runs.

A replicate is set up from its plan, and the state read back is compared with it. Later steps
neither read the condition nor draw random numbers. The manifest contains the plan.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from losslab.emulation import mechanism
from losslab.emulation.app import apps
from losslab.emulation.flows.plan import (
    BackgroundFlows,
    own_start_s,
    plan_background_flows,
)
from losslab.emulation.hosts import HostPlan
from losslab.emulation.mechanism import Effect, Mechanism, loss_percent
from losslab.emulation.probes import ping_frame_bytes
from losslab.emulation.programs import COMPETITOR_PREFIX, START_JITTER_S, Flow
from losslab.emulation.qdiscs import Link, LinkStep, Qdisc
from losslab.emulation.shaping import bucket_bytes, exact, path_qdiscs
from losslab.emulation.topology import (
    HOSTS,
    INTERFACES,
    NetworkExtension,
    address_commands,
    bottleneck,
    destination6,
    reverse_router,
    route_attributes,
    routes,
    sysctls,
)
from losslab.study import hostsettings, packetsizes
from losslab.study.axes import OWN, derived_seed
from losslab.study.condition import NO_TRACE, Condition
from losslab.study.packetsizes import AGGREGATE_BYTES, PacketSizes

# Over netlink, a sample costs as much CPU time as about 100 packets.
SAMPLE_INTERVAL_S = 0.02
# Minimum number of packets that the bottleneck sends between two samples.
SAMPLE_PACKETS = 6
SAMPLE_INTERVAL_MAX_S = 0.1
# At most 1000 samples of connections per second, for any number of flows.
SAMPLE_PER_FLOW_S = 0.001
# Queues whose length determines the delay of an arriving packet.
IN_ORDER = ("fifo", "bfifo")
# Entries of the oldest mechanisms, which a plan with any mechanism has, used or not.
FIRST_ENTRIES: dict[str, Any] = {
    "mean_rate_mbit": None, "burst_packets": 1.0, "jitter_ms": 0.0, "early_percent": 0.0,
    "early_ms": 0.0, "duplicate_percent": 0.0, "policer_mbit": 0.0, "policer_burst_packets": 0,
    "ack_thinning": 1, "ecn": "off", "marking": False,
}  # fmt: skip
# Later entries of such a mechanism, which a plan has unless they are at these defaults.
LATER_ENTRIES = {
    "jitter_direction": "data", "jitter_distribution": "uniform", "jitter_correlation_percent": 0.0,
}  # fmt: skip


@dataclass(frozen=True)
class Start:
    """Start time of a flow's caller."""

    flow: Flow
    at_s: float | None  # time on the replicate's clock; None: relative to the previous flow
    after_s: float  # time after the start of the previous flow, if `at_s` is None


@dataclass(frozen=True)
class PathSpec:
    """Path specification: properties of the emulated path, independent of its flows."""

    mechanisms: list[Mechanism]
    effect: Effect  # of all mechanisms
    rtt_ms: float  # base RTT; 0: a bare path, without netem links
    rate_mbit: float
    loss_percent: float  # forward path, at the routers' netem
    loss_back_percent: float  # reverse path
    # Loss of aggregates by netem on the sender's own interface; None: there is no such netem.
    loss_at_sender_percent: float | None
    # Offloads are off: packets, not aggregates, are lost, dropped and counted.
    single_packets: bool
    # The queue's length determines the delay of an arriving packet.
    in_order: bool
    # The trace determines the rate.
    by_trace: bool
    # The receive buffer is no larger than Linux's, and may limit a flow in a valid result.
    window_may_limit: bool
    buffer_may_limit: bool  # so may the send buffer
    bucket_bytes: int = 0  # what the bottleneck may send at once beyond its rate; 0: an exact link
    ping_ms: float = 0.0  # time that a ping and its reply take on exact links
    sizes: PacketSizes = packetsizes.DEFAULT

    @property
    def bare(self) -> bool:
        """Return whether the path has no delay, and therefore neither netem nor fq."""
        return self.rtt_ms == 0

    @property
    def exact(self) -> bool:
        """Return whether rates are those of exact links: no bucket can send more at once."""
        return self.bucket_bytes == 0

    @property
    def packet_bytes(self) -> int:
        """Return the size of the largest packet that the bottleneck sends.

        An exact link sends segments one by one, a token bucket also aggregates.
        """
        single = self.exact or self.single_packets
        return self.sizes.mtu_bytes if single else AGGREGATE_BYTES

    def more(self) -> dict[str, Any]:
        """Return the mechanisms' entries of the plan; empty for a path without mechanisms."""
        used = {
            field.name: value
            for mechanism in self.mechanisms
            for field in fields(mechanism)
            if (value := getattr(mechanism, field.name)) != LATER_ENTRIES.get(field.name)
        }
        entries = FIRST_ENTRIES | used
        return {} if entries == FIRST_ENTRIES else entries


@dataclass(frozen=True)
class Plan:
    """Plan of a replicate."""

    app: str
    hosts: dict[str, HostPlan]
    back_router: str  # the first router of the reverse path
    starts: list[Start]
    start_jitter_s: float  # between the probes' start and the replicate's 0 s
    sample_interval_s: float  # of flows and queue
    background: BackgroundFlows | None
    path_spec: PathSpec
    warmup_s: float
    duration_s: float
    parts: dict[str, Any] = field(default_factory=dict)  # of mechanisms, by name

    @property
    def hosts_at_end(self) -> dict[str, HostPlan]:
        """Settings of the hosts after the traffic; a path schedule changes their qdiscs."""
        changes = self.parts.get("changes")
        if changes is None or not changes.steps:
            return self.hosts
        last = [*changes.steps[-1].then, *self.background_qdiscs]
        return {h: replace(p, qdiscs=_of_host(h, last)) for h, p in self.hosts.items()}

    @property
    def timed_links(self) -> list[Link]:
        """List the exact links whose rate changes during the traffic, the bottleneck first."""
        links = (q for its in self.hosts.values() for q in its.qdiscs if isinstance(q, Link))
        timed = [link for link in links if len(link.steps) > 1]
        return sorted(timed, key=lambda link: link.where != bottleneck())

    @property
    def rates(self) -> tuple[LinkStep, ...]:
        """List the rates of the bottleneck, if it is an exact link."""
        qdiscs = self.hosts[bottleneck().host].qdiscs
        links = (q for q in qdiscs if isinstance(q, Link) and q.where == bottleneck())
        return next((link.steps for link in links), ())

    @property
    def flows(self) -> list[Flow]:
        """List the flows in the order of their start, but the flow under test first."""
        flows = (start.flow for start in self.starts)
        return sorted(flows, key=lambda flow: flow.name.startswith(COMPETITOR_PREFIX))

    @property
    def ends_on_time(self) -> bool:
        """Return whether the flows end with the run, apart from their start jitter.

        iperf3 sends for whole seconds from its start.
        """
        together = all(start.after_s <= START_JITTER_S for start in self.starts)
        return together and self.duration_s.is_integer()

    @property
    def data_ports(self) -> set[int] | None:
        """Return the source ports of the sender's connections that carry data; None: any may."""
        own = [flow.source_port for flow in self.flows if flow.protocol == "tcp"]
        if len(own) < len(self.flows) or None in own:
            return None
        others = self.background.streams if self.background else []
        return {*(port for port in own if port is not None), *(s.source_port for s in others)}

    @property
    def background_qdiscs(self) -> list[Qdisc]:
        """List the qdiscs of the background flows' own links."""
        return self.background.qdiscs if self.background else []

    @property
    def programs(self) -> list[Flow]:
        """List all pairs of programs: one per flow, and one for all background flows."""
        own = self.background.directions if self.background else []
        return [*self.flows, *(flow for flow, _ in own)]

    @property
    def lossy_sender(self) -> bool:
        """Return whether the sender's netem drops packets whose number losslab can count.

        The kernel counts a datagram that segmentation offload splits as one.
        """
        udp = apps()[self.app].udp_offloads
        return bool(self.path_spec.loss_at_sender_percent) and not udp

    @property
    def algorithms(self) -> set[str]:
        """Return the congestion controls that the kernel must have."""
        background = self.background.algorithms if self.background else []
        return {flow.algorithm for flow in self.flows} - {OWN} | set(background)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data, without absent parts."""
        all_parts = asdict(self)
        content = {name: part for name, part in all_parts.items() if part is not None}
        for host in content["hosts"].values():
            for name in ("udp_offloads", "kernels_sysctls", "route_attributes", "routes6"):
                if not host[name]:
                    del host[name]
            if host["mtu_bytes"] == packetsizes.DEFAULT.mtu_bytes:
                del host["mtu_bytes"]
        # The format of manifests has other names.
        content["promise"] = content.pop("path_spec")
        if "background" in content:
            content["crowd"] = content.pop("background")
            for name in ("back", "back_streams"):
                if not content["crowd"][name]:
                    del content["crowd"][name]
            del content["crowd"]["network"]["sources"]  # only user programs have any
        del content["promise"]["mechanisms"], content["promise"]["effect"]
        if not self.path_spec.buffer_may_limit:
            del content["promise"]["buffer_may_limit"]
        if self.path_spec.sizes == packetsizes.DEFAULT:
            del content["promise"]["sizes"]
        if more := self.path_spec.more():
            content["promise"]["more"] = more
        parts: dict[str, Any] = content.pop("parts")
        return {"links": []} | content | parts


def make_plan(condition: Condition, seed: int, video: Path | None = None) -> Plan:
    """Make the plan of a replicate; `video` is the stream that the app `ffmpeg` sends."""
    app = apps()[condition.app]
    flows = app.flows(condition, video)
    path_spec = _path_spec(condition)
    background = plan_background_flows(condition, seed, app.setup_rtts)
    bulk = sum(stream.bulk for stream in background.streams) if background else 0
    extension = app.network(condition).plus(
        background.network if background else NetworkExtension()
    )
    ends = [*INTERFACES, *extension.ends]
    qdiscs = [*path_qdiscs(condition, seed), *(background.qdiscs if background else [])]
    routes_of = routes(condition.path, extension)
    values = {host: sysctls(host, condition, ends) for host in (*HOSTS, *extension.hosts)}
    return Plan(
        app=condition.app,
        hosts={
            host: HostPlan(
                ip_commands=address_commands(
                    host, condition, extension, route_attributes(host, condition)
                ),
                routes={destination: out.name for destination, out in routes_of.get(host, [])},
                routes6={
                    destination6(destination): out.name
                    for destination, out in routes_of.get(host, [])
                    if condition.ip_version == 6
                },
                sysctls={n: v for n, v in values[host].items() if v != hostsettings.KERNEL},
                interfaces=[end.name for end in ends if end.host == host],
                offloads=condition.offloads,
                qdiscs=_of_host(host, qdiscs),
                udp_offloads=app.udp_offloads,
                kernels_sysctls=[n for n, v in values[host].items() if v == hostsettings.KERNEL],
                route_attributes=route_attributes(host, condition),
                mtu_bytes=condition.mtu_bytes,
            )
            for host in values
        },
        back_router=reverse_router(condition.path),
        starts=_starts(flows, condition, seed, own_start_s(seed) if background else 0.0),
        start_jitter_s=_jitter_s(seed, "start"),
        sample_interval_s=sample_interval_s(condition.rate_mbit, bulk, path_spec.sizes.frame_bytes),
        background=background,
        path_spec=path_spec,
        warmup_s=condition.warmup_s,
        duration_s=condition.duration_s,
        parts={
            name: part
            for used in path_spec.mechanisms
            for name, part in used.plan(condition, seed).items()
        },
    )


def _of_host(host: str, qdiscs: Sequence[Qdisc]) -> list[Qdisc]:
    return [qdisc for qdisc in qdiscs if qdisc.where.host == host]


def _path_spec(condition: Condition) -> PathSpec:
    at_sender, mechanisms = condition.sender_delay_ms > 0, mechanism.of(condition)
    effect = mechanism.effect_of(condition)
    return PathSpec(
        mechanisms=mechanisms,
        effect=effect,
        rtt_ms=condition.rtt_ms,
        rate_mbit=condition.rate_mbit,
        loss_percent=loss_percent(condition, "data"),
        loss_back_percent=loss_percent(condition, "back"),
        loss_at_sender_percent=condition.loss_percent if at_sender else None,
        single_packets=condition.offloads == "off",
        in_order=(
            condition.queue in IN_ORDER
            and condition.trace == NO_TRACE
            and condition.shaper != "htb-netem"
            and not (effect.below_ms or effect.above_ms or effect.mean_rate_mbit)
        ),
        by_trace=condition.trace != NO_TRACE,
        window_may_limit=(
            condition.receive_buffer != "large"
            or bool(condition.initrwnd_packets or condition.window_bytes)
            or hostsettings.may_limit(condition.sysctl, hostsettings.OF_WINDOWS)
        ),
        buffer_may_limit=hostsettings.may_limit(condition.sysctl, hostsettings.OF_BUFFERS),
        bucket_bytes=bucket_bytes(condition),
        ping_ms=_ping_ms(condition, effect),
        sizes=packetsizes.of(condition),
    )


def _ping_ms(condition: Condition, effect: Effect) -> float:
    if not exact(condition):
        return 0.0
    rates_mbit = [effect.reverse_rate_mbit]
    if condition.trace == NO_TRACE:
        rates_mbit.append(condition.rate_mbit)
    if condition.second_rate_mbit:
        rates_mbit.append(condition.second_rate_mbit)
    return sum(8 * ping_frame_bytes(condition.ip_version) / 1e3 / rate for rate in rates_mbit)


def _starts(flows: Sequence[Flow], condition: Condition, seed: int, first_s: float) -> list[Start]:
    """Draw the start of each flow's caller: in its window, or soon after the previous one.

    With a spread, draw the order, too: otherwise the flow under test always starts first.
    """
    spread_s = condition.start_spread_s
    if spread_s and random.Random(derived_seed(seed, "start-order")).random() < 0.5:
        flows = flows[::-1]
    starts = []
    for number, flow in enumerate(flows):
        at_s = None if number else first_s
        if flow.start_window_s is not None:
            draw = random.Random(derived_seed(seed, f"start-{flow.name}"))
            at_s = draw.uniform(*flow.start_window_s)
        after_s = _jitter_s(seed, f"start-{flow.name}", spread_s or START_JITTER_S)
        starts.append(Start(flow, at_s, after_s))
    return starts


def _jitter_s(seed: int, purpose: str, range_s: float = START_JITTER_S) -> float:
    return random.Random(derived_seed(seed, purpose)).uniform(0, range_s)


def sample_interval_s(
    rate_mbit: float, background_bulk: int = 0, frame_bytes: int = packetsizes.DEFAULT.frame_bytes
) -> float:
    """Return the sampling interval of flows and queue, 20 to 100 ms.

    It is longer on slow links, and with many bulk background flows, whose samples cost more.
    """
    packet_s = frame_bytes * 8 / 1e6 / rate_mbit
    flows_s = SAMPLE_PER_FLOW_S * background_bulk
    return min(max(SAMPLE_INTERVAL_S, SAMPLE_PACKETS * packet_s, flows_s), SAMPLE_INTERVAL_MAX_S)
