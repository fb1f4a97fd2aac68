"""Base of the path's mechanisms, each a module of `path` with a `FEATURE`, and the netem links.

All that netem draws comes of its seed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from losslab.emulation.qdiscs import NEVER_FULL_PACKETS, Shaper, netem
from losslab.emulation.topology import Interface
from losslab.study import features
from losslab.study.features import Feature
from losslab.study.seeds import derived_seed

if TYPE_CHECKING:
    from losslab.emulation.accounts import Traffic
    from losslab.emulation.batch import Handle
    from losslab.emulation.changing import Changing
    from losslab.emulation.checks import Evidence
    from losslab.emulation.flows import Host
    from losslab.emulation.outcome import Seen
    from losslab.emulation.plan import Plan
    from losslab.emulation.probes.queue import QueueSample
    from losslab.study.condition import Condition

# Two-sided normal quantile of a false alarm in 16,000 replicates.
Z = 4.0
FALSE_ALARM = 1 / 16_000
Option = tuple[str, Mapping[str, Any]]  # tc's words, and what must read back


@dataclass(frozen=True)
class Line:
    """Netem link: what it does to packets in one direction."""

    delay_ms: float  # of every packet
    loss_percent: float = 0.0  # each packet by itself
    options: tuple[Option, ...] = ()  # what follows the delay
    # Of further netems behind it: purpose, delay and options.
    behind: tuple[tuple[str, float, Option], ...] = ()

    def shapers(self, where: Interface, seed: int, purpose: str) -> list[Shaper]:
        """List its qdiscs.

        `purpose` says what its random numbers are for, among the replicate's others.
        """
        first = netem(
            where, self.delay_ms, self.loss_percent, derived_seed(seed, purpose),
            more=self.options,
        )  # fmt: skip
        behind = [
            netem(
                where, delay_ms, 0.0, derived_seed(seed, f"{purpose}-{what}"), NEVER_FULL_PACKETS,
                "parent 1:1", "10:", more=[option],
            )
            for what, delay_ms, option in self.behind
        ]  # fmt: skip
        return [first, *behind]


def loss_percent(condition: Condition, way: str) -> float:
    """Return the loss that the routers make on the way of `data` or `back`."""
    if way == "back":
        strikes = condition.loss_direction in ("both", "back")
    else:
        strikes = condition.sender_delay_ms == 0 and condition.loss_direction != "back"
    return condition.loss_percent if strikes else 0.0


def line(condition: Condition, way: str) -> Line:
    """Say what happens to `data` behind the bottleneck, or on the way `back`."""
    half_ms = (condition.rtt_ms - condition.sender_delay_ms) / 2
    its = Line(half_ms, loss_percent(condition, way))
    for mechanism in of(condition):
        its = mechanism.on_line(condition, way, its)
    return its


@dataclass(frozen=True)
class Noted:
    """Observations of a mechanism in a replicate."""

    summary: Mapping[str, Any] = field(default_factory=dict)  # metrics
    # Packets by what became of them, beside what `accounts.traffic` counts.
    counts: Mapping[str, int] = field(default_factory=dict)
    # What waited in the bottleneck, if it waited elsewhere than in its qdisc.
    waiting: Sequence[QueueSample] | None = None
    observed: Mapping[str, Any] = field(default_factory=dict)  # what the manifest has besides


@dataclass(frozen=True)
class Mechanism(Feature):
    """Path mechanism; its fields are its part of the path specification."""

    # It needs the routers' netem links, and counts packets, not aggregates.
    of_lines: ClassVar[bool] = False
    explains: ClassVar[Sequence[str]] = ()  # counts of `Traffic` that are 0 on paths without it
    with_second: ClassVar[bool] = False  # it may be used where there is a second bottleneck
    # Written in a plan wherever one that is used is: the first ones are.
    with_others: ClassVar[bool] = False

    def on(self, condition: Condition) -> bool:
        """Tell whether a condition turns it on, which the first of its axes says."""
        return next(iter(self.axes)) in self.changed(condition)

    def used(self, condition: Condition) -> bool:
        """Tell whether a condition's path has it."""
        return self.on(condition)

    def of(self, condition: Condition) -> Self:
        """Return it as a condition specifies it; here fields are called as their axes."""
        return replace(self, **{f.name: getattr(condition, f.name) for f in fields(self)})

    def specified(self) -> dict[str, Any]:
        """Write it as plans have it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def on_line(self, condition: Condition, way: str, its: Line) -> Line:
        """Change what netem does on a way."""
        return its

    def on_queue(self, condition: Condition, its: Shaper) -> Shaper:
        """Change the bottleneck's queue."""
        return its

    def qdiscs(self, condition: Condition) -> list[Shaper]:
        """List qdiscs and filters of its own."""
        return []

    def plan(self, condition: Condition, seed: int) -> dict[str, Any]:
        """Return further parts of a plan."""
        return {}

    def last_qdiscs(self, plan: Plan) -> list[Shaper] | None:
        """List all qdiscs as they are at the end; None where they are those of the start."""
        return None

    def loaded(self, plan: Plan) -> list[tuple[str, str]]:
        """List its Python programs, which are loaded before they are wanted: host and module."""
        return []

    def prepare(self, plan: Plan, folder: Path) -> None:
        """Write files that it needs into the job's folder."""

    def attached(
        self, plan: Plan, nodes: Mapping[str, Host], handles: Mapping[str, Handle], folder: Path
    ) -> contextlib.AbstractContextManager[dict[str, Any]]:
        """Run what it needs on hosts beside the traffic; give what `Seen.noted` is to have."""
        return contextlib.nullcontext({})

    def note(self, plan: Plan, seen: Seen, folder: Path) -> Noted:
        """Sum up what it left."""
        return Noted()

    def session(self, plan: Plan, handles: Mapping[str, Handle]) -> Changing | None:
        """Return what acts while the traffic runs, where something does."""
        return None

    @property
    def loss_run_packets(self) -> float:
        """Return the mean length of a run of losses."""
        return 1.0

    @property
    def below_ms(self) -> float:
        """Return by how much a ping on the idle path may be faster than the path."""
        return 0.0

    @property
    def above_ms(self) -> float:
        """Return by how much the fastest of some may be slower."""
        return 0.0

    @property
    def mean_rate_mbit(self) -> float | None:
        """Return the mean rate of the time that goodput is of, where the rate changes."""
        return None

    def reasons(self, e: Evidence) -> Iterator[str | None]:
        """Say what the path did not keep of it."""
        yield from ()

    def summary(self, t: Traffic) -> dict[str, float]:
        """Return its metrics."""
        return {}


