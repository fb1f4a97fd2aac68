"""Path schedule: rate, delay and loss that change while the traffic runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from losslab.emulation import droplist
from losslab.emulation.mechanism import Effect, Mechanism, effect_of, loss_percent
from losslab.emulation.qdiscs import LOSES, UNLIMITED, LinkStep, Qdisc, link, rate_of
from losslab.emulation.schedule_runner import ChangePlan, Step
from losslab.emulation.shaping import exact, path_qdiscs
from losslab.emulation.topology import bottleneck, interface, reverse_router
from losslab.errors import LosslabError
from losslab.study import schedule
from losslab.study.axes import NONE, axis
from losslab.study.schedule import Phase

if TYPE_CHECKING:
    from losslab.study.condition import Condition

# Qdiscs that set a path's rate, delay and loss.
CHANGING = ("tbf", "netem")
# tbf passes its own limit to the FIFO behind it (fifo_set_limit, net/sched/sch_fifo.c). The FIFO's
# limit is therefore set again after each change of tbf.
FIFOS = ("pfifo", "bfifo")


def phases_of(condition: Condition) -> list[Phase]:
    """List a condition's phases; a single one without a path schedule."""
    start = {name: getattr(condition, name) for name in schedule.SET}
    return schedule.until(schedule.phases(condition.changes, start), condition.duration_s)


def as_in(condition: Condition, phase: Phase) -> Condition:
    """Return the condition that holds in a phase; an outage loses every packet."""
    values = phase.values | {"changes": schedule.NONE}
    in_phase = type(condition).from_json(condition.to_json() | values)
    if not phase.outage:
        return in_phase
    everything = {"loss_percent": 100.0, "loss_burst_packets": 1.0, "loss_direction": "both"}
    return type(condition).from_json(in_phase.to_json() | everything)


def link_steps(phases: Sequence[Phase], rates: Sequence[int]) -> list[LinkStep]:
    """List a link's steps, one for each phase with its rate in bit/s, and one after the run.

    The last step counts what the link sends after the configured end.
    """
    steps = [
        LinkStep(round(phase.begin_s * 1e9), rate, LOSES if phase.outage else 0)
        for phase, rate in zip(phases, rates, strict=True)
    ]
    return [*steps, LinkStep(round(phases[-1].end_s * 1e9), rates[-1])]


def netem_spans(phases: Sequence[Phase]) -> list[Phase]:
    """List the periods in which the netem links of a path with exact links are constant.

    Exact links themselves change the rate, and lose all packets of an outage.
    """
    spans: list[Phase] = []
    for phase in phases:
        span = replace(
            phase, outage=False, values=phase.values | {"rate_mbit": phases[0].values["rate_mbit"]}
        )
        if spans and spans[-1].values == span.values:
            spans[-1] = replace(spans[-1], end_s=span.end_s)
        else:
            spans.append(span)
    return spans


def steps(condition: Condition, seed: int) -> list[Step]:
    """List the changes of qdiscs by phase; a changed netem draws from a new seed.

    Exact links change by themselves.
    """
    spans, now_as = phases_of(condition), condition
    kinds: tuple[str, ...] = CHANGING
    if exact(condition):
        spans, kinds = netem_spans(spans), ("netem",)
    else:
        now_as = as_in(condition, spans[0])
    now = {(q.where.name, q.handle): q for q in path_qdiscs(now_as, seed)}
    before = {key: q.arguments for key, q in now.items()}
    changes = []
    for number, phase in enumerate(spans[1:], start=1):
        in_phase = as_in(condition, phase)
        plain = {(q.where.name, q.handle): q for q in path_qdiscs(in_phase, seed)}
        reseeded = {
            (q.where.name, q.handle): q for q in path_qdiscs(in_phase, seed + number * 2**31)
        }
        becoming = [
            reseeded[key]
            for key, q in plain.items()
            if q.kind in kinds and q.arguments != before[key]
        ]
        if any(q.kind == "tbf" for q in becoming):
            becoming += [
                q for (name, _), q in now.items() if name == bottleneck().name and q.kind in FIFOS
            ]
        before = {key: q.arguments for key, q in plain.items()}
        now |= {(q.where.name, q.handle): q for q in becoming}
        changes.append(Step(phase, becoming, list(now.values())))
    return changes


