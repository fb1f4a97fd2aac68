"""Base class of path mechanisms, and the netem links.

Each mechanism is a module of `path` with a `FEATURE`. netem draws every random number from its
seed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from losslab.emulation.qdiscs import NEVER_FULL_PACKETS, LinkStep, Qdisc, netem
from losslab.emulation.topology import Interface
from losslab.study import features
from losslab.study.axes import derived_seed
from losslab.study.features import Feature

if TYPE_CHECKING:
    from losslab.emulation.accounting import Traffic
    from losslab.emulation.hosts import Handle
    from losslab.emulation.probes import QueueSample
    from losslab.emulation.programs import Host
    from losslab.study.condition import Condition

# Two-sided normal quantile for one false alarm in 16,000 replicates.
Z = 4.0
FALSE_ALARM = 1 / 16_000
Option = tuple[str, Mapping[str, Any]]  # tc arguments, and the options that tc must read back


@dataclass(frozen=True)
class NetemLink:
    """Netem link: delay and impairments of one direction."""

    delay_ms: float  # of every packet
    loss_percent: float = 0.0  # independent for each packet
    options: tuple[Option, ...] = ()  # follow the delay
    # Child netems: purpose of the seed, delay and option.
    children: tuple[tuple[str, float, Option], ...] = ()

    def plus(self, arguments: str, expected: Mapping[str, Any]) -> NetemLink:
        """Return the link with one more option."""
        return replace(self, options=(*self.options, (arguments, expected)))

    def qdiscs(self, where: Interface, seed: int, purpose: str) -> list[Qdisc]:
        """List the link's qdiscs; their seeds are derived for `purpose`."""
        first = netem(
            where, self.delay_ms, self.loss_percent, derived_seed(seed, purpose),
            more=self.options,
        )  # fmt: skip
        children = [
            netem(
                where, delay_ms, 0.0, derived_seed(seed, f"{purpose}-{child}"), NEVER_FULL_PACKETS,
                "parent 1:1", "10:", more=[option],
            )
            for child, delay_ms, option in self.children
        ]  # fmt: skip
        return [first, *children]


def loss_percent(condition: Condition, direction: str) -> float:
    """Return the loss at the routers' netem on the forward (`data`) or reverse (`back`) path."""
    if direction == "back":
        lossy = condition.loss_direction in ("both", "back")
    else:
        lossy = condition.sender_delay_ms == 0 and condition.loss_direction != "back"
    return condition.loss_percent if lossy else 0.0


def netem_link(condition: Condition, direction: str) -> NetemLink:
    """Build the netem link of the forward (`data`) or reverse (`back`) path."""
    half_ms = (condition.rtt_ms - condition.sender_delay_ms) / 2
    link = NetemLink(half_ms, loss_percent(condition, direction))
    for mechanism in of(condition):
        link = mechanism.on_netem_link(condition, direction, link)
    return link


@dataclass(frozen=True)
class MechanismResult:
    """Results of a mechanism in a replicate."""

    summary: Mapping[str, Any] = field(default_factory=dict)  # metrics
    # Packets that `accounting.traffic` cannot count itself, by counter.
    counts: Mapping[str, int] = field(default_factory=dict)
    # Samples of the bottleneck's queue, if it is not a qdisc.
    waiting: Sequence[QueueSample] | None = None
    observed: Mapping[str, Any] = field(default_factory=dict)  # further entries of the manifest