def of(condition: Condition) -> list[Mechanism]:
    """List the mechanisms that a condition uses, as it specifies them."""
    return [each.of(condition) for each in features.mechanisms() if each.used(condition)]


def outside_interval(
    what: str, percent: float, offered: int, found: int, run_packets: float = 1.0, edge: int = 0
) -> str | None:
    """Say when the packets found are not `percent` of those offered, by the binomial interval.

    Of 0 %, any is too many. Runs of a mean length of `run_packets` make the interval wider: the
    variance of a two-state chain's sum is the binomial's times (1 + c) / (1 - c) with c its
    correlation from one packet to the next. `edge` packets may have been picked before or after.
    """
    p, wider = percent / 100, 1.0
    if run_packets > 1 and p:
        correlation = 1 - sum(burst_chances(p, run_packets))
        wider = (1 + correlation) / (1 - correlation)
    tolerance = edge + (Z * math.sqrt(p * (1 - p) * offered * wider) + 1 if p else 0.0)
    if abs(found - p * offered) <= tolerance:
        return None
    share = 100 * found / offered if offered else 0.0
    return (
        f"{what} must be {percent:g} % of {offered} packets (within {tolerance:.0f}), found "
        f"{found} ({share:.3f} %)"
    )


def burst_chances(share: float, burst_packets: float) -> tuple[float, float]:
    """Return the chances per packet that a burst begins, and that it ends (Gilbert 1960).

    The mean number of losses in a row is 1 / ends, the share lost begins / (begins + ends).
    """
    ends = 1 / burst_packets
    return ends * share / (1 - share), ends
