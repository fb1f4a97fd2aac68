"""A path that changes: what its qdiscs become and when, and whether each phase kept its promise.

Pure functions, from a condition to a plan and from evidence to reasons; `changing` carries it out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from losslab.emulation.mechanism import loss_percent, of, outside_interval
from losslab.emulation.probes.queue import QueueSample
from losslab.emulation.qdiscs import FRAME_BYTES, Shaper
from losslab.emulation.shaping import BURST_FRAMES, shapers
from losslab.emulation.topology import bottleneck, interface, reverse_router
from losslab.study import changes
from losslab.study.changes import Phase

if TYPE_CHECKING:
    from losslab.study.condition import Condition

# Per host what `tc -json -statistics qdisc show` says, as `hosts.read_back` has it.
State = Mapping[str, Any]

# What a path's rate, delay and loss are made by.
CHANGING = ("tbf", "netem")
# tbf hands its own limit to a FIFO behind it (fifo_set_limit, net/sched/sch_fifo.c), which is then
# told its own again.
FIFOS = ("pfifo", "bfifo")
# The mean is over windows of this length; shorter ones say more of the flow than of the path.
SETTLE_WINDOW_S = 1.0
# Of what the link carries: a flow that has this much of a new rate has found it. Ours; BBR's
# PROBE_BW alone spends 1 of 8 round trips at three quarters.
SETTLED_SHARE = 0.8
# Of a full packet on the link, what is the flow's: 1448 bytes with time stamps (RFC 7323).
PAYLOAD_SHARE = 1448 / FRAME_BYTES


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

    @property
    def last(self) -> list[Shaper]:
        """List the qdiscs as they are at the end."""
        return self.steps[-1].then


def plan_of(condition: Condition, seed: int) -> ChangePlan:
    """Plan a condition's changes."""
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
class Boundary:
    """What had been counted when a phase began, or at the end of all."""

    t_s: float  # when the reading was whole
    took_s: float  # from the first command to the last answer
    state: State


def counted(first: State, last: State, lines: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """Count the packets that each of some netem links was offered, and lost, between readings."""
    found = []
    for host, name in lines:
        before, after = (
            next(q for q in its[host]["qdiscs"] if (q.get("dev"), q.get("handle")) == (name, "1:"))
            for its in (first, last)
        )
        lost = after["drops"] - before["drops"]
        # What left, and what is still in it: packets are lost on their way in.
        inside = after["qlen"] - before["qlen"]
        found.append((after["packets"] - before["packets"] + inside + lost, lost))
    return found


def loss_reasons(its: ChangePlan, boundaries: Sequence[Boundary]) -> Iterator[str]:
    """Say which phase did not lose what it promised; there is a boundary more than phases."""
    for phase, (first, last) in zip(its.phases, pairwise(boundaries), strict=True):
        # Packets that passed between the first command and the last answer, either side.
        packets_per_s = phase.values["rate_mbit"] * 1e6 / 8 / FRAME_BYTES
        edge = sum(math.ceil(each.took_s * packets_per_s) for each in (first, last))
        ways = zip(
            ("", " on the way back"), its.strikes, counted(first.state, last.state, its.lines),
            strict=True,
        )  # fmt: skip
        for way, strikes, (offered, lost) in ways:
            percent, run = phase.values["loss_percent"] if strikes else 0.0, its.burst_packets
            if phase.outage:
                percent, run = 100.0, 1.0
            what = f"loss{way} from {phase.begin_s:g} s"
            if reason := outside_interval(what, percent, offered, lost, run, edge):
                yield reason


def rate_reasons(
    promised: Sequence[Phase], made_s: Sequence[float], queue: Sequence[QueueSample]
) -> Iterator[str]:
    """Say in which phase the bottleneck sent more than its rate allows.

    `made_s` has when the change was complete that began each phase.
    """
    for phase, since_s in zip(promised, made_s, strict=True):
        inside = [s for s in queue if since_s < s.t_s < phase.end_s]
        if len(inside) < 2:
            continue
        first, last = inside[0], inside[-1]
        rate, seconds = phase.values["rate_mbit"], last.t_s - first.t_s
        sent = last.sent_bytes - first.sent_bytes
        if sent > seconds * rate * 1e6 / 8 + BURST_FRAMES * FRAME_BYTES:
            yield (
                f"from {phase.begin_s:g} s the bottleneck must send at most {rate:g} Mbit/s, "
                f"found {sent * 8 / 1e6 / seconds:.3f} Mbit/s"
            )


def rtt_reasons(
    promised: Sequence[Phase],
    made_s: Sequence[float],
    replies: Sequence[tuple[float, float]],
    below_ms: float,
) -> Iterator[str]:
    """Say in which phase a ping was faster than the path, or came back in an outage.

    `made_s` is as of `rate_reasons`; one may be faster by `below_ms`.
    """
    for phase, since_s in zip(promised, made_s, strict=True):
        inside = [
            rtt_ms for t_s, rtt_ms in replies if since_s < t_s and t_s + rtt_ms / 1e3 < phase.end_s
        ]
        wanted_ms = phase.values["rtt_ms"]
        if inside and phase.outage:
            yield f"no ping may come back in the outage from {phase.begin_s:g} s"
        elif inside and min(inside) < wanted_ms - below_ms:
            yield (
                f"RTTs from {phase.begin_s:g} s must be at least {wanted_ms:g} ms, found "
                f"{min(inside):g} ms"
            )