@dataclass(frozen=True)
class Effect:
    """Effect of a mechanism on what a path may show, besides its qdiscs."""

    below_ms: float = 0.0  # by how much a ping on the idle path may be faster than the base RTT
    above_ms: float = 0.0  # by how much the fastest ping on the idle path may exceed the base RTT
    mean_rate_mbit: float | None = None  # over the goodput's interval; None: the rate is constant
    loss_run_packets: float = 1.0  # mean length of a loss burst
    reverse_rate_mbit: float = math.inf  # of the reverse path's bottleneck
    # Directions, `data` and `back`, whose losses the mechanism checks itself.
    checked_losses: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Mechanism(Feature):
    """Path mechanism; its fields are its part of the path specification.

    Arguments of its methods that have no type here are a `plan.Plan`, the `outcome.Observations` of
    a replicate and the `checks.Evidence` for its checks. These modules import this one.
    """

    # Needs the routers' netem links, and offloads off so that packets, not aggregates, are counted.
    needs_netem_links: ClassVar[bool] = False
    # Its metrics that are counts of `Traffic`, by name; most are 0 on paths without it.
    counted: ClassVar[Mapping[str, str]] = {}
    with_second: ClassVar[bool] = False  # allowed with a second bottleneck

    @property
    def explains(self) -> Sequence[str]:
        """Counts of `Traffic` that may not be 0 because of it."""
        return tuple(self.counted.values())

    def on(self, condition: Condition) -> bool:
        """Return whether a condition changes the first of the mechanism's axes."""
        return next(iter(self.axes)) in self.changed(condition)

    def used(self, condition: Condition) -> bool:
        """Return whether a condition's path has the mechanism."""
        return self.on(condition)

    def of(self, condition: Condition) -> Self:
        """Return the mechanism with a condition's values; by default fields are named as axes."""
        return replace(self, **{f.name: getattr(condition, f.name) for f in fields(self)})

    def effect(self, condition: Condition) -> Effect:
        """Return what the path may show because of the mechanism."""
        return Effect()

    def on_netem_link(self, condition: Condition, direction: str, link: NetemLink) -> NetemLink:
        """Change the netem link of a direction, `data` or `back`."""
        return link

    def on_queue(self, condition: Condition, qdisc: Qdisc) -> Qdisc:
        """Change the bottleneck's queue."""
        return qdisc

    def link_steps(self, condition: Condition, seed: int) -> Sequence[LinkStep]:
        """List the steps of the bottleneck's rate with the shaper `link`; empty: it is constant."""
        return ()

    def qdiscs(self, condition: Condition) -> list[Qdisc]:
        """List additional qdiscs and filters."""
        return []

    def plan(self, condition: Condition, seed: int) -> dict[str, Any]:
        """Return further parts of a plan."""
        return {}

    def attached(
        self, plan: Any, nodes: Mapping[str, Host], handles: Mapping[str, Handle], folder: Path
    ) -> contextlib.AbstractContextManager[dict[str, Any]]:
        """Run programs during the traffic; yield entries of `Observations.noted`."""
        return contextlib.nullcontext({})

    def note(self, plan: Any, observations: Any, folder: Path) -> MechanismResult:
        """Collect the mechanism's results once the traffic is over and all queues are empty."""
        return MechanismResult()

    def violations(self, e: Any) -> Iterator[str | None]:
        """Yield the mechanism's violations of the path specification."""
        yield from ()

    def summary(self, t: Traffic) -> dict[str, float]:
        """Return the mechanism's metrics: by default those of `counted`."""
        return {name: getattr(t, count) for name, count in self.counted.items()}

    def observed(self, e: Any) -> dict[str, Any]:
        """Return further entries of the manifest's observations."""
        return {}


def mechanisms() -> list[Mechanism]:
    """List all path mechanisms."""
    return [*features.modules("mechanisms").values()]


def of(condition: Condition) -> list[Mechanism]:
    """List the mechanisms that a condition uses, with the condition's values."""
    return [each.of(condition) for each in mechanisms() if each.used(condition)]


def effect_of(condition: Condition) -> Effect:
    """Return the effect of all mechanisms that a condition uses."""
    found = [each.effect(condition) for each in of(condition)]
    rates_mbit = (each.mean_rate_mbit for each in found)
    return Effect(
        below_ms=sum(each.below_ms for each in found),
        above_ms=sum(each.above_ms for each in found),
        mean_rate_mbit=next((rate for rate in rates_mbit if rate is not None), None),
        reverse_rate_mbit=min((each.reverse_rate_mbit for each in found), default=math.inf),
        loss_run_packets=max((each.loss_run_packets for each in found), default=1.0),
        checked_losses=frozenset().union(*(each.checked_losses for each in found)),
    )


def outside_acceptance_interval(
    name: str, percent: float, offered: int, affected: int, run_packets: float = 1.0, edge: int = 0
) -> str | None:
    """Return a violation if `affected` is outside the binomial acceptance interval; None if inside.

    For an expected share of 0 %, any packet is a violation. Bursts with a mean of `run_packets`
    widen the interval: the variance of a two-state Markov chain's sum is the binomial's times (1 +
    c) / (1 - c), with c the correlation of consecutive packets. `edge` packets may belong to the
    time before or after. `name` is the impairment's in the message.
    """
    p, wider = percent / 100, 1.0
    if run_packets > 1 and p:
        correlation = 1 - sum(burst_chances(p, run_packets))
        wider = (1 + correlation) / (1 - correlation)
    tolerance = edge + (Z * math.sqrt(p * (1 - p) * offered * wider) + 1 if p else 0.0)
    if abs(affected - p * offered) <= tolerance:
        return None
    share = 100 * affected / offered if offered else 0.0
    return (
        f"{name} must be {percent:g} % of {offered} packets (within {tolerance:.0f}), found "
        f"{affected} ({share:.3f} %)"
    )


def burst_chances(share: float, burst_packets: float) -> tuple[float, float]:
    """Return the probabilities per packet that a loss burst begins and ends (Gilbert 1960).

    The mean burst length is 1 / ends, the share lost begins / (begins + ends).
    """
    ends = 1 / burst_packets
    return ends * share / (1 - share), ends
