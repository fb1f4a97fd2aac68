"""Path schedule: rate, delay and loss that change while the traffic runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from losslab.emulation.changing import Changing
from losslab.emulation.mechanism import Mechanism, loss_percent, of
from losslab.emulation.qdiscs import Shaper
from losslab.emulation.shaping import shapers
from losslab.emulation.topology import bottleneck, interface, reverse_router
from losslab.errors import LosslabError
from losslab.study import changes
from losslab.study.axes import NONE, axis
from losslab.study.changes import Phase

if TYPE_CHECKING:
    from losslab.emulation.batch import Handle
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

# What a path's rate, delay and loss are made by.
CHANGING = ("tbf", "netem")
# tbf hands its own limit to a FIFO behind it (fifo_set_limit, net/sched/sch_fifo.c), which is then
# told its own again.
FIFOS = ("pfifo", "bfifo")


@dataclass(frozen=True)
class Step:
    """A change of qdiscs: the phase that it begins, and what they are from then on."""

    phase: Phase
    becoming: list[Shaper]  # in the order in which they are told
    then: list[Shaper]  # all, as they must read back


def phases_of(condition: Condition) -> list[Phase]:
    """List a condition's phases; one where nothing changes."""
    found = changes.phases(
        condition.changes, {name: getattr(condition, name) for name in changes.SET}
    )
    return changes.until(found, condition.duration_s)


def as_in(condition: Condition, phase: Phase) -> Condition:
    """Return a condition as it is in a phase; in an outage it loses everything."""
    its = type(condition).from_json(condition.to_json() | phase.values | {"changes": changes.NONE})
    if not phase.outage:
        return its
    everything = {"loss_percent": 100.0, "loss_burst_packets": 1.0, "loss_direction": "both"}
    return type(its).from_json(its.to_json() | everything)


def steps(condition: Condition, seed: int) -> list[Step]:
    """List what becomes of a path's qdiscs, phase by phase.

    What changes draws anew from a seed of its own; all else goes on.
    """
    first, *later = phases_of(condition)
    now = {(q.where.name, q.handle): q for q in shapers(as_in(condition, first), seed)}
    before = {key: q.arguments for key, q in now.items()}
    found = []
    for number, phase in enumerate(later, start=1):
        its = as_in(condition, phase)
        plain = {(q.where.name, q.handle): q for q in shapers(its, seed)}
        own = {(q.where.name, q.handle): q for q in shapers(its, seed + number * 2**31)}
        becoming = [
            own[key]
            for key, q in plain.items()
            if q.kind in CHANGING and q.arguments != before[key]
        ]
        if any(q.kind == "tbf" for q in becoming):
            becoming += [
                q for (name, _), q in now.items() if name == bottleneck().name and q.kind in FIFOS
            ]
        before = {key: q.arguments for key, q in plain.items()}
        now |= {(q.where.name, q.handle): q for q in becoming}
        found.append(Step(phase, becoming, list(now.values())))
    return found


@dataclass(frozen=True)
class ChangePlan:
    """What changes, and what is promised of it."""

    steps: list[Step]
    phases: list[Phase]  # the first included; the last ends with the run
    strikes: tuple[bool, bool]  # whether loss strikes data, and acknowledgements
    burst_packets: float
    early_ms: float  # by which a ping may be faster
    lines: list[tuple[str, str]]  # host and interface of both delay lines


def change_plan(condition: Condition, seed: int) -> ChangePlan:
    """Plan a condition's changes, and what is promised of them."""
    sure = as_in(condition, Phase(0.0, 0.0, {"loss_percent": 1.0}))
    ends = (interface("r2", "receiver"), interface(reverse_router(condition.path), "r1"))
    return ChangePlan(
        steps=steps(condition, seed),
        phases=phases_of(condition),
        strikes=(loss_percent(sure, "data") > 0, loss_percent(sure, "back") > 0),
        burst_packets=condition.loss_burst_packets,
        early_ms=sum(each.below_ms for each in of(condition)),
        lines=[(end.host, end.name) for end in ends],
    )


@dataclass(frozen=True)
class Schedule(Mechanism):
    """Mean rate of the time that goodput is of; loss is judged phase by phase."""

    scheduled_mbit: float | None = None

    order = 1
    with_others = True
    after = "write_kib"
    axes = {
        "changes": axis(
            NONE,
            help="what becomes of the path while it runs: `at_s=10,rate_mbit=2+at_s=15,"
            "rate_mbit=20`, of `rate_mbit`, `rtt_ms`, `loss_percent` and `outage_s`, so long "
            "everything is lost",
            pattern="[a-z0-9_=.,+]+", named="changes-{}",
        )
    }  # fmt: skip

    def of(self, condition: Condition) -> Self:
        """Return the mean rate of what may be acknowledged in the time that goodput is of.

        That passed the bottleneck up to a round trip before.
        """
        if condition.changes == NONE:
            return self
        found = phases_of(condition)
        longest_s = max(phase.values["rtt_ms"] for phase in found) / 1e3
        begin_s, end_s = max(0.0, condition.warmup_s - longest_s), condition.duration_s
        carried = sum(
            max(0.0, phase.end_s - max(phase.begin_s, begin_s)) * phase.values["rate_mbit"]
            for phase in found
        )
        return replace(self, scheduled_mbit=carried / (end_s - condition.warmup_s))

    def specified(self) -> dict[str, Any]:
        return {"mean_rate_mbit": self.scheduled_mbit}

    def conflicts(self, condition: Condition) -> Iterator[str]:
        its = condition
        if its.changes == NONE:
            return
        if its.shaper != "tbf" or its.sender_delay_ms > 0:
            yield "changes must be none with sender_delay_ms or the shaper htb-netem, found changes"
        if its.trace != NONE and "rate_mbit" in its.changes:
            yield "changes must leave rate_mbit alone with a trace, which is the link's rate"
        try:
            found = changes.phases(its.changes, {name: getattr(its, name) for name in changes.SET})
        except LosslabError as error:
            yield error.message
            return
        last_s = found[-1].begin_s
        if last_s >= its.duration_s:
            yield (
                f"changes must end before the run does, at {its.duration_s:g} s, found one at "
                f"{last_s:g} s"
            )
        for phase in found[1:]:
            bare = phase.values["rtt_ms"] == 0
            if bare:
                yield "changes must keep some rtt_ms, whose delay lines they change, found 0"
            if not bare:
                where = f"changes, from {phase.begin_s:g} s: "
                same = type(its).from_json(its.to_json() | phase.values | {"changes": NONE})
                yield from (where + words for words in same.problems())

    def plan(self, condition: Condition, seed: int) -> dict[str, Any]:
        return {"changes": change_plan(condition, seed)}

    def last_qdiscs(self, plan: Plan) -> list[Shaper]:
        last: list[Shaper] = plan.parts["changes"].steps[-1].then
        return last

    def session(self, plan: Plan, handles: Mapping[str, Handle]) -> Changing:
        return Changing(plan.parts["changes"], handles)

    @property
    def mean_rate_mbit(self) -> float | None:
        return self.scheduled_mbit


FEATURE = Schedule()