def change_plan(condition: Condition, seed: int, phases: list[Phase] | None = None) -> ChangePlan:
    """Make the schedule of a condition's path; exact links may have other `phases`."""
    lossy = as_in(condition, Phase(0.0, 0.0, {"loss_percent": 1.0}))
    ends = (interface("r2", "receiver"), interface(reverse_router(condition.path), "r1"))
    listed = droplist.parse(condition.drop_list)
    strikes = [
        None if way in listed else loss_percent(lossy, link) > 0
        for way, link in droplist.DIRECTIONS.items()
    ]
    return ChangePlan(
        steps=steps(condition, seed),
        phases=phases or phases_of(condition),
        strikes=strikes,
        burst_packets=condition.loss_burst_packets,
        early_ms=effect_of(condition).below_ms,
        lines=[(end.host, end.name) for end in ends],
    )


@dataclass(frozen=True)
class Schedule(Mechanism):
    """Path schedule; goodput is compared with its mean rate, loss phase by phase."""

    mean_rate_mbit: float | None = None

    order = 1
    axes = {
        "changes": axis(
            NONE,
            help="path schedule, changes while the traffic runs: `at_s=10,rate_mbit=2+at_s=15,"
            "rate_mbit=20`; keys are `rate_mbit`, `rtt_ms`, `loss_percent`, and `outage_s`, the "
            "time for which every packet is lost",
            pattern="[a-z0-9_=.,+]+", named="changes-{}", commas=True,
        )
    }  # fmt: skip

    def of(self, condition: Condition) -> Self:
        """Return the mechanism with the bottleneck's mean rate over the goodput's interval.

        Data that is acknowledged then has passed the bottleneck up to a round trip earlier.
        """
        if condition.changes == NONE:
            return self
        phases = phases_of(condition)
        longest_s = max(phase.values["rtt_ms"] for phase in phases) / 1e3
        begin_s, end_s = max(0.0, condition.warmup_s - longest_s), condition.duration_s
        carried = sum(
            max(0.0, phase.end_s - max(phase.begin_s, begin_s)) * phase.values["rate_mbit"]
            for phase in phases
        )
        return replace(self, mean_rate_mbit=carried / (end_s - condition.warmup_s))

    def effect(self, condition: Condition) -> Effect:
        return Effect(mean_rate_mbit=self.mean_rate_mbit)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.changes == NONE:
            return
        if condition.shaper == "htb-netem" or condition.sender_delay_ms > 0:
            yield "changes must be none with sender_delay_ms or the shaper htb-netem"
        if condition.trace != NONE and "rate_mbit" in condition.changes:
            yield "changes must not set rate_mbit with a trace, because the trace is the rate"
        try:
            start = {name: getattr(condition, name) for name in schedule.SET}
            phases = schedule.phases(condition.changes, start)
        except LosslabError as error:
            yield error.message
            return
        last_s = phases[-1].begin_s
        if last_s >= condition.duration_s:
            yield (
                f"every change must come before the run's end at {condition.duration_s:g} s, found "
                f"one at {last_s:g} s"
            )
        elif exact(condition):
            try:
                link(bottleneck(), self.link_steps(condition, 0))
            except LosslabError as error:
                yield f"changes must be at least 1 ns apart: {error.message}"
        if any(phase.values["rtt_ms"] == 0 for phase in phases):
            yield (
                "changes need an rtt_ms above 0 all the time, because a path without delay has no "
                "netem"
            )
        for phase in phases[1:]:
            if phase.values["rtt_ms"] > 0:
                where = f"changes, from {phase.begin_s:g} s: "
                values = phase.values | {"changes": NONE}
                in_phase = type(condition).from_json(condition.to_json() | values)
                yield from (where + problem for problem in in_phase.problems())

    def link_steps(self, condition: Condition, seed: int) -> list[LinkStep]:
        phases = phases_of(condition)
        unlimited = condition.trace != NONE
        rates = [UNLIMITED if unlimited else rate_of(p.values["rate_mbit"]) for p in phases]
        return link_steps(phases, rates)

    def qdiscs(self, condition: Condition) -> list[Qdisc]:
        """Return what loses the packets of the reverse path in an outage, with exact links."""
        phases = phases_of(condition)
        if not exact(condition) or not any(phase.outage for phase in phases):
            return []
        where = interface("receiver", reverse_router(condition.path))
        return [link(where, link_steps(phases, [UNLIMITED for _ in phases]))]

    def plan(self, condition: Condition, seed: int) -> dict[str, Any]:
        return {"changes": change_plan(condition, seed)}


FEATURE = Schedule()
